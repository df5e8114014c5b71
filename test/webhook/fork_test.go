package webhook_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/github/githubtest"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// waits returns the run that a delivery about a fork led to, and fails the test unless it waits.
func waits(t *testing.T, w *forge.World, d forge.Delivery) client.Run {
	t.Helper()
	response := w.In(t).Hears(d)
	if len(response.Runs) != 1 {
		t.Fatalf("the delivery led to the runs %v: %s", response.Runs, response.Decision)
	}
	var run client.Run
	id := response.Runs[0][strings.LastIndex(response.Runs[0], "/")+1:]
	w.In(t).Call(http.MethodGet, "/runs/"+id, nil, &run)
	testkit.Equal(t, "state", run.State, landfall.RunWaiting)
	return run
}

// approved approves a fork's commit as a person does, waits for the end of the run, and returns it.
func approved(t *testing.T, w *forge.World, commit landfall.CommitSHA, state landfall.RunState) client.Run {
	t.Helper()
	out, code := w.In(t).Run(t.TempDir(), "run", "approve", string(commit[:7]), "-o", "json")
	if code != 0 {
		t.Fatalf("run approve got the exit code %d:\n%s", code, out)
	}
	run := w.In(t).Final(testkit.Decode[client.Run](t, []byte(out)).ID)
	testkit.Equal(t, "state of the approved run: "+run.Reason, run.State, state)
	return run
}

// buildSh is what the base branch builds: it has a secret and a network.
const buildSh = `set -e
mkdir -p site
cp page.html site/index.html
printf '%s' "${#BUILD_KEY}" > site/key.txt
curl --silent --show-error --fail "$FORGE/harbor/shop.git/HEAD" > site/net.txt || echo none > site/net.txt
`

// stealSh is a fork's build that takes what it can get.
const stealSh = `mkdir -p site
cp page.html site/index.html
env > site/env.txt
cat "$HOME/.npmrc" "$HOME/.netrc" >> site/env.txt 2>/dev/null
curl --silent "$FORGE/harbor/shop.git/HEAD" > site/net.txt || echo none > site/net.txt
`

// reaches is a function that answers with a secret, and with what it gets from an address.
const reaches = `import os
import urllib.request


def main(event):
    try:
        got = urllib.request.urlopen(os.environ["address"], timeout=5).read().decode().strip()
    except Exception:
        got = "no network"
    return os.environ.get("STRIPE_KEY", "no secret") + ", " + got
`

// A pull request from a fork, from its opening to its merge: nothing of it is done before somebody approves the very
// commit; then it is built with nothing that is worth taking, looked at, and merged, which builds it anew. It may be a
// draft, or have lost its fork, or be large.
func TestForks(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t)
	t.Run("from open to merge", func(t *testing.T) {
		t.Parallel()
		openToMerge(t, w.In(t))
	})
	t.Run("a build's output", func(t *testing.T) {
		t.Parallel()
		outputs(t, w.In(t))
	})
	t.Run("odd ones", func(t *testing.T) {
		t.Parallel()
		odd(t, w.In(t))
	})
	t.Run("a label", func(t *testing.T) {
		t.Parallel()
		labelled(t, w.In(t))
	})
}

