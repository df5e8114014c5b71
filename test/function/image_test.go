package function_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// greetingProgram is a program that greets whom an event names, after a word of its own.
func greetingProgram(word string) string {
	return `#!/bin/sh
while read -r event; do
	name=${event##*\"name\":\"}
	echo '{"specversion":"1.0","id":"1","source":"/me","type":"t","datacontenttype":"text/plain","data":"` + word +
		`, '"${name%%\"*}"'!"}'
done
`
}

// imageAt returns the reference of a function's image at the site.
func imageAt(s *site.Site, function string) name.Reference {
	s.T.Helper()
	ref, err := name.ParseReference("localhost:"+s.Port+"/"+function, name.Insecure)
	if err != nil {
		s.T.Fatal(err)
	}
	return ref
}

// with is who asks, with a token as password.
func with(token string) remote.Option {
	return remote.WithAuth(&authn.Basic{Username: "whoever", Password: token})
}

// pulled pulls an image with go-containerregistry, and checks all of it.
func pulled(s *site.Site, function string) v1.Image {
	s.T.Helper()
	image, err := remote.Image(imageAt(s, function), with(s.Token))
	if err == nil {
		err = validate.Image(image, validate.Fast) // whole, it takes compressed layers only
	}
	if err == nil {
		files := mutate.Extract(image) // which checks the digests of layers
		_, failed := io.Copy(io.Discard, files)
		err = errors.Join(failed, files.Close())
	}
	if err != nil {
		s.T.Fatalf("%s: %v", function, err)
	}
	return image
}

func digestOf(t *testing.T, image v1.Image) string {
	t.Helper()
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// unpackImage writes the files of an image into a folder.
func unpackImage(t *testing.T, image v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	files := mutate.Extract(image)
	defer func() { _ = files.Close() }()
	for r := tar.NewReader(files); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(header.Linkname, path)
		default:
			var text []byte
			text, err = io.ReadAll(r)
			err = errors.Join(err, os.WriteFile(path, text, header.FileInfo().Mode().Perm()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A version of a function is pulled by the tools that pull images, and runs where they put it as it runs here.
func TestFunctionImages(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("binary-env", "greet greet"), "specs/app.yaml",
		site.AppSpec("shop", "config: {word: canary}"), "site/index.html", "page", "greet/greet", greetingProgram("Hello"))
	if err := os.Chmod(filepath.Join(r.Dir, "greet", "greet"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Pushed(r, "shop", "A function")
	commit := r.Head()
	answer, _ := s.Run(t.TempDir(), "function", "invoke", "greet", "--data", `{"name":"Ada"}`)

	to := t.TempDir()
	skopeo := exec.CommandContext(t.Context(), "skopeo", "copy", "--quiet", "--preserve-digests", "--src-tls-verify=false",
		"--src-creds", "whoever:"+s.Token, "docker://localhost:"+s.Port+"/default/greet:latest", "oci:"+to+":greet")
	if out, err := skopeo.CombinedOutput(); err != nil {
		t.Fatalf("skopeo copy: %v\n%s", err, out)
	}
	index, err := layout.ImageIndexFromPath(to)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), filepath.Join(unpackImage(t, image), config.Config.Entrypoint[0]))
	program.Stdin = strings.NewReader(
		`{"specversion":"1.0","id":"1","source":"/me","type":"greet","data":{"name":"Ada"}}` + "\n")
	out, err := program.Output()
	if err != nil {
		t.Fatal(err)
	}
	// E-014: a function is packaged in a container image, which runs as the function does
	if standalone := testkit.Decode[struct{ Data string }](t, out).Data; standalone != "Hello, Ada!" ||
		standalone != strings.TrimSpace(answer) {
		t.Errorf("the program in the image answers %q, the function %q", standalone, answer)
	}
	labels := config.Config.Labels
	testkit.Equal(t, "title", labels["org.opencontainers.image.title"], "default/greet")
	testkit.Equal(t, "revision", labels["org.opencontainers.image.revision"], string(commit))
	testkit.Equal(t, "number", labels["dev.landfall.number"], "1")
	if text, err := image.RawConfigFile(); err != nil || strings.Contains(string(text), "canary") {
		t.Errorf("the image has the app's configuration: %s, %v", text, err)
	}

	first := digestOf(t, pulled(s, "default/greet:1"))
	testkit.Equal(t, "the digest that skopeo got", manifest.Manifests[0].Digest.String(), first)
	uid := labels["org.opencontainers.image.version"]
	for _, selector := range []string{":latest", ":live", ":" + uid, "@" + first} {
		// E-080: host/namespace/name:tag is the whole name of a function, for every tool
		testkit.Equal(t, "digest of "+selector, digestOf(t, pulled(s, "default/greet"+selector)), first)
	}
	described := func(name string) string {
		t.Helper()
		return testkit.Decode[struct{ Image string }](t,
			[]byte(s.ReadAs("http://localhost:"+s.Port+"/functions/default/"+name).Body)).Image
	}
	testkit.Equal(t, "image of the function", described("greet"), "localhost:"+s.Port+"/default/greet:"+uid)

	r.Write("site/index.html", "another page")
	s.Pushed(r, "shop", "Another page")
	same := digestOf(t, pulled(s, "default/greet:live"))
	r.Write("greet/greet", greetingProgram("Ahoy"))
	s.Pushed(r, "shop", "Another greeting")
	other := digestOf(t, pulled(s, "default/greet"))
	// D-020: the image is a part of a function's version: another one with other code, and the same one without
	if same != first || other == first || described("greet") == described("greet:1") ||
		described("greet:1") != "localhost:"+s.Port+"/default/greet:"+uid {
		t.Errorf("the digests are %s, without a change %s, with one %s; the images %s and then %s", first, same, other,
			described("greet:1"), described("greet"))
	}
	s.Stop()
	s.Start() // what was made is gone
	testkit.Equal(t, "digest after a restart", digestOf(t, pulled(s, "default/greet@"+first)), first)
	tags, err := remote.List(imageAt(s, "default/greet").Context(), with(s.Token), remote.WithPageSize(2))
	if err != nil || len(tags) != 6 || !slices.Contains(tags, "2") || !slices.Contains(tags, uid) ||
		!slices.Contains(tags, "live") {
		t.Errorf("the tags are %v, %v; want two numbers, two uids, latest and live", tags, err)
	}
}

// runImage runs the function of an image as the image says, and returns what it answers.
func runImage(t *testing.T, image v1.Image) string {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), config.Config.Entrypoint[0], config.Config.Entrypoint[1:]...)
	program.Dir = filepath.Join(unpackImage(t, image), config.Config.WorkingDir)
	program.Stdin = strings.NewReader(`{"specversion":"1.0","id":"1","source":"/me","type":"greet","data":{"name":"Ada"}}`)
	out, err := program.Output()
	if err != nil {
		t.Fatalf("the function in the image: %s, %v", out, err)
	}
	return testkit.Decode[struct{ Data string }](t, out).Data
}

// A function in a language is whole but for the language.
func TestFunctionImageOfLanguage(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "greet greet.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "greet/greet.py",
		"def main(event):\n    return 'Hello, ' + event['data']['name']\n")
	s.Pushed(r, "shop", "A function")
	// E-012: it is in a language of its own, and packaged as an image
	testkit.Equal(t, "answer of the function in the image", runImage(t, pulled(s, "default/greet")), "Hello, Ada")
}

