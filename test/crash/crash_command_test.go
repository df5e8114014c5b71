package crash_test

import (
	"archive/zip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// commands are all commands that change something at a server, as a person types them one after the other. The lines
// below a command say what it comes to: how many lines match an expression of what another command prints, in which
// blanks are one; "4|5" where what is typed again is done again, and changes nothing, or makes one more, as an import. A group of an expression is a word in braces from then on. The server is not killed in a command
// behind "-". One behind "@FOLDER" is typed in a folder. One behind "!INSTANT" has that instant in the story of the tests,
// in the middle of what it stores.
const commands = `
namespace create team
	1 namespace list: ^team
plan set team --apps 5
	1 plan show team: ^team apps 0 5
namespace create spare
	1 namespace list: ^spare
namespace delete spare
	0 namespace list: ^spare
app create bakery --namespace team --repo https://git.example/bakery.git --branch main
	1 app list: ^bakery
	1 plan show team: ^team apps 1 5
app set bakery --branch trunk --previews signed-in --keep-files 7d --repo-token-file {files}/value
	1 app show bakery: ^branch: trunk
	1 app show bakery: ^previews: signed-in
	1 app show bakery: ^keep files: 7d
app set bakery --no-repo-token
	0 app show bakery: set on
app create larder --repo git@git.example:larder.git --host-key-file {files}/hostkey
	1 app key larder: ^host key: ssh-ed25519
app key larder --rotate
	1 app key larder: ^deploy key: ssh-ed25519
app key larder --delete
	0 app key larder: ^deploy key
app hook bakery --rotate
	1 app hook bakery: ^webhook: http
token create ci --scope read
	1 token list: ^ci read
token delete ci
	0 token list: ^ci

@blog spec version apply
	1 app list: ^blog
	1 run list blog: succeeded
	1 release list blog: live
@shop spec version apply
	3 run list shop: succeeded
	3 release list shop: http
	1 release list shop: ^(?P<oldest>\w+) .* for
	1 release list shop: ^(?P<before>\w+) .* live before
	1 release list shop: ^(?P<newest>\w+) .* latest, live
- run list shop
	1 run list shop --limit 1: ^(?P<run>[0-9a-f-]{36}) .* succeeded
run retry {run}
	4|5 run list shop: succeeded
	3 release list shop: http

release tag shop {before} beta
	1 release list shop: beta
	1 release log shop beta: {before}
release untag shop beta
	0 release list shop: beta
release hold shop
	1 app show shop: ^live: {newest} \(held\)
release resume shop
	1 app show shop: ^live: {newest}$
release rollback shop {before}
	1 app show shop: ^live: {before} \(held\)
	1 release log shop live: rolled back
release live shop {newest}
	1 app show shop: ^live: {newest}$
	1 release log shop live: promoted
release canary shop {before} --interval 1h
	1 release canary shop: ^state: running
release canary shop --stop
	1 release canary shop: ^state: stopped
	1 release canary shop: stopped .* admin
release expire shop {oldest}
	1 release list shop: ^{oldest} .* expired
release create shop {oldest}
	0 release list shop: expired
	3 release list shop: http
- release export blog latest {files}/release.tar
!import.stored release import {files}/release.tar --app copy
	1 app list: ^copy
	1|2 release list copy: http

- @draft spec version apply --no-release
	1 environment list: ^spare default blog 1
environment delete spare
	0 environment list: ^spare

function create tool --env python --code {files}/one.py
	1 function version list tool: ^tool-
	1 package version list tool-pkg: ^tool-pkg-
function version create tool --code {files}/two.py --version v2
	2 function version list tool: ^tool-
	1 function version list tool: v2, latest
function version update tool --code {files}/three.py
	3 function version list tool: ^tool-
	3 package version list tool-pkg: ^tool-pkg-
function version update tool --version 1 --description First
	1 function version list tool: ^tool-\w+ 1 .* First
function version delete tool 3
	2 function version list tool: ^tool-
package version create lib --env python --deploy {files}/one.zip
	1 package version list lib: ^lib-
package version update lib --deploy {files}/two.zip --version v2
	2 package version list lib: ^lib-
package version delete lib 1
	1 package version list lib: ^lib-
	1 package version list lib: v2, latest
function alias create tool qa 1
	1 function alias list tool: ^qa \S+ 1
	1 function alias history tool qa: admin
function alias update tool qa v2
	1 function alias list tool: ^qa \S+ 2
	2 function alias history tool qa: admin
function alias delete tool qa
	0 function alias list tool: ^qa
tag create nightly --function tool:1
	1 tag list: ^nightly
	1 tag show nightly: ^tool \S+ 1
tag update nightly --function tool:v2
	1 tag list: ^nightly
	1 tag show nightly: ^tool \S+ 2 v2
tag delete nightly
	0 tag list: ^nightly
function delete tool --force
	0 function list: ^tool

canary create careful --function hello --alias prod --version 2 --interval 1h
	1 canary list: ^careful .* running
	1 function alias history hello prod: canary careful the first step
canary delete careful
	0 canary list: ^careful
route create spare --url /spare --function hello
	1 route list shop: spare
	4 release list shop: http
route delete shop spare
	0 route list shop: spare
	4 release list shop: http
trigger create shop daily --function hello --cron @daily
	1 trigger list shop: daily
	5 release list shop: http
trigger delete shop daily
	0 trigger list shop: daily
	5 release list shop: http
secret set shop KEY --from-file {files}/value
	1 secret list shop: ^KEY 1
secret set shop KEY --from-file {files}/one.py
	2 secret list shop: ^KEY
secret revoke shop KEY:1
	1 secret list shop: ^KEY 1 .* revoked
secret delete shop KEY
	0 secret list shop: KEY
job create hello --pattern @daily --version 1
	1 job list: ^(?P<job>\S+) \S+ hello 1 @daily .* running
job update {job} --pattern @weekly
	1 job list: ^{job} \S+ hello 1 @weekly .* running
job pause {job}
	1 job list: ^{job} .* paused
job resume {job}
	1 job list: ^{job} .* running
job cancel {job}
	1 job list: ^{job} .* cancelled
job delete {job}
	0 job list: hello
webhook create hello --version 1
	1 webhook list: ^(?P<webhook>\S+) hello 1 http
webhook update {webhook} --version latest
	1 webhook list: ^{webhook} hello latest http
webhook delete {webhook}
	0 webhook list: hello
queue publish shop orders --data one --key one
	1 queue read shop orders: one$
execution create hello --no-wait
	1 execution list: ^(?P<execution>\S+) .* hello .* succeeded
execution delete {execution}
	0 execution list: hello

function create late --env python --code {files}/late.py
	1 function version list late: ^late-
- execution create late --no-wait
	1 execution list --dead: ^(?P<dead>\S+) .* late
execution retry {dead}
	1 execution list: ^{dead} .* succeeded
	0 execution list --dead: late

run approve {approved}
	1 run show {approved}: ^approved: by admin, .* with: landfall run approve
	1 run logs {approved}: approved by admin
run decline {declined} --reason no
	1 run show {declined}: ^state: declined
	1 run show {declined}: ^reason: Declined by admin: no
app deliveries replay {delivery}
	1 app deliveries show {delivery}: Replayed by admin
@slow spec version apply --no-wait
	1 run list slow: ^(?P<slow>\S+) .* (queued|running)
run cancel {slow}
	1 run list slow: cancelled
	0 release list slow: http
collect shop
	1 collect shop --dry-run: ^stored 0 folders
app delete slow --force
	0 app list: ^slow
app delete shop --force
	0 app list: ^shop
	0 function list: hello
`

// others are the last words of commands that change nothing at a server: they show something, write files, or call
// functions, which TestCrashOfCall has; and of those that need GitHub, whose one transaction is all or nothing.
const others = "completion connect deliveries diff disconnect download export fire help history invoke list log login " +
	"logs logout read repositories show state status validate version"

// writings are the instants at which the server is killed in a command: before anything is stored, and when a part of it
// is. The first command of a story has the first of its instants, and so on, round and round. The tests tell one story;
// with LANDFALL_CRASH_ROUNDS, every command has every instant.
func writings() (stories [][]string) {
	all := crashpoint.OfWrite()
	if _, whole := os.LookupEnv(roundsVariable); !whole {
		return [][]string{all}
	}
	for n := 2; n <= 4; n++ {
		all = append(all, fmt.Sprintf("%s@%d", all[1], n))
	}
	for _, point := range all {
		stories = append(stories, []string{point})
	}
	return stories
}

// The program is killed in every command that changes something: what is typed again then is done, or was done already,
// and once.
func TestCrashOfCommand(t *testing.T) {
	t.Parallel()
	wantAllCommands(t)
	for _, points := range writings() {
		t.Run(strings.Join(points, " "), func(t *testing.T) {
			t.Parallel()
			newCommanded(t, points).story()
		})
	}
}

// wantAllCommands fails the test unless commands has all that there are.
func wantAllCommands(t *testing.T) {
	t.Helper()
	root := (&cli.Call{}).Tree()
	typed := map[string]bool{}
	for line := range strings.Lines(commands) {
		words := slices.DeleteFunc(strings.Fields(line), func(word string) bool { return strings.ContainsAny(word[:1], "@!") })
		if len(words) == 0 || words[0] == "-" || strings.HasPrefix(line, "\t") {
			continue
		}
		cmd, _, err := root.Find(words)
		if err != nil {
			t.Fatal(err)
		}
		typed[cmd.CommandPath()] = true
	}
	for left := root.Commands(); len(left) > 0; left = left[1:] {
		cmd := left[0]
		left = append(left, cmd.Commands()...)
		if !cmd.HasSubCommands() && !typed[cmd.CommandPath()] && !slices.Contains(strings.Fields(others), cmd.Name()) {
			t.Errorf("the server is not killed in %q: give it a line, or say that it changes nothing", cmd.CommandPath())
		}
	}
}

// commanded is a server that is killed in commands.
type commanded struct {
	*site.Site

	points []string // at which it is killed next, and then
	arming string
	files  string            // a folder
	known  map[string]string // words in braces
	kills  int
}

func newCommanded(t *testing.T, points []string) *commanded {
	t.Helper()
	s, shop := site.NumberedIn(t, 2)
	c := &commanded{Site: s, points: points, files: t.TempDir()}
	c.known = map[string]string{"files": c.files}
	c.arming = filepath.Join(c.files, "armed")
	c.Stop()
	c.known["approved"], c.known["declined"] = c.fork(12), c.fork(13)
	c.Env = append(c.Env, "LANDFALL_CRASH=@"+c.arming, "LANDFALL_SANDBOX=off", "LANDFALL_LEASE=2s",
		"LANDFALL_GITHUB_WEBHOOK_SECRET="+forge.WebhookSecret)
	c.Start()
	ping := forge.Delivery{ID: "a-delivery", Event: "ping", Body: forge.Fixture(t, "ping_repository")}
	forge.Post(t, c.URL+"/webhooks/github", ping, forge.Signature(forge.WebhookSecret, ping.Body))
	c.known["delivery"] = ping.ID
	shop.Write("site/index.html", "another page")
	shop.Commit("Another page")
	blog, slow := site.NewRepository(t), site.NewRepository(t)
	blog.Write("specs/app.yaml", site.AppSpec("blog"), "site/index.html", "a page")
	blog.Commit("A page")
	draft := site.NewRepository(t)
	draft.Git("checkout", "--quiet", "-b", "draft")
	draft.Write("specs/app.yaml", site.AppSpec("blog")+"---\n"+
		"{apiVersion: fission.io/v1, kind: Environment, metadata: {name: spare}, spec: {runtime: {image: fission/python-env}}}\n",
		"site/index.html", "a page")
	draft.Commit("Another environment")
	slow.Write("specs/app.yaml", site.AppSpec("slow", "build: {command: sleep 60, outputs: [site]}"))
	slow.Commit("A slow build")
	c.known["@shop"], c.known["@blog"], c.known["@slow"], c.known["@draft"] = shop.Dir, blog.Dir, slow.Dir, draft.Dir
	c.write("value", "a-value-of-a-secret")
	c.write("hostkey", "git.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl")
	for _, name := range []string{"one", "two", "three"} {
		code := fmt.Sprintf("def main():\n    return %q\n", name)
		c.write(name+".py", code)
		c.zip(name+".zip", name+".py", code)
	}
	c.write("late.py", fmt.Sprintf(`
import os

def main(event):
    if not os.path.exists(%[1]q):
        open(%[1]q, "w").close()
        raise ValueError("not yet")
`, filepath.Join(c.files, "mended")))
	return c
}

// fork stores the run of a fork's pull request, which waits for approval, and returns its ID.
func (c *commanded) fork(number int) string {
	c.T.Helper()
	db := testkit.Must(c.OpenState())(c.T)
	ctx := c.T.Context()
	ledger := &runs.Runs{DB: db, Now: time.Now, RunURL: func(id string) string { return id }}
	var run landfall.Run
	err := db.Update(ctx, func(tx *store.Tx) error {
		apps, err := tx.Apps(ctx)
		if err != nil {
			return err
		}
		app := apps[slices.IndexFunc(apps, func(app landfall.App) bool { return app.Name == "shop" })]
		push, err := tx.CreatePush(ctx, landfall.Push{App: app.ID, Ref: landfall.PullRef(number), Accepted: time.Now(),
			After:       landfall.CommitSHA(strings.Repeat(fmt.Sprintf("%04x", number), 10)),
			PullRequest: &landfall.PullRequest{Number: number, Base: "main", Fork: true}})
		if err != nil {
			return err
		}
		if run, err = runs.New(ctx, tx, app, push); err != nil {
			return err
		}
		return errors.Join(tx.SetHead(ctx, push), ledger.Wait(ctx, tx, app, run, push))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		c.T.Fatal(err)
	}
	return run.ID
}

func (c *commanded) write(name, text string) {
	c.T.Helper()
	if err := os.WriteFile(filepath.Join(c.files, name), []byte(text), 0o600); err != nil {
		c.T.Fatal(err)
	}
}

// zip writes an archive of one file.
func (c *commanded) zip(name, file, text string) {
	c.T.Helper()
	var b strings.Builder
	z := zip.NewWriter(&b)
	w := testkit.Must(z.Create(file))(c.T)
	if _, err := w.Write([]byte(text)); err != nil {
		c.T.Fatal(err)
	}
	if err := z.Close(); err != nil {
		c.T.Fatal(err)
	}
	c.write(name, b.String())
}

// words returns what a line says, and the folder in which it is typed.
func (c *commanded) words(line string) (dir string, words []string) {
	dir = c.files
	for word := range strings.FieldsSeq(line) {
		if folder, is := c.known[word]; is && strings.HasPrefix(word, "@") {
			dir = folder
			continue
		}
		words = append(words, c.said(word))
	}
	return dir, words
}

// said is a text with what its words in braces stand for.
func (c *commanded) said(text string) string {
	for name, value := range c.known {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

func (c *commanded) story() {
	c.T.Helper()
	for line := range strings.Lines(commands) {
		line = strings.TrimRight(line, "\n")
		check, isCheck := strings.CutPrefix(line, "\t")
		calm, isCalm := strings.CutPrefix(line, "- ")
		switch {
		case line == "":
		case isCheck:
			c.check(check)
		case isCalm:
			dir, words := c.words(calm)
			if out, code := c.Run(dir, words...); code != 0 {
				c.T.Errorf("%s: got the exit code %d: %s", calm, code, out)
			}
		default:
			c.command(line)
		}
	}
	if c.kills == 0 {
		c.T.Errorf("the server was never killed at %s", c.points)
	}
	c.T.Logf("killed %d times", c.kills)
	c.WantWhole()
}

// command types a line in which the server is killed, and types it again unless it was done all the same.
func (c *commanded) command(line string) {
	c.T.Helper()
	point := c.points[0]
	c.points = append(c.points[1:len(c.points):len(c.points)], c.points[0])
	if own, rest, is := strings.Cut(line, " "); is && strings.HasPrefix(own, "!") {
		if line = rest; len(c.points) > 1 {
			point = own[1:]
		}
	}
	dir, words := c.words(line)
	c.write("armed", point+" "+line)
	var out string
	var code int
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, code = c.In(c.T).Run(dir, words...)
	}()
	select {
	case <-c.Done:
		c.revive()
		<-done
	case <-done:
		if err := os.Remove(c.arming); os.IsNotExist(err) { // it dies at this moment
			c.Dies()
			c.revive()
		}
	}
	c.T.Logf("%s: %d: %s", line, code, out)
	switch code {
	case 0:
		return
	case site.ExitUnavailable:
	default:
		c.T.Errorf("%s, and the server is killed: got the exit code %d, want 0 or %d: %s", line, code,
			site.ExitUnavailable, out)
	}
	out, code = c.Run(dir, words...)
	c.T.Logf("again: %d: %s", code, out)
	if !slices.Contains([]int{0, site.ExitNotFound, site.ExitConflict}, code) {
		c.T.Errorf("%s, typed again: got the exit code %d, want that it is done, or was done: %s", line, code, out)
	}
}

func (c *commanded) revive() {
	c.T.Helper()
	c.kills++
	c.Start()
}

// check looks at what is there, until it is what a line says.
func (c *commanded) check(line string) {
	c.T.Helper()
	line = c.said(line)
	count, rest, _ := strings.Cut(line, " ")
	show, pattern, _ := strings.Cut(rest, ": ")
	right := regexp.MustCompile(pattern)
	_, words := c.words(show)
	for deadline := time.Now().Add(testkit.Patience); ; <-time.After(50 * time.Millisecond) {
		out, code := c.Run(c.files, words...)
		var found [][]string
		for row := range strings.Lines(out) {
			if match := right.FindStringSubmatch(strings.Join(strings.Fields(row), " ")); match != nil {
				found = append(found, match)
			}
		}
		if code == 0 && slices.Contains(strings.Split(count, "|"), strconv.Itoa(len(found))) {
			for i, name := range right.SubexpNames() {
				if name != "" {
					c.known[name] = found[0][i]
				}
			}
			return
		}
		if time.Now().After(deadline) {
			c.T.Fatalf("%s: got %d lines with %q, want %s, and the exit code %d: %s", show, len(found), pattern, count, code, out)
		}
	}
}
