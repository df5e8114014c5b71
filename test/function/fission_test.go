package function_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// executable gives files of a work tree the right to be executed.
func executable(r *site.Repository, names ...string) {
	r.T.Helper()
	for _, name := range names {
		if err := os.Chmod(filepath.Join(r.Dir, name), 0o755); err != nil {
			r.T.Fatal(err)
		}
	}
}

// A plain file is a function of Fission's binary environment, whatever its mode is: it is run for each request, which
// it finds in its environment and on its standard input, and what it prints is the answer.
func TestFissionPrograms(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	cat, err := os.ReadFile("/usr/bin/cat")
	if err != nil {
		t.Fatal(err)
	}
	r.Write("specs/functions.yaml", site.FunctionsSpec("binary-env", "hello hello.sh", "echo echo.sh",
		"headers headers.sh", "several start.sh", "native", "page page.sh"),
		"specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"hello/hello.sh", "echo \"Hello World!\"\n",
		"echo/echo.sh", "#!/bin/sh\n\nprintf \"... $REQUEST_METHOD $CONTENT_LENGTH \"\ncat -",
		"headers/headers.sh", "#!/bin/sh\nenv | grep '^HTTP_X'; echo \"$REQUEST_URI\"\n",
		"several/start.sh", "#!/bin/sh\necho \"Inside the shell\"\n/userfunc/deployarchive/tool hello\ntool again\n",
		"several/tool", "#!/bin/sh\necho \"Arguments: [$1]\"\n",
		"native/cat", string(cat),
		"page/page.sh", "echo '<!DOCTYPE html><p>Hello'\n")
	executable(r, "several/start.sh", "several/tool")
	s.Pushed(r, "shop", "Plain programs")
	// K-007: without the x bit and without a first line that names a shell
	site.WantServed(t, s, "shop", "/api/hello", "Hello World!\n")
	// K-007: the body is on standard input, and the method and the length are in the environment
	testkit.Equal(t, "answer of echo", s.Send(http.MethodPost, s.At("shop", "/api/echo"), "Echoooooo!").Body,
		"... POST 10 Echoooooo!")
	headers := s.Send(http.MethodGet, s.At("shop", "/api/headers?a=b"), "", "X-Foo", "BAR").Body
	testkit.Contains(t, site.Told{headers}, "HTTP_X_FOO=BAR\n", "/api/headers?a=b\n")
	// K-007: the other files of the package are where Fission has them
	site.WantServed(t, s, "shop", "/api/several", "Inside the shell\nArguments: [hello]\nArguments: [again]\n")
	// K-007: a program that is no script, without the x bit
	testkit.Equal(t, "answer of a program", s.Send(http.MethodPost, s.At("shop", "/api/native"), "as it is").Body,
		"as it is")
	testkit.Equal(t, "type of a page", s.Get(s.At("shop", "/api/page")).Header.Get("Content-Type"),
		"text/html; charset=utf-8")
}

// reader is a function that shows a file, or why it cannot be read, and what it may do with it.
const reader = `import os
import sys
from flask import request

def main():
    if request.method == "POST":
        print("the key is", open("/secrets/default/aws/keyid").read())
        return os.environ.get(request.args["name"], "none")
    name = request.args["file"]
    try:
        with open(name) as file:
            said = file.read()
    except OSError as error:
        return type(error).__name__
    try:
        open(name, "w")
    except OSError as error:
        return f"{said} {os.stat(name).st_mode & 0o777:o} {type(error).__name__}"
    return said + " can be written"
`

// readerSpec declares the function, and an environment with variables.
func readerSpec(config string) string {
	return `apiVersion: fission.io/v1
kind: Environment
metadata: {name: python}
spec:
  version: 2
  runtime:
    image: fission/python-env
    container:
      name: ""
      env:
      - {name: GREETING, value: 100mb}
      - {name: currency, value: none}
      - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    podspec: {nodeSelector: {machine: large}}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: code}
spec: {environment: {name: python}, deployment: {url: "archive://code"}}
---
kind: ArchiveUploadSpec
name: code
include: ["code/*"]
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: reads}
spec:
  environment: {name: python}
  package: {packageref: {name: code}, functionName: reader.main}
  secrets:
  - {name: aws, namespace: default}
  - {name: TOKEN}
  configmaps:
  - {name: ` + config + `, namespace: default}
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: other}
spec:
  environment: {name: python}
  package: {packageref: {name: code}, functionName: reader.main}
---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: reads}
spec: {functionref: {name: reads}, methods: [GET, POST], relativeurl: /reads}
---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: other}
spec: {functionref: {name: other}, methods: [GET], relativeurl: /other}
`
}

