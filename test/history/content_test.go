package history_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
)

// content is what a commit declares: a word for each of its units, empty for none.
type content struct {
	code   string // of the package p, which is there when a function is
	f, g   string // entry points
	secret bool   // f reads the secret key
	route  string // a selector of f to which an HTTP trigger leads
	page   string // a static file
	config string
}

// stable is the alias that triggers may name.
const stable = "stable"

// keep is how many releases of each line every commit wants to be kept.
const keep = 2

// contents are all that commits may declare. Each of the few differs from another by one unit or two, so that the same
// comes back often.
func contents() []content {
	return []content{
		{code: "1", f: "a", page: "1", config: "1"},
		{code: "2", f: "a", page: "1", config: "1"},
		{code: "1", f: "a", g: "a", page: "1", config: "1"},
		{code: "1", f: "b", g: "a", page: "2", config: "1"},
		{code: "1", f: "a", secret: true, page: "1", config: "1"},
		{code: "2", f: "a", secret: true, page: "2", config: "2", route: "latest"},
		{code: "1", f: "a", page: "1", config: "1", route: "latest"},
		{code: "2", f: "b", page: "1", config: "1", route: "latest"},
		{code: "1", f: "a", config: "1", route: stable},
		{code: "2", f: "a", page: "3", config: "1", route: stable},
		{code: "2", f: "b", page: "3", config: "1", route: "1"},
		{code: "1", g: "a", page: "1", config: "2"},
		{page: "1", config: "1"},
		{page: "2", config: "2"},
	}
}

// units are what a content declares, each with all that its digest is made of.
func (c content) units() map[landfall.UnitID]string {
	all := map[landfall.UnitID]string{config(): c.config}
	if c.page != "" {
		all[site()] = c.page
	}
	if c.f+c.g != "" {
		all[pkg()], all[environment()] = c.code, "python"
	}
	if c.f != "" {
		all[fn("f")] = fmt.Sprint(c.f, c.code, c.secret)
	}
	if c.g != "" {
		all[fn("g")] = fmt.Sprint(c.g, c.code)
	}
	if c.route != "" {
		all[route()] = c.route
	}
	return all
}

func unit(kind landfall.UnitKind, name string) landfall.UnitID {
	return landfall.UnitID{Kind: kind, Name: name}
}

func fn(name string) landfall.UnitID { return unit(landfall.FunctionUnit, name) }
func pkg() landfall.UnitID           { return unit(landfall.PackageUnit, "p") }
func environment() landfall.UnitID   { return unit(landfall.EnvironmentUnit, "env") }
func route() landfall.UnitID         { return unit(landfall.HTTPTrigger, "r") }
func site() landfall.UnitID          { return unit(landfall.StaticUnit, "/") }
func key() landfall.UnitID           { return unit(landfall.SecretUnit, "key") }
func config() landfall.UnitID        { return unit(landfall.ConfigUnit, landfall.ConfigName) }

// files are those of a commit with the content.
func (c content) files() map[string]string {
	files := map[string]string{}
	static := "[]"
	if c.page != "" {
		static, files["site/index.html"] = "[{src: site, path: /}]", "page "+c.page
	}
	var specs strings.Builder
	fmt.Fprintf(&specs, `apiVersion: landfall.dev/v1
kind: App
metadata: {name: shop}
spec: {static: %s, config: {colour: %q}, release: {keep: %d}}
`, static, c.config, keep)
	if c.f+c.g != "" {
		specs.WriteString(`---
{apiVersion: fission.io/v1, kind: Environment, metadata: {name: env}, spec: {version: 2, runtime: {image: fission/python-env}}}
---
{apiVersion: fission.io/v1, kind: Package, metadata: {name: p}, spec: {environment: {name: env}, deployment: {url: "archive://code"}}}
---
{kind: ArchiveUploadSpec, name: code, include: ["code/*"]}
`)
		files["code/a.py"] = "def main(): return " + c.code
		files["code/b.py"] = files["code/a.py"]
	}
	function := func(name, entry, secrets string) {
		fmt.Fprintf(&specs, `---
{apiVersion: fission.io/v1, kind: Function, metadata: {name: %s}, spec: {environment: {name: env}, secrets: [%s],
 package: {packageref: {name: p}, functionName: %s.main}}}
`, name, secrets, entry)
	}
	if c.f != "" {
		secrets := ""
		if c.secret {
			secrets = "{name: key, namespace: default}"
		}
		function("f", c.f, secrets)
	}
	if c.g != "" {
		function("g", c.g, "")
	}
	if c.route != "" {
		fmt.Fprintf(&specs, `---
{apiVersion: fission.io/v1, kind: HTTPTrigger, metadata: {name: r}, spec: {functionref: {type: name, name: "f:%s"}, methods: [GET], relativeurl: /r}}
`, c.route)
	}
	files["specs/all.yaml"] = specs.String()
	return files
}

// repository is one git repository that has every commit which is ever pushed; all apps share it.
type repository struct {
	path    string
	commits map[landfall.CommitSHA]content
	each    [][]landfall.CommitSHA // two of each content
}

// newRepository makes the commits.
func newRepository(t *testing.T) repository {
	t.Helper()
	r := repository{path: filepath.Join(t.TempDir(), "git"), commits: map[landfall.CommitSHA]content{}}
	git := func(input string, args ...string) string {
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Stdin = strings.NewReader(input)
		out := testkit.Must(command.Output())(t)
		return strings.TrimSpace(string(out))
	}
	git("", "init", "--quiet", "--bare", r.path)
	var input strings.Builder
	data := func(text string) { fmt.Fprintf(&input, "data %d\n%s\n", len(text), text) }
	const each = 2
	for i, c := range contents() {
		for n := range each {
			fmt.Fprintf(&input, "commit refs/landfall/c%d-%d\ncommitter Ada <ada@example.com> %d +0000\n", i, n, noon.Unix())
			data(fmt.Sprintf("content %d, again %d", i, n))
			for name, text := range c.files() {
				fmt.Fprintf(&input, "M 100644 inline %s\n", name)
				data(text)
			}
		}
	}
	git(input.String(), "--git-dir", r.path, "fast-import", "--quiet")
	for i, c := range contents() {
		r.each = append(r.each, nil)
		for n := range each {
			sha := landfall.CommitSHA(git("", "--git-dir", r.path, "rev-parse", fmt.Sprintf("refs/landfall/c%d-%d", i, n)))
			r.commits[sha], r.each[i] = c, append(r.each[i], sha)
		}
	}
	return r
}