func openToMerge(t *testing.T, w *forge.World) {
	t.Helper()
	h, _ := w.Follow("shop")
	address := w.Address
	app := func(command string) string {
		return site.AppSpec("shop", "config: {address: "+address+"/harbor/shop.git/HEAD}",
			"build: {command: "+command+", outputs: [site], env: {FORGE: "+address+"}}")
	}
	functions := strings.Replace(site.Naming(site.FunctionsSpec("python-env", "pay pay.main"), "STRIPE_KEY"),
		"  secrets:", "  allowAccessToExternalNetwork: true\n  secrets:", 1)
	h.Write("specs/app.yaml", app("sh build.sh"), "specs/functions.yaml", functions, "build.sh", buildSh, "page.html", "ours",
		"pay/pay.py", reaches)
	w.SetSecret("shop", "STRIPE_KEY", "the-value-of-production")
	w.SetSecret("shop", "BUILD_KEY", "the-value-for-builds", "--build")
	one := h.Commit("Ours")
	w.Hears(h.Send("main"))
	ours := w.Ends("shop", one, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "shop", "/key.txt", "20")
	site.WantServed(t, w.Site, "shop", "/net.txt", "ref: refs/heads/main\n")
	site.WantServed(t, w.Site, "shop", "/api/pay", "the-value-of-production, ref: refs/heads/main")

	// Somebody opens a pull request whose build takes what it can, and whose specs ask for more.
	f := h.Fork(t, 12)
	f.Write("build.sh", stealSh, "page.html", "theirs", "specs/app.yaml", app("sh steal.sh"), "steal.sh", "exit 9")
	asked := w.Requests(h.Name)
	evil, told := f.Push("opened_fork", "Fix a typo")
	run := waits(t, w, told)
	w.Says(h, 12, "### shop · waiting for approval", evil.Short(), "landfall run approve "+run.ID, landfall.ApprovalLabel)
	out, _ := w.Run(t.TempDir(), "run", "list", "--state", "waiting")
	testkit.Contains(t, site.Told{out}, run.ID, evil.Short())
	testkit.Contains(t, site.Told{w.ReadAs(w.RunPage(run.ID)).Body}, "/runs/"+run.ID+"/approve", "waits for approval")
	w.Eventually("the forge hears of it", func() bool { return len(w.API.Statuses(string(evil))) == 1 })
	status := w.API.Statuses(string(evil))[0]
	// L-009: the status says how to approve, and leads to the run L-006: what needs approval has a text of its own
	testkit.Equal(t, "status", fmt.Sprint(status.State, " ", status.Description, " ", status.Target),
		"pending Waits for approval by a person with write access: landfall run approve "+run.ID+" "+w.RunPage(run.ID))
	// L-021: no fork runs by itself: nothing of it was fetched
	testkit.Equal(t, "requests for the repository", w.Requests(h.Name), asked)

	// A push takes the place of what waits, and the old commit cannot be approved any more.
	f.Write("page.html", "theirs, again")
	again, told := f.Push("synchronize_fork_deleted", "Fix another one")
	next := waits(t, w, told)
	// L-010: a push supersedes a run that waits
	forge.WantTold(t, w, evil, landfall.StatusError, w.RunPage(run.ID), "Superseded by "+again.Short())
	out, code := w.Run(t.TempDir(), "run", "approve", run.ID)
	// S18: an approval is of one commit
	testkit.Equal(t, "exit code of an approval of the old commit", code, 4)
	testkit.Contains(t, site.Told{out}, "does not wait for approval", "superseded")

	// It is approved all the same, and finds nothing.
	theirs := approved(t, w, again, landfall.RunSucceeded)
	testkit.Equal(t, "id of the run", theirs.ID, next.ID)
	host := "shop--" + string(theirs.Release)
	site.WantServed(t, w.Site, host, "/index.html", "theirs, again")
	site.WantServed(t, w.Site, "shop--pr-12", "/index.html", "theirs, again")
	env := w.Get(w.At(host, "/env.txt")).Body
	// S18: no secret of builds is where a fork's build can see it; and its build is the base branch's
	if strings.Contains(env, "the-value") || strings.Contains(env, "BUILD_KEY") || !strings.Contains(env, "FORGE=") {
		t.Errorf("the fork's build has the variables %s, want the base branch's and no secret", env)
	}
	// S18: builds of a fork reach no host
	site.WantServed(t, w.Site, host, "/net.txt", "forks build without a network\n")
	// S18: functions of a fork have no secret and no network
	site.WantServed(t, w.Site, host, "/api/pay", "no secret, no network")
	w.Says(h, 12, "### shop · preview ready", w.Label(host))
	out, _ = w.Run(t.TempDir(), "run", "show", theirs.ID)
	testkit.Contains(t, site.Told{out}, "12, of a fork", "by admin, ", "with: landfall run approve")
	log, _ := w.Run(t.TempDir(), "run", "logs", theirs.ID)
	testkit.Contains(t, site.Told{log}, "approved by admin", "gets none of the secrets that it names",
		"build, environments and limits are those of main at "+one.Short())

	// What was made of it is only looked at.
	testkit.Equal(t, "live", w.ShowApp("shop").Live, ours.Release)
	for _, move := range [][]string{{"live"}, {"rollback"}, {"tag"}} {
		args := append([]string{"release"}, append(move, "shop", string(theirs.Release))...)
		if move[0] == "tag" {
			args = append(args, "staging")
		}
		out, code := w.Run(t.TempDir(), args...)
		// S18: the release of a fork never becomes live, nor gets a name
		testkit.Equal(t, strings.Join(args, " ")+": exit code "+out, code, 4)
		testkit.Contains(t, site.Told{out}, "the fork of pull request 12")
	}
	out, code = w.Run(t.TempDir(), "function", "alias", "create", "pay", "steady",
		"pay-"+string(theirs.Release))
	// S18: nor does an alias name what a fork alone made, by which a trigger could lead to it
	testkit.Equal(t, "exit code of an alias: "+out, code, 5)
	testkit.Contains(t, site.Told{out}, "the fork of pull request 12: merge that first")

	// The build of another commit asks for a host, and fails with the reason.
	f.Write("build.sh", "curl --silent --show-error --fail \"$FORGE/harbor/shop.git/HEAD\"\n")
	asks, told := f.Push("synchronize_fork_deleted", "Ask for a host")
	waits(t, w, told)
	failed := approved(t, w, asks, landfall.RunFailed)
	// S18: a build that asks for a host is told why there is none
	testkit.Contains(t, site.Told{failed.Reason}, "forks build without a network")
	var said []string
	for _, s := range w.Told(asks) {
		said = append(said, s.State+" "+strings.Join(strings.Fields(s.Description)[:3], " "))
	}
	// L-007: what waits, what is queued and what failed have texts of their own
	testkit.EqualList(t, "statuses", said, []string{"pending Waits for approval",
		"pending Queued: approved by", "failure the build command"})

	// The next one is declined.
	f.Write("page.html", "no")
	no, told := f.Push("synchronize_fork_deleted", "No")
	declined := waits(t, w, told)
	out, code = w.Run(t.TempDir(), "run", "decline", declined.ID, "--reason", "it is rude")
	testkit.Equal(t, "exit code "+out, code, 0)
	// L-006: what was declined has a text of its own
	forge.WantTold(t, w, no, landfall.StatusFailure, w.RunPage(declined.ID), "Declined by admin: it is rude")
	w.Says(h, 12, "### shop · declined", "it is rude")

	// The last one is good: it is approved, built, and merged as it is.
	f.Write("build.sh", buildSh, "page.html", "better", "specs/app.yaml", app("sh build.sh"))
	good, told := f.Push("synchronize_fork_deleted", "Better")
	waits(t, w, told)
	preview := approved(t, w, good, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "shop--pr-12", "/key.txt", "0")
	site.WantServed(t, w.Site, "shop--pr-12", "/net.txt", "none\n")
	h.Git("fetch", "--quiet", "origin", string(landfall.PullRef(12)))
	h.Git("merge", "--quiet", "--ff-only", "FETCH_HEAD")
	w.Hears(h.Send("main"), f.Tell("closed_fork_deleted", nil))
	w.Eventually("the merged commit is live", func() bool { return w.ShowApp("shop").Live != ours.Release })
	all := w.Runs("shop")
	merged := all[slices.IndexFunc(all, func(r client.Run) bool { return r.Commit == good && r.Branch == "main" })]
	if merged.Release == preview.Release || merged.Stats.Built == 0 {
		t.Errorf("the merge came to %+v, want a release of its own, built anew", merged)
	}
	// S18: the very commit that was built of a fork is built again on the branch, with the secret and the network
	site.WantServed(t, w.Site, "shop", "/key.txt", "20")
	site.WantServed(t, w.Site, "shop", "/net.txt", "ref: refs/heads/main\n")
	site.WantServed(t, w.Site, "shop", "/api/pay", "the-value-of-production, ref: refs/heads/main")
	w.Says(h, 12, "### shop · closed")
	testkit.Equal(t, "release of the closed pull request", w.Get(w.At("shop--"+string(preview.Release), "/")).Status,
		http.StatusGone)
}