// Secrets and config maps are files of the functions that name them, and of nobody else; the variables of an
// environment's container are variables.
func TestFissionFiles(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	s.SetSecret("shop", "aws", `{"keyid": "AKIA-canary-0123456789", "region": "eu"}`)
	s.SetSecret("shop", "TOKEN", "plain-canary-text")
	r.Write("specs/functions.yaml", readerSpec("queue"), "specs/app.yaml",
		site.AppSpec("shop", "config: {currency: EUR, queue: {URL: 'https://queue.example.com/1', depth: 7}}"),
		"site/index.html", "page", "code/reader.py", reader)
	r.Commit("Files")
	pushed := r.Push("HEAD")
	s.Released(pushed, "shop")
	// K-010: what means nothing here is said, with its place
	testkit.Contains(t, pushed, "specs/functions.yaml:13: kept, not used: spec.runtime.container.env[2].valueFrom",
		"specs/functions.yaml:14: kept, not used: spec.runtime.podspec")
	// K-010: the keys of secrets and config maps are files
	for file, want := range map[string]string{
		"/secrets/default/aws/keyid":  "AKIA-canary-0123456789 400 OSError",
		"/secrets/default/aws/region": "eu 400 OSError",
		// a value that has no keys is a file, too
		"/secrets/default/TOKEN/value": "plain-canary-text 400 OSError",
		// config maps are parts of the app's configuration
		"/configs/default/queue/URL":   "https://queue.example.com/1 400 OSError",
		"/configs/default/queue/depth": "7 400 OSError",
		"/configs/default/other/URL":   "FileNotFoundError",
	} {
		site.WantServed(t, s, "shop", "/reads?file="+file, want)
	}
	// K-010: what a function does not name it does not find
	site.WantServed(t, s, "shop", "/other?file=/secrets/default/aws/keyid", "FileNotFoundError")
	variable := func(name string) string {
		return s.Send(http.MethodPost, s.At("shop", "/reads?name="+name), "", "Authorization", "none").Body
	}
	// K-010: variables of runtime.container.env are there, below the app's configuration
	testkit.Equal(t, "a variable of the environment", variable("GREETING"), "100mb")
	testkit.Equal(t, "a variable of both", variable("currency"), "EUR")
	logged, _ := s.Run(t.TempDir(), "function", "logs", "reads:live")
	testkit.Contains(t, site.Told{logged}, "the key is [secret aws]")
	if strings.Contains(logged, "canary") {
		t.Errorf("the log has the secret:\n%s", logged)
	}
	err := filepath.WalkDir(s.Data, func(path string, entry fs.DirEntry, _ error) error {
		if entry == nil || !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && (bytes.Contains(text, []byte("AKIA-canary-0123456789")) ||
			bytes.Contains(text, []byte("plain-canary-text"))) {
			t.Errorf("the file %s has a secret", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}

	r.Write("specs/functions.yaml", readerSpec("missing"))
	r.Commit("A config map that is not there")
	// K-010: what is not there is said at the push
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"), "specs/functions.yaml:35", "the config map missing",
		"spec.config of the App")
}

// A route may have regular expressions, as Fission's router has them.
func TestRoutesWithExpressions(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	route := func(name, url string) string {
		return "---\napiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: " + name +
			"}\nspec:\n  functionref: {type: name, name: hello}\n  relativeurl: " + url + "\n"
	}
	specs := site.FunctionsSpec("python-env", "hello hello.main") + route("pages", `/chat/{html:[a-zA-Z0-9\.\/]+}`) +
		route("one", "/chat/{name}/settings") +
		route("numbers", "/order-{id:[0-9]{2,4}}/{part}.json")
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"site/chat/app.html", "a file", "hello/hello.py",
		"from flask import request\n\ndef main():\n    return ' '.join(f'{k[17:]}={v}' for k, v in "+
			"sorted(request.headers.items()) if k.startswith('X-Fission-Params-'))\n")
	s.Pushed(r, "shop", "Regular expressions")
	for path, want := range map[string]string{
		"/chat/app.html":         "Html=app.html",
		"/chat/js/chat.js":       "Html=js/chat.js",
		"/chat/ada_1/settings":   "Name=ada_1",
		"/chat/ada/settings":     "Html=ada/settings", // its text in front is as long, and it is an expression
		"/order-42/invoice.json": "Id=42 Part=invoice",
	} {
		site.WantServed(t, s, "shop", path, want)
	}
	testkit.Equal(t, "status of a path that does not match", s.Get(s.At("shop", "/order-1/invoice.json")).Status,
		http.StatusNotFound)
	testkit.Equal(t, "status of another method", s.Send(http.MethodPut, s.At("shop", "/chat/a.b"), "").Status,
		http.StatusMethodNotAllowed)

	r.Write("specs/functions.yaml", strings.Replace(specs, "{2,4}", "{4,2}", 1))
	r.Commit("A bad expression")
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"), "specs/functions.yaml:46", "regular expression",
		"invalid repeat count")
}

