package push_test

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

const (
	nodePackage = `{"name": "hello", "version": "1.0.0", "private": true, "dependencies": {"greet": "file:./greet"}}`
	nodeGreet   = `{"name": "greet", "version": "1.0.0", "bin": {"greet": "bin/greet.js"}, "scripts": {"build": "greet"}}`
	// What calls a command by its link sees the files beside the command, not beside the link.
	nodeHello = `const {execFileSync} = require('child_process'), fs = require('fs');
module.exports = async () => ({status: 200, body: require('greet') + ', ' +
  fs.readlinkSync(__dirname + '/node_modules/.bin/greet') + ', ' + execFileSync(__dirname + '/node_modules/.bin/greet')});
`
)

// A package of Node.js whose dependency has a command is built as Fission's users write it, by a command of the
// package, and by what the environment says for all of its packages. Its links are there when it runs.
func TestNodePackageWithCommand(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := site.BuiltPackage("own", "node-env", "build", "hello", `"npm install && cp -r ${SRC_PKG} ${DEPLOY_PKG}"`)
	for _, more := range []string{site.BuiltPackage("build", "node-env", "", "hello", "build"),
		site.BuiltPackage("builder", "node-env", "", "hello", "")} {
		_, objects, _ := strings.Cut(more, "---\n") // the environment is there
		specs += "---\n" + objects
	}
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page")
	functions := []string{"own", "build", "builder"}
	for _, f := range functions {
		r.Write(f+"/package.json", nodePackage, f+"/hello.js", nodeHello, f+"/greet/package.json", nodeGreet,
			f+"/greet/index.js", "module.exports = 'hello'\n", f+"/greet/bin/greet.js",
			"#!/usr/bin/env node\nprocess.stdout.write(require('..') + ' again')\n")
	}
	s.Pushed(r, "shop", "A dependency with a command")
	for _, f := range functions {
		// symbolic links inside what a build made are kept, to files and to folders
		// K-002: Fission's builder contract works as it is, and its default builder for Node.js when no command is given
		testkit.Equal(t, "answer of "+f, s.Get(s.At("shop", "/api/"+f)).Body, "hello, ../greet/bin/greet.js, hello again")
	}
	s.WantWhole()
}

// A package of Python has what its requirements.txt says, by the same three ways.
func TestPythonPackageWithRequirements(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := site.BuiltPackage("own", "python-env", "build", "hello.main",
		`"pip3 install -r requirements.txt -t ${SRC_PKG} && cp -r ${SRC_PKG} ${DEPLOY_PKG}"`)
	for _, more := range []string{site.BuiltPackage("build", "python-env", "", "hello.main", "build"),
		site.BuiltPackage("builder", "python-env", "", "hello.main", "")} {
		_, objects, _ := strings.Cut(more, "---\n") // the environment is there
		specs += "---\n" + objects
	}
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page")
	functions := []string{"own", "build", "builder"}
	for _, f := range functions {
		r.Write(f+"/requirements.txt", "./greet-1.0-py3-none-any.whl\n", f+"/greet-1.0-py3-none-any.whl", wheel(t),
			f+"/hello.py", "import greet\n\ndef main():\n    return greet.WORD\n")
	}
	s.Pushed(r, "shop", "A requirement")
	for _, f := range functions {
		// K-002: pip install -t as Fission's users write it, and the default builder for Python when no command is given
		testkit.Equal(t, "answer of "+f, s.Get(s.At("shop", "/api/"+f)).Body, "hello")
		var version client.Version
		s.Call(http.MethodGet, "/packages/"+f+"-pkg/versions/latest", nil, &version)
		testkit.Equal(t, "buildstatus of "+f, version.Status.BuildStatus, "succeeded")
	}
}

// wheel is a package of Python's that needs no other.
func wheel(t *testing.T) string {
	t.Helper()
	return zipped(t, "greet.py", "WORD = 'hello'\n", "greet-1.0.dist-info/METADATA",
		"Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n", "greet-1.0.dist-info/WHEEL",
		"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "greet-1.0.dist-info/RECORD",
		"greet.py,,\ngreet-1.0.dist-info/METADATA,,\ngreet-1.0.dist-info/WHEEL,,\ngreet-1.0.dist-info/RECORD,,\n")
}