// A build of the same input gives what was built before, but nothing passes between a fork and the others.
func outputs(t *testing.T, w *forge.World) {
	t.Helper()
	h, _ := w.Follow("stamped")
	h.Write("specs/app.yaml", site.AppSpec("stamped",
		"build: {command: 'mkdir site; cat /proc/sys/kernel/random/uuid > site/stamp.txt', inputs: [input], outputs: [site]}"),
		"specs/functions.yaml", site.BuiltPackage("hello", "python-env", "", "main.main",
			"cp -r . $DEPLOY_PKG; cat /proc/sys/kernel/random/uuid > $DEPLOY_PKG/stamp"),
		"hello/main.py", "import os\n\n\ndef main(event):\n    return open(os.path.dirname(__file__) + '/stamp').read()\n",
		"input", "one")
	one := h.Commit("One")
	w.Hears(h.Send("main"))
	w.Ends("stamped", one, landfall.RunSucceeded)
	stamps := func(host string) (all [2]string) {
		for i, path := range []string{"/stamp.txt", "/api/hello"} {
			p := w.Get(w.At(host, path))
			testkit.Equal(t, host+path, p.Status, http.StatusOK)
			all[i] = p.Body
		}
		return all
	}
	ours := stamps("stamped")
	f := h.Fork(t, 12)
	f.Write("README.md", "No input of a build")
	first, told := f.Push("opened_fork", "First")
	waits(t, w, told)
	run := approved(t, w, first, landfall.RunSucceeded)
	theirs := stamps("stamped--pr-12")
	// S18: a fork gets nothing that was built before
	if theirs[0] == ours[0] || theirs[1] == ours[1] || run.Stats.Cached != 0 || run.Stats.Built != 2 {
		t.Errorf("got the stamps %q of the fork and %q of the branch, and %+v, want each built anew", theirs, ours, run.Stats)
	}
	f.Write("input", "two", "hello/main.py", "import os\n\n\ndef main(event):\n"+
		"    return open(os.path.dirname(__file__) + '/stamp').read() + ' '\n")
	second, told := f.Push("synchronize_fork_deleted", "Second")
	waits(t, w, told)
	approved(t, w, second, landfall.RunSucceeded)
	theirs = stamps("stamped--pr-12")
	h.Git("fetch", "--quiet", "origin", string(landfall.PullRef(12)))
	h.Git("merge", "--quiet", "--ff-only", "FETCH_HEAD")
	w.Hears(h.Send("main"))
	merged := w.Ends("stamped", second, landfall.RunSucceeded)
	// S18: and nothing of what a fork built is taken after the merge, of the very same commit
	if now := stamps("stamped"); now[0] == theirs[0] || now[1] == theirs[1] || merged.Stats.Built != 2 {
		t.Errorf("got the stamps %q after the merge and %q of the fork, and %+v, want each built anew", now, theirs,
			merged.Stats)
	}
}

