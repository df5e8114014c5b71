package webhook_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A private repository is released with a deploy key: the app is made, the key is added at the forge, and from then on
// pushes go live. A host with another key than the pinned one gets nothing.
func TestDeployKey(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	h := w.Host(t, "harbor/keyed")
	hostKeys := filepath.Join(t.TempDir(), "hostkeys")
	pin := func() {
		t.Helper()
		if err := os.WriteFile(hostKeys, []byte(w.SSH.HostKey()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pin()
	address := w.SSH.URL(h.Name)
	said, code := w.Run(h.Dir, "app", "create", "keyed", "--repo", address, "--branch", "main")
	// S12: a host that nobody knows is refused at once
	if code != 2 || !strings.Contains(said, "ssh-keyscan") || !strings.Contains(said, "--host-key-file") {
		t.Errorf("app create of an unknown host ended with %d and says %s", code, said)
	}
	said, code = w.Run(h.Dir, "app", "create", "keyed", "--repo", address, "--branch", "main", "--host-key-file", hostKeys)
	if code != 0 || !strings.Contains(said, "ssh-ed25519 AAAA") || !strings.Contains(said, "add it, to read only, at") {
		t.Fatalf("app create ended with %d and says %s, want the key to be added", code, said)
	}
	var app client.App
	w.Call("GET", "/apps/keyed", nil, &app)

	one, push := h.Release("one")
	w.Hears(push)
	// N-006: a key that is not added yet is a final status that says what to do
	run := forge.WantEnds(t, w, "keyed", one, landfall.RunError, "does not take the deploy key", "landfall app key APP")
	site.Attempts(t, run, 1)
	w.SSH.Allow(t, app.DeployKey.PublicKey, h.Name)
	retried, _ := w.Run(h.Dir, "run", "retry", run.ID)
	forge.WantEnds(t, w, "keyed", one, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "keyed", "/", "one")

	w.SSH.ChangeHostKey(t)
	before := len(w.SSH.Asked())
	two, push := h.Release("two")
	w.Hears(push)
	// S12: somebody in between gets neither the key nor the name of the repository
	run = forge.WantEnds(t, w, "keyed", two, landfall.RunError, "another host key", "--host-key-file")
	testkit.Equal(t, "commands of the other host", len(w.SSH.Asked()), before)
	pin()
	pinned, code := w.Run(h.Dir, "app", "key", "keyed", "--host-key-file", hostKeys)
	testkit.Equal(t, "exit code of app key --host-key-file: "+pinned, code, 0)
	w.Run(h.Dir, "run", "retry", run.ID)
	forge.WantEnds(t, w, "keyed", two, landfall.RunSucceeded)

	rotated, code := w.Run(h.Dir, "app", "key", "keyed", "--rotate")
	if code != 0 || strings.Contains(rotated, app.DeployKey.PublicKey) || !strings.Contains(rotated, "ssh-ed25519 AAAA") {
		t.Errorf("app key --rotate ended with %d and says %s, want another key", code, rotated)
	}
	three, push := h.Release("three")
	w.Hears(push)
	forge.WantEnds(t, w, "keyed", three, landfall.RunError, "does not take the deploy key")
	removed, code := w.Run(h.Dir, "app", "key", "keyed", "--delete")
	testkit.Equal(t, "exit code of app key --delete: "+removed, code, 0)
	said, code = w.Run(h.Dir, "app", "set", "keyed", "--repo-token-file", hostKeys)
	testkit.Equal(t, "exit code of a token for an address for ssh: "+said, code, 2)
	for _, text := range []string{said, retried, pinned, rotated, removed, w.Log.String()} {
		// S32: the private half is neither shown nor logged
		testkit.Equal(t, "a private key in "+text, strings.Contains(text, "PRIVATE KEY"), false)
	}
	w.App("built-in")
	for _, of := range []string{"built-in", "nosuch"} {
		_, code = w.Run(h.Dir, "app", "key", of)
		testkit.Equal(t, "exit code of app key "+of, code, 3)
	}
}

// A file of Git LFS is served as what it is, and is what a build finds. What the forge does not have is named.
func TestLFS(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	const token = "github_pat_of_the_lfs"
	h := w.Host(t, "harbor/heavy")
	w.Rule(h.Name, forge.Rule{Password: token})
	w.Call("POST", "/apps", client.NewApp{Name: "heavy", Repository: h.Clone(), Branch: "main", Password: token}, nil)
	image := strings.Repeat("pixels of a picture ", 500)
	h.Write(".gitattributes", "*.png filter=lfs diff=lfs merge=lfs -text\n", "site/index.html", "page", "site/a.png",
		forge.Pointer(image), "img/b.png", forge.Pointer(image), "specs/app.yaml",
		site.AppSpec("heavy", "build: {command: cp img/b.png site/copied.png, outputs: [site]}"))
	h.Git("-c", "filter.lfs.clean=cat", "add", ".")
	commit := h.Commit("A picture")
	w.Hears(h.Send("main"))
	// N-013: a pointer whose bytes were not pushed is named, with what to do
	run := forge.WantEnds(t, w, "heavy", commit, landfall.RunFailed, ".png is a file of Git LFS", "git lfs push --all origin")
	w.PushLFS(image)
	w.Run(h.Dir, "run", "retry", run.ID)
	forge.WantEnds(t, w, "heavy", commit, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "heavy", "/a.png", image)
	site.WantServed(t, w.Site, "heavy", "/copied.png", image)
	sent := w.SentForLFS()
	testkit.Equal(t, "the bytes were fetched", len(sent) > 0, true)
	for _, header := range sent {
		// S12: the host of the bytes gets nothing that is the repository's
		testkit.Equal(t, "what the host of the bytes got", header, "RemoteAuth for-the-media")
	}
	testkit.Equal(t, "the token is logged", strings.Contains(w.Log.String(), token), false)
}

// A theme in a submodule is served at its place. One that only some may read is refused when a page needs it, because
// the credential of the app is not sent for it.
func TestSubmodule(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	theme := w.Host(t, "harbor/theme")
	theme.Write("theme.css", "body { color: teal }")
	pinned := theme.Commit("A theme")
	theme.Send("main")
	theme.Write("theme.css", "body { color: red }")
	theme.Commit("Another colour")
	theme.Send("main")
	const token = "github_pat_of_the_dressed"
	h := w.Host(t, "harbor/dressed")
	w.Rule(h.Name, forge.Rule{Password: token})
	w.Call("POST", "/apps", client.NewApp{Name: "dressed", Repository: h.Clone(), Branch: "main", Password: token}, nil)
	h.Write("site/index.html", "page", "specs/app.yaml", site.AppSpec("dressed"), ".gitmodules",
		"[submodule \"theme\"]\n\tpath = site/theme\n\turl = ../theme.git\n")
	h.Git("add", ".")
	h.Git("update-index", "--add", "--cacheinfo", "160000,"+string(pinned)+",site/theme")
	h.Git("commit", "--quiet", "-m", "With a theme")
	one := landfall.CommitSHA(h.Git("rev-parse", "HEAD"))
	w.Hears(h.Send("main"))
	forge.WantEnds(t, w, "dressed", one, landfall.RunSucceeded)
	site.WantServed(t, w.Site, "dressed", "/theme/theme.css", "body { color: teal }")

	w.Rule(theme.Name, forge.Rule{Password: token})
	h.Write("site/index.html", "another page")
	h.Git("add", "site/index.html")
	h.Git("commit", "--quiet", "-m", "Another page")
	two := landfall.CommitSHA(h.Git("rev-parse", "HEAD"))
	w.Hears(h.Send("main"))
	// S12: a private repository is not read for whoever may push to another one
	forge.WantEnds(t, w, "dressed", two, landfall.RunFailed, `"site/theme" is a submodule that is not fetched`,
		"cannot be read by everybody", "commit its files, or exclude it")
	site.WantServed(t, w.Site, "dressed", "/", "page")
}