// The links of a package, to a file and to a folder, are there in its image, and in what is restored from a backup.
func TestLinksOfPackagesElsewhere(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.BuiltPackage("greet", "python-env", "", "greet.main", "./build.sh"),
		"specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page", "greet/build.sh",
		"#!/bin/sh\nset -e\ncp -r ${SRC_PKG} ${DEPLOY_PKG}\ncd ${DEPLOY_PKG}\nln -s texts/word.txt word\nln -s texts latest\n",
		"greet/texts/word.txt", "Hello", "greet/greet.py", `import os
here = os.path.dirname(os.path.abspath(__file__))
def main(*event):
    link = os.path.join(here, 'word')
    return ' '.join([open(link).read(), os.readlink(link), os.readlink(os.path.join(here, 'latest'))])
`)
	if err := os.Chmod(filepath.Join(r.Dir, "greet", "build.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	host := "shop--" + string(s.Pushed(r, "shop", "A package with links"))
	const want = "Hello texts/word.txt texts"
	site.WantServed(t, s, host, "/api/greet", want)
	// K-001: links are kept in the image of a function
	testkit.Equal(t, "answer of the function in the image", runImage(t, pulled(s, "default/greet")), want)
	archive := filepath.Join(t.TempDir(), "landfall.tar.zst")
	if out, code := s.Run(t.TempDir(), "backup", archive); code != 0 {
		t.Fatalf("landfall backup: %d\n%s", code, out)
	}
	// K-001: and through a backup
	site.WantServed(t, site.Restored(t, archive), host, "/api/greet", want)
}

// Who has no right to an image does not learn whether it is there.
func TestFunctionImageAccess(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "greet greet.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "greet/greet.py", "")
	s.Pushed(r, "shop", "A function")
	digest := digestOf(t, pulled(s, "default/greet"))
	ask := func(method, path, token string) site.Page {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://localhost:"+s.Port+"/v2/"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.SetBasicAuth("whoever", token)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return site.Page{Status: response.StatusCode, Body: string(body), Header: response.Header}
	}
	for _, test := range []struct {
		method, path, token string
		status              int
		code                string
	}{
		{"GET", "", s.Token, 200, ""},
		{"GET", "", "", 401, "UNAUTHORIZED"},
		{"GET", "default/greet/manifests/latest", "nonsense", 401, "UNAUTHORIZED"},
		{"GET", "default/greet/blobs/" + digest, s.Token, 404, "BLOB_UNKNOWN"}, // it is the manifest's
		{"GET", "default/greet/manifests/9", s.Token, 404, "MANIFEST_UNKNOWN"},
		{"GET", "default/greet/manifests/sha256:12", s.Token, 400, "DIGEST_INVALID"},
		{"GET", "default/greet/manifests/sha256:" + strings.Repeat("0", 64), s.Token, 404, "MANIFEST_UNKNOWN"},
		{"GET", "default/nobody/tags/list", s.Token, 404, "NAME_UNKNOWN"},
		{"GET", "default/greet/tags/list?n=-1", s.Token, 400, "PAGINATION_NUMBER_INVALID"},
		{"POST", "default/greet/blobs/uploads/", s.Token, 405, "UNSUPPORTED"},
		{"PUT", "default/greet/manifests/mine", s.Token, 405, "UNSUPPORTED"},
	} {
		got := ask(test.method, test.path, test.token)
		if got.Status != test.status || test.code != "" &&
			!strings.HasPrefix(got.Body, `{"errors":[{"code":"`+test.code+`"`) {
			t.Errorf("%s %s: got %d %s, want %d %s", test.method, test.path, got.Status, got.Body, test.status, test.code)
		}
		if (got.Status == http.StatusUnauthorized) != strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s %s: it asks for %q", test.method, test.path, got.Header.Get("WWW-Authenticate"))
		}
		if !json.Valid([]byte(got.Body)) {
			t.Errorf("%s %s: %q is no JSON", test.method, test.path, got.Body)
		}
	}
}