// application is an ASGI application by hand: it has a lifespan, reads bodies, streams, and fails.
const application = `import asyncio

began = []

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        began.append("began")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    if scope["path"].endswith("fail"):
        raise ValueError("on purpose")
    await send({"type": "http.response.start", "status": 201, "headers": [(b"content-type", b"text/plain"), (b"x-order", b"7")]})
    if scope["query_string"] == b"stream":
        for n in range(3):
            await send({"type": "http.response.body", "body": b"%d," % n, "more_body": True})
            await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b" ".join([scope["method"].encode(), body, *[b.encode() for b in began]])})
`

// fastapiCode is an application of FastAPI, and a function as Fission's environment python-fastapi has them.
const fastapiCode = `from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

app = FastAPI()

class Order(BaseModel):
    name: str
    count: int = 1

@app.post("/api/orders")
async def order(order: Order):
    return {"ordered": order.name, "count": order.count}

@app.get("/api/orders")
def lines(count: int):
    return StreamingResponse((f"{n}\n" for n in range(count)), media_type="text/plain")

async def main(request: Request):
    return Response("Not Found " + (await request.body()).decode(), 404)

def dictionary(request: Request):
    return {"path": request.url.path}
`

// ASGI applications run, and those of FastAPI, and functions that take a request of it.
func TestASGI(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := site.FunctionsSpec("python-fastapi-env", "plain plain.app", "orders code.app", "status code.main",
		"dict code.dictionary")
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"plain/plain.py", application, "orders/code.py", fastapiCode, "status/code.py", fastapiCode, "dict/code.py",
		fastapiCode)
	s.Pushed(r, "shop", "Applications")
	post := func(path, body string) site.Page {
		return s.Send(http.MethodPost, s.At("shop", path), body, "Content-Type", "application/json")
	}
	// K-009: an application's lifespan has begun, it reads the body, and chooses status and headers
	plain := post("/api/plain", "[1]")
	testkit.Equal(t, "answer", plain.Body, "POST [1] began")
	testkit.Equal(t, "status", plain.Status, http.StatusCreated)
	testkit.Equal(t, "header", plain.Header.Get("X-Order"), "7")
	// K-009: an answer that is streamed
	testkit.Equal(t, "streamed", s.Get(s.At("shop", "/api/plain?stream")).Body, "0,1,2,GET  began")
	// K-009: FastAPI, with what it checks
	testkit.Equal(t, "an order", post("/api/orders", `{"name": "tea"}`).Body, `{"ordered":"tea","count":1}`)
	testkit.Equal(t, "status of no order", post("/api/orders", `{"count": 1}`).Status, http.StatusUnprocessableEntity)
	testkit.Equal(t, "lines", s.Get(s.At("shop", "/api/orders?count=3")).Body, "0\n1\n2\n")
	// K-009: a function of Fission's own environment
	status := post("/api/status", "here")
	testkit.Equal(t, "answer of a function", status.Body, "Not Found here")
	testkit.Equal(t, "status of a function", status.Status, http.StatusNotFound)
	testkit.Equal(t, "type of a function's answer", status.Header.Get("Content-Type"), "text/plain; charset=utf-8")
	site.WantServed(t, s, "shop", "/api/dict", `{"path":"/api/dict"}`)
}