// Pull requests that are not as usual end as well, and say how.
func odd(t *testing.T, w *forge.World) {
	t.Helper()
	h, _ := w.Follow("odd")
	h.Write("index.html", "ours")
	ours := h.Commit("Ours")
	w.Hears(h.Send("main"))

	f := h.Fork(t, 12)
	for i := range 3000 {
		f.Write(fmt.Sprintf("many/%d.txt", i), fmt.Sprint("file ", i))
	}
	many, told := f.Push("opened_fork", "Many files")
	waits(t, w, told.With(t, func(payload map[string]any) {
		pull := forge.Object(t, payload, "pull_request")
		pull["draft"], pull["changed_files"] = true, 3000
		forge.Object(t, pull, "head")["repo"] = nil
	}))
	run := approved(t, w, many, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "odd--pr-12", "/many/2999.txt", "file 2999")
	// N-041: a draft of a deleted fork with 3,000 files has a release, and a final status
	last := w.Told(many)
	testkit.Equal(t, "status", last[len(last)-1].Target, w.At("odd--"+string(run.Release), "/"))

	g := h.Fork(t, 13)
	g.Write("index.html", "theirs")
	based, told := g.Push("opened_fork", "Into a branch that is gone")
	waits(t, w, told.With(t, func(payload map[string]any) {
		forge.Object(t, forge.Object(t, payload, "pull_request"), "base")["ref"] = "gone"
	}))
	failed := approved(t, w, based, landfall.RunFailed)
	// N-041: a deleted base branch is a final status that says what to do
	testkit.Contains(t, site.Told{failed.Reason}, "has no branch gone", "another base branch")
	said := w.Told(based)
	testkit.Equal(t, "status", said[len(said)-1].State, string(landfall.StatusFailure))

	m := h.Fork(t, 14)
	m.Write(".gitmodules", "[submodule \"theme\"]\n\tpath = theme\n\turl = "+h.Clone()+"\n")
	if err := os.Mkdir(filepath.Join(m.Dir, "theme"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.Git("update-index", "--add", "--cacheinfo", "160000,"+string(ours)+",theme")
	dressed, told := m.Push("opened_fork", "A submodule")
	waits(t, w, told)
	failed = approved(t, w, dressed, landfall.RunFailed)
	// S18: a fork does not choose from where something is fetched
	testkit.Contains(t, site.Told{failed.Reason}, "that its base branch names alone")
}

// A label approves the commit at the head, if who puts it there may write; the next push takes it away.
func labelled(t *testing.T, w *forge.World) {
	t.Helper()
	h, _ := w.Follow("labelled")
	h.Write("index.html", "ours")
	h.Commit("Ours")
	w.Hears(h.Send("main"))
	f := h.Fork(t, 12)
	f.Write("index.html", "theirs")
	one, told := f.Push("opened_fork", "One")
	run := waits(t, w, told)
	const reader, writer = 7, 8
	w.API.Permit(h.Name, writer, "write")
	label := func(user int64, commit landfall.CommitSHA) {
		w.API.Label(h.Name, 12, landfall.ApprovalLabel)
		d := f.Tell("labeled", map[string]any{"label": map[string]any{"name": landfall.ApprovalLabel},
			"sender": map[string]any{"id": user, "login": githubtest.Login(user), "type": "User"}})
		w.Hears(d.With(t, func(payload map[string]any) {
			head := forge.Object(t, forge.Object(t, payload, "pull_request"), "head")
			head["sha"], head["repo"] = string(commit), nil
		}))
	}
	label(reader, one)
	// S18: who may only read approves nothing, and everybody reads why
	w.Says(h, 12, "waiting for approval", "needs the role write")
	label(writer, one)
	w.Eventually("the commit has its release", func() bool { return w.Final(run.ID).State == landfall.RunSucceeded })
	testkit.Equal(t, "approved by", w.Final(run.ID).Approval.By, githubtest.Login(writer))
	site.WantServed(t, w.Site, "labelled--pr-12", "/", "theirs")

	f.Write("index.html", "theirs, again")
	two, told := f.Push("synchronize_fork_deleted", "Two")
	next := waits(t, w, told.With(t, func(payload map[string]any) {
		forge.Object(t, payload, "pull_request")["labels"] = []any{map[string]any{"name": landfall.ApprovalLabel}}
	}))
	// S18: the label is gone with the push, and the new commit waits
	w.Eventually("the label is taken away", func() bool { return len(w.API.Labels(h.Name, 12)) == 0 })
	label(writer, one)
	w.Says(h, 12, "waiting for approval", "no run of "+string(one), "/landfall approve "+string(two)+"`")
	out, _ := w.Run(t.TempDir(), "run", "show", next.ID)
	testkit.Contains(t, site.Told{out}, "waiting", string(two))

	written := 1000
	comment := func(user int64, body string) {
		written++
		d := h.Delivery("issue_comment", "issue_comment_created_command", func(payload map[string]any) {
			forge.Object(t, payload, "issue")["number"] = 12
			who := map[string]any{"id": user, "login": githubtest.Login(user), "type": "User"}
			payload["sender"] = who
			at := forge.Object(t, payload, "comment")
			at["user"], at["body"], at["id"] = who, body, written
		})
		w.Hears(d)
	}
	comment(reader, "/landfall approve "+string(two[:7]))
	w.Says(h, 12, "approve needs the role write")
	comment(writer, "/landfall approve "+string(one[:7]))
	w.Says(h, 12, "no run of "+string(one[:7]))
	out, _ = w.Run(t.TempDir(), "run", "show", next.ID)
	testkit.Contains(t, site.Told{out}, "waiting")
	// L-021: a comment approves exactly the commit that it names, which is the head
	comment(writer, "/landfall approve "+string(two[:7]))
	w.Eventually("the commit has its release", func() bool { return w.Final(next.ID).State == landfall.RunSucceeded })
	testkit.Equal(t, "approved with", w.Final(next.ID).Approval.Via, "a comment")
}