// zipped returns a zip archive of files: names, each with its content, or the target of a link where " ->" is behind
// the name.
func zipped(t *testing.T, pairs ...string) string {
	t.Helper()
	var text bytes.Buffer
	z := zip.NewWriter(&text)
	for i := 0; i < len(pairs); i += 2 {
		name, _, link := strings.Cut(pairs[i], " ->")
		header := &zip.FileHeader{Name: name, Method: zip.Deflate}
		if link {
			header.SetMode(fs.ModeSymlink | 0o777)
		}
		f, err := z.CreateHeader(header)
		if err == nil {
			_, err = io.WriteString(f, pairs[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// A function of a package whose source is a zip gets a new version without a new build: what was built is looked at,
// not the zip.
func TestGoZipThatIsBuilt(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := strings.NewReplacer("source/*", "source.zip", "source/**", "source.zip").
		Replace(site.BuiltPackage("source", "go-env", "build", "Handler", `"build"`))
	source := "package main\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n)\n\nfunc Handler(w http.ResponseWriter, r " +
		"*http.Request) { fmt.Fprint(w, \"from a zip\") }\n"
	r.Write("specs/functions.yaml", specs, "source.zip", zipped(t, "handler.go", source))
	s.Pushed(r, "shop", "A zip of Go")
	testkit.Equal(t, "the answer", s.Get(s.At("shop", "/api/source")).Body, "from a zip")
	r.Write("specs/functions.yaml", strings.Replace(specs, "functionName: Handler}",
		"functionName: Handler}\n  functionTimeout: 20", 1))
	s.Pushed(r, "shop", "Another timeout")
	testkit.Equal(t, "the answer of the next version", s.Get(s.At("shop", "/api/source")).Body, "from a zip")
}

// A zip as all that an archive includes is the archive, as in Fission: of a source, which is built, and of a
// deployment.
func TestArchiveThatIsAZip(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	source := strings.NewReplacer("source/*", "source.zip", "source/**", "source.zip").
		Replace(site.BuiltPackage("source", "python-env", "", "hello.main", `"sh ./build.sh"`))
	_, deployed, _ := strings.Cut(site.FunctionsSpec("python-env", "deployed hello.main"), "---\n")
	specs := source + "---\n" + strings.Replace(deployed, "deployed/*", "out/deployed.ZIP", 1)
	code := "import word\n\ndef main():\n    return word.WORD\n"
	files := []string{"specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page"}
	r.Write(append(files, "source.zip", zipped(t, "hello.py", code, "in/", "", "in/word.txt", "built",
		"build.sh",
		`mkdir "$DEPLOY_PKG" && cp hello.py "$DEPLOY_PKG" && echo "WORD = '$(cat in/word.txt)'" > "$DEPLOY_PKG/word.py"`),
		"out/deployed.ZIP", zipped(t, "hello.py", code, "word.py", "WORD = 'deployed'\n"))...)
	s.Pushed(r, "shop", "Two zips")
	for function, want := range map[string]string{"source": "built", "deployed": "deployed"} {
		// K-006: a zip that is all of an archive is that archive
		testkit.Equal(t, "answer of "+function, s.Get(s.At("shop", "/api/"+function)).Body, want)
	}
	said, exit := s.Run(r.Dir, "spec", "validate")
	testkit.Equal(t, "exit code of spec validate: "+said, exit, 0)
	s.WantWhole()
	r.Write("site/more.html", "more", "nested.zip", zipped(t, "inner.zip", zipped(t, "word.py", "")), "specs/nested.yaml",
		`kind: ArchiveUploadSpec
name: nested
include: [nested.zip]
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: nested}
spec: {environment: {name: env}, deployment: {url: "archive://nested"}}
`)
	s.Pushed(r, "shop", "Another page, the same zips, and a zip of nothing but a zip")

	for name, wrong := range map[string]struct{ zip, says string }{
		"is no zip":          {"text", "out/deployed.ZIP (archive deployed) is no zip archive, or is damaged"},
		"has no entry point": {zipped(t, "word.py", ""), "Function deployed will not run"},
		"has a file above its folder": {zipped(t, "../hello.py", code),
			`out/deployed.ZIP (archive deployed) has "../hello.py", which is no plain file inside it`},
	} {
		r.Write("out/deployed.ZIP", wrong.zip)
		r.Commit(name)
		site.WantFailed(t, s, "shop", r, r.Push("HEAD"), wrong.says)
		said, exit := s.Run(r.Dir, "spec", "validate")
		// K-023: spec validate says the same of a zip
		testkit.Equal(t, "exit code of spec validate: "+said, exit, 2)
		testkit.Contains(t, site.Told{said}, "specs/functions.yaml:", wrong.says)
	}
	r.Git("rm", "--quiet", "out/deployed.ZIP")
	r.Commit("Without the zip")
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"), "archive deployed (specs/functions.yaml:",
		"no file of the commit matches out/deployed.ZIP (line ",
		"commit the file, or let the App's build make it (build.outputs)")
}

// linksBuild leaves links at DEPLOY_PKG as package managers make them: by its path, to files and to folders.
const linksBuild = `mkdir -p "$DEPLOY_PKG/lib" "$DEPLOY_PKG/bin" && cp code.py "$DEPLOY_PKG/lib" && cp plain "$DEPLOY_PKG/lib" && cp run "$DEPLOY_PKG/lib"
ln -s "$DEPLOY_PKG/lib" "$DEPLOY_PKG/linked"
ln -s "$DEPLOY_PKG/lib/code.py" "$DEPLOY_PKG/bin/code.py"
ln -s "$DEPLOY_PKG/lib/run" "$DEPLOY_PKG/program"
ln -s lib/plain "$DEPLOY_PKG/text"
ln -s nowhere "$DEPLOY_PKG/nothing"
`

// The links of a package lead inside it, wherever the package lies, and an entry point may go through them: in the push
// that builds the package, in a later one, and in a zip.
func TestLinksOfPackages(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := func(python, program, zipEntry string) string {
		all := site.BuiltPackage("py", "python-env", "", python, `"sh ./build.sh"`)
		_, zip, _ := strings.Cut(strings.ReplaceAll(site.FunctionsSpec("", "zip "+zipEntry), "zip/*", "zip/package.zip"),
			"---\n")
		_, binary, _ := strings.Cut(site.BuiltPackage("bin", "binary-env", "", "exec:"+program, `"sh ./build.sh"`), "---\n")
		binary = strings.ReplaceAll(binary, "{name: env}", "{name: binary}")
		return all + "---\n" + zip + "---\napiVersion: fission.io/v1\nkind: Environment\nmetadata: {name: binary}\nspec: " +
			"{version: 2, runtime: {image: binary-env}}\n---\n" + binary
	}
	files := []string{"specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page"}
	for _, folder := range []string{"py", "bin"} {
		files = append(files, folder+"/build.sh", linksBuild, folder+"/code.py",
			"def main():\n    return 'main'\ndef other():\n    return 'other'\n",
			folder+"/plain", "text", folder+"/run", "#!/bin/sh\necho run\n")
	}
	r.Write(append(files, "zip/package.zip", zipped(t, "lib/code.py",
		"def main():\n    return 'main'\ndef other():\n    return 'other'\n", "linked ->", "lib"))...)
	if err := os.Chmod(filepath.Join(r.Dir, "bin/run"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, push := range []struct{ python, program, py string }{
		{"linked.code.main", "program", "main"}, {"bin.code.other", "linked/run", "other"},
		{"linked.code.other", "program", "other"},
	} {
		r.Write("specs/functions.yaml", specs(push.python, push.program, "linked.code."+push.py))
		s.Pushed(r, "shop", push.python)
		testkit.Equal(t, "answer of Python by "+push.python, s.Get(s.At("shop", "/api/py")).Body, push.py)
		testkit.Equal(t, "answer of a program by "+push.program,
			strings.TrimSpace(s.Get(s.At("shop", "/api/bin")).Body), "run")
		testkit.Equal(t, "answer out of a zip", s.Get(s.At("shop", "/api/zip")).Body, push.py)
	}
	// What a link leads to is what counts: whether it can be executed, and whether it is there.
	for program, says := range map[string]string{"text": "the file cannot be executed by everybody",
		"nothing": "the package has no such file"} {
		r.Write("specs/functions.yaml", specs("linked.code.main", program, "linked.code.main"))
		r.Commit(program)
		site.WantFailed(t, s, "shop", r, r.Push("HEAD"), "Function bin will not run", says)
	}
	r.Write("specs/functions.yaml", specs("linked.code.main", "program", "linked.code.main"), "py/build.sh",
		linksBuild+`ln -s ../deploy/lib "$DEPLOY_PKG/back"`)
	r.Commit("By the name of the folder")
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"), "made the symbolic link back, which leads out of DEPLOY_PKG")
	s.WantWhole()
}

// What a build leaves outside of its output is not kept by a link: it is refused by name. A site has what links in it
// lead to.
func TestLinksOfBuilds(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	app := func(command string) string {
		return site.AppSpec("shop", "build: {command: '"+command+"', outputs: [site]}")
	}
	const makes = "mkdir -p site/v2/deep; echo page > site/v2/deep/index.html; ln -s v2 site/latest; "
	r.Write("specs/app.yaml", app(makes+"ln -s latest/deep/index.html site/index.html; ln -s $PWD/site/v2/deep "+
		"site/v2/same; ln -s deep site/v2/chain"), "README", "")
	release := s.Pushed(r, "shop", "A site with links")
	for _, path := range []string{"/v2/deep/", "/latest/deep/", "/", "/v2/same/", "/latest/same/", "/v2/chain/",
		"/latest/chain/"} {
		// K-001: links to files and folders of a site, chains of links, and absolute ones to the output
		site.WantServed(t, s, "shop--"+string(release), path, "page\n")
	}
	// An archive of a part of the output has the links of that part, wherever it begins.
	r.Write("specs/app.yaml", site.AppSpec("shop", "build: {command: 'mkdir -p site dist/v1; cp code.py dist/v1; ln -s "+
		"$PWD/dist/v1 dist/linked', outputs: [site, dist]}"),
		"code.py", "def main():\n    return 'linked'\n", "site/index.html", "page",
		"specs/functions.yaml", strings.ReplaceAll(site.FunctionsSpec("python-env", "dist linked.code.main"), "dist/*",
			"dist/**"))
	s.Pushed(r, "shop", "A package of a part")
	testkit.Equal(t, "answer", s.Get(s.At("shop", "/api/dist")).Body, "linked")
	r.Git("rm", "--quiet", "specs/functions.yaml", "site/index.html")
	for name, wrong := range map[string]struct{ command, says string }{
		"absolute": {"ln -s /etc/passwd site/users",
			"made the symbolic link site/users, which leads out of site, to /etc/passwd"},
		"relative": {"ln -s ../../README site/v2/read",
			"made the symbolic link site/v2/read, which leads out of site, to ../../README"},
		"by a chain": {"ln -s ../.. site/v2/deep/top; ln -s v2/deep/top/.. site/out",
			"symbolic link site/out, which leads out of site"},
		"to itself":     {"ln -s self site/self", "self"},
		"to its folder": {"ln -s . site/v2/again", "again"},
		"to nothing":    {"ln -s nowhere site/nothing", "nothing"},
	} {
		r.Write("specs/app.yaml", app(makes+wrong.command))
		r.Commit(name)
		// K-001: a link that leaves the output is refused by its name
		site.WantFailed(t, s, "shop", r, r.Push("HEAD"), wrong.says)
	}
}