// greeter builds a program that greets, without libraries.
func greeter(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "greeter")
	err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(`package main

import (
	"encoding/json"
	"os"
	"strings"
)

func main() {
	var names []string
	entries, _ := os.ReadDir("/")
	for _, e := range entries {
		names = append(names, e.Name())
	}
	here, _ := os.Getwd()
	_, err := os.Create("/srv/app/file")
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var event struct{ Data struct{ Name string } }
		if in.Decode(&event) != nil {
			return
		}
		out.Encode(map[string]any{"specversion": "1.0", "id": "1", "source": "/me", "type": "t", "datacontenttype": "application/json", "data": map[string]any{
			"text": os.Args[1] + ", " + event.Data.Name, "root": strings.Join(names, " "), "dir": here, "env": os.Getenv("WORD") + os.Getenv("currency"),
			"user": os.Getuid(), "written": err == nil,
		}})
	}
}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, filepath.Join(dir, "main.go"))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// imageOf returns an image of a program that says a word.
func imageOf(t *testing.T, program, word string) v1.Image {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, header := range []*tar.Header{
		{Name: "usr/bin/greeter", Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg},
		{Name: "bin", Linkname: "usr/bin", Typeflag: tar.TypeSymlink},
		{Name: "etc/", Mode: 0o755, Typeflag: tar.TypeDir}, {Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir},
	} {
		err = errors.Join(err, w.WriteHeader(header))
		if header.Size > 0 {
			_, failed := w.Write(text)
			err = errors.Join(err, failed)
		}
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{Entrypoint: []string{"greeter"}, Cmd: []string{word}, Env: []string{"PATH=/bin", "WORD=word"},
		WorkingDir: "/srv/app"}
	if image, err = mutate.ConfigFile(image, file); err != nil {
		t.Fatal(err)
	}
	return image
}

// writeImage writes an image as docker save does.
func writeImage(t *testing.T, image v1.Image, to string) {
	t.Helper()
	if err := tarball.WriteToFile(to, name.MustParseReference("greeter:latest"), image); err != nil {
		t.Fatal(err)
	}
}

// A function that is an image runs in the image, and sees nothing of the server.
func TestFunctionThatIsAnImage(t *testing.T) {
	t.Parallel()
	// images are unpacked in the data folder, which a start empties
	s := site.New(t, "TMPDIR="+filepath.Join(t.TempDir(), "none"))
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("container-env", "greet", "wave"), "specs/app.yaml",
		site.AppSpec("shop", "config: {currency: EUR}"),
		"site/index.html", "page", "greet/README", "", "wave/README", "")
	specs, err := os.ReadFile(filepath.Join(r.Dir, "specs/functions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(specs), "{name: wave-pkg}, functionName: }",
		`{name: wave-pkg}, functionName: "Bye"}`, 1)
	r.Write("specs/functions.yaml", text)
	program := imageOf(t, greeter(t), "Hello")
	writeImage(t, program, filepath.Join(r.Dir, "greet", "image.tar"))
	writeImage(t, program, filepath.Join(r.Dir, "wave", "image.tar"))
	s.Pushed(r, "shop", "Two images")
	type answer struct {
		Text, Root, Dir, Env string
		User                 int
		Written              bool
	}
	for name, want := range map[string]string{"greet": "Hello, Ada", "wave": "Bye, Ada"} {
		out, code := s.Run(t.TempDir(), "function", "invoke", name, "--data", `{"name":"Ada"}`)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", name, code, out)
		}
		got := testkit.Decode[answer](t, []byte(out))
		user, own := 65534, got.User >= 32_768 && got.User != 65534
		if own && os.Getuid() == 0 {
			got.User = user // where the server is root, each function is a user of its own
		}
		// E-012: a function in any language, packaged as a container image, runs in its own root and nothing else
		if want := (answer{want, "bin dev etc proc run srv tmp usr", "/srv/app", "wordEUR", user, false}); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	// it goes on as an image, with what it had
	image := pulled(s, "default/greet")
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "entry point", strings.Join(config.Config.Entrypoint, " "), "/bin/greeter Hello")
	testkit.Equal(t, "folder", config.Config.WorkingDir, "/srv/app")
	if !slices.Contains(config.Config.Env, "WORD=word") || !slices.Contains(config.Config.Env, "PATH=/bin") {
		t.Errorf("the environment is %q", config.Config.Env)
	}
}

// A function may be an image of another registry: the one that its tag means when the version is made, and no other.
func TestFunctionOfARegistry(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo))))
	t.Cleanup(elsewhere.Close)
	at := strings.TrimPrefix(elsewhere.URL, "http://")
	program := greeter(t)
	tag, err := name.ParseReference(at + "/team/greeter:stable")
	if err != nil {
		t.Fatal(err)
	}
	put := func(word string) {
		t.Helper()
		if err := remote.Write(tag, imageOf(t, program, word)); err != nil {
			t.Fatal(err)
		}
	}
	put("Hello")
	s := site.New(t, "LANDFALL_ALLOWED_HOSTS="+at)
	r := s.Repository(s.App("shop"))
	specs := func(image string) string {
		return strings.NewReplacer("fission/container-env", image, "{name: env}", "{name: container-greeter}",
			`, deployment: {url: "archive://greet"}`, "").
			Replace(strings.Split(site.FunctionsSpec("container-env", "greet"), "---\nkind: ArchiveUploadSpec")[0])
	}
	r.Write("specs/functions.yaml", specs(tag.String()), "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page")
	s.Pushed(r, "shop", "An image")
	greet := func(version string) string {
		t.Helper()
		out, code := s.Run(t.TempDir(), "function", "invoke", "greet"+version, "--data", `{"name":"Ada"}`)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, out)
		}
		return testkit.Decode[struct{ Text string }](t, []byte(out)).Text
	}
	testkit.Equal(t, "answer", greet(""), "Hello, Ada")

	put("Ahoy")
	// E-012: the tag means another image now, and the version that was made is what it was
	testkit.Equal(t, "answer of the version that was made", greet(":latest"), "Hello, Ada")
	r.Write("site/index.html", "another page")
	s.Pushed(r, "shop", "Looked up again")
	testkit.Equal(t, "answer of the next version", greet(""), "Ahoy, Ada")
	elsewhere.Close()
	s.Kill()
	if first, second := greet(":1"), greet(":2"); first != "Hello, Ada" || second != "Ahoy, Ada" {
		t.Errorf("without the registry the versions answer %q and %q", first, second)
	}

	for image, says := range map[string]string{
		"127.0.0.1:1/team/greeter:stable": "LANDFALL_ALLOWED_HOSTS",
		"localhost:5/team/greeter":        "LANDFALL_ALLOWED_HOSTS",
		"Team/Greeter":                    "is no image",
	} {
		r.Write("specs/functions.yaml", specs(image))
		r.Commit("An image that may not be")
		out, _ := r.Try("push", "origin", "HEAD")
		testkit.Contains(t, site.ToldBy(out), says)
	}
}