// What will not run fails the run before anything is created, on any branch, and is an error of spec validate in the
// same words. An environment that no function uses is fine.
func TestWillNotRun(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	unused := "apiVersion: fission.io/v1\nkind: Environment\nmetadata: {name: ruby}\nspec: {version: 2, runtime: " +
		"{image: fission/ruby-env}}\n"
	right := site.FunctionsSpec("python-env", "hello hello.main")
	r.Write("specs/functions.yaml", right, "specs/app.yaml", site.AppSpec("shop"), "specs/unused.yaml", unused,
		"site/index.html", "page", "hello/hello.py", "def main():\n    return 'one'\n", "hello/socket.py",
		"import os\n\ndef main(ws, clients):\n    ws.send('hi')\n", "hello/broadcast.js",
		"module.exports = async function(ws, clients) {\n};\n")
	r.Write("none/image.tar", "this is no image\n", "broken/image.tar", "")
	broken, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte("this is no layer"), types.DockerLayer))
	if err != nil {
		t.Fatal(err)
	}
	writeImage(t, broken, filepath.Join(r.Dir, "broken", "image.tar"))
	s.Pushed(r, "shop", "Fine")
	before := s.Stored("shop")
	releases := s.Accessible("shop")
	for i, c := range []struct{ specs, sentence string }{
		{site.FunctionsSpec("ruby-env", "hello hello.main"),
			"Function hello will not run: functions cannot run in the environment \"env\""},
		{site.FunctionsSpec("python-env", "hello helo.main"),
			"Function hello will not run: the entry point \"helo.main\" cannot be: the package has neither helo.py"},
		{site.FunctionsSpec("python-env", "hello socket.main"),
			"Function hello will not run: hello/socket.py:3 takes a WebSocket, as (ws, clients)"},
		{site.FunctionsSpec("node-env", "hello broadcast"),
			"Function hello will not run: hello/broadcast.js:1 takes a WebSocket, as (ws, clients)"},
		{site.FunctionsSpec("container-env", "hello"), "Function hello will not run: the package has no image"},
		{strings.ReplaceAll(site.FunctionsSpec("container-env", "hello"), "hello/*", "none/image.tar"),
			"Function hello will not run: the image image.tar is no tar file"},
		{strings.ReplaceAll(site.FunctionsSpec("container-env", "hello"), "hello/*", "broken/image.tar"),
			"cannot be unpacked, layer 1"},
	} {
		if i%2 == 1 {
			r.Checkout("feature-" + string(rune('a'+i)))
		}
		r.Write("specs/functions.yaml", c.specs)
		r.Commit("Will not run")
		place := "specs/functions.yaml:"
		// K-023: the run fails, with the place
		site.WantFailed(t, s, "shop", r, r.Push("HEAD"), place, c.sentence)
		out, code := s.Run(r.Dir, "spec", "validate")
		// K-023: spec validate says the same, and ends with 2
		testkit.Equal(t, "exit code of spec validate: "+out, code, 2)
		testkit.Contains(t, site.Told{out}, place, c.sentence)
	}
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello broken.main"), "hello/broken.py",
		"import os\n\ndef main(:\n    return 1\n")
	r.Commit("No Python")
	// A push knows what the interpreter says; spec validate runs none
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"), "specs/functions.yaml:",
		"Function hello will not run: hello/broken.py:3: SyntaxError: ")
	r.Write("specs/functions.yaml", right)
	for link, target := range map[string]string{"hello/link.py": "nowhere.py", "hello/folder": "../site",
		"hello/absolute": "/etc/passwd"} {
		if err := os.Symlink(target, filepath.Join(r.Dir, link)); err != nil {
			t.Fatal(err)
		}
		r.Commit("A link to no file")
		says := link + ` is a symbolic link that leads to no file of the repository`
		site.WantFailed(t, s, "shop", r, r.Push("HEAD"), says)
		out, code := s.Run(r.Dir, "spec", "validate")
		// K-023: spec validate sees what a link leads to
		testkit.Equal(t, "exit code of spec validate: "+out, code, 2)
		testkit.Contains(t, site.Told{out}, "specs/functions.yaml:", says)
		r.Git("rm", "--quiet", link)
	}
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-fastapi-env", "hello request.main"), "hello/request.py",
		"async def main(request):\n    return 1\n")
	r.Commit("FastAPI")
	if pushed := r.Push("HEAD"); environment.HasFastAPI() {
		s.Released(pushed, "shop")
		before, releases = s.Stored("shop"), s.Accessible("shop")
	} else {
		site.WantFailed(t, s, "shop", r, pushed,
			"Function hello will not run: hello/request.py needs FastAPI, which neither its package nor the server has")
	}
	// K-023: nothing was created
	testkit.EqualList(t, "objects", s.Stored("shop"), before)
	testkit.EqualList(t, "releases", s.Accessible("shop"), releases)
	site.WantServed(t, s, "shop", "/api/hello", "one")
}
