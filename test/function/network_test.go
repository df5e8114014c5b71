package function_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// fetchers are functions that fetch the address that they are given, and answer what came or what is wrong.
func fetchers() []struct{ environment, entrypoint, file, text string } {
	return []struct{ environment, entrypoint, file, text string }{
		{"python-env", "main.main", "main.py", `import os
import urllib.request


def main(event):
    try:
        with urllib.request.urlopen(event['data']) as answer:
            return answer.read().decode()
    except OSError as error:
        return 'failed: %s %s' % (error, error.read() if hasattr(error, 'read') else '')
`},
		{"node-env", "main.fetched", "main.js", `exports.fetched = async ({ request }) => {
  try {
    const answer = await fetch(String(request.body));
    return { body: (answer.ok ? "" : "failed: ") + (await answer.text()) };
  } catch (error) {
    return { body: "failed: " + (error.cause ?? error) };
  }
};
`},
		{"node-env", "main.asked", "main.js", `exports.asked = ({ request }) => new Promise((done) => {
  const address = String(request.body);
  const fail = (error) => done({ body: "failed: " + error });
  require(address.split(":")[0]).get(address, (answer) => {
    let body = answer.statusCode === 200 ? "" : "failed: ";
    answer.on("data", (piece) => (body += piece)).on("end", () => done({ body }));
  }).on("error", fail);
});
`},
		{"binary-env", "exec:main", "main", `#!/bin/sh
curl --silent --show-error --fail-with-body --cacert ca.pem --data-binary '' --request GET "$(cat)" 2>&1 || echo failed:
`},
	}
}

// A function whose spec asks for the network fetches from where the sandbox may go, and from nowhere else; one that
// does not ask reaches nothing.
func TestFunctionNetwork(t *testing.T) {
	t.Parallel()
	served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "served "+r.URL.Path) })
	plain, secure, other := httptest.NewServer(served), httptest.NewTLSServer(served), httptest.NewServer(served)
	for _, server := range []*httptest.Server{plain, secure, other} {
		t.Cleanup(server.Close)
	}
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	host := func(server *httptest.Server) string { return server.Listener.Addr().String() }
	s := site.New(t, "LANDFALL_ALLOWED_HOSTS="+host(plain)+","+host(secure))
	r := s.Repository(s.App("shop"))
	r.Write("site/index.html", "page", "specs/app.yaml",
		site.AppSpec("shop", "config: {SSL_CERT_FILE: ca.pem, NODE_EXTRA_CA_CERTS: ca.pem}"))
	for _, f := range fetchers() {
		name := f.environment + " " + f.entrypoint
		for _, function := range []string{"fetch", "closed"} {
			folder := filepath.Join(r.Dir, function)
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
			r.Write(function+"/"+f.file, f.text, function+"/ca.pem", ca)
			if err := os.Chmod(filepath.Join(folder, f.file), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		specs := site.FunctionsSpec(f.environment, "fetch "+f.entrypoint, "closed "+f.entrypoint)
		r.Write("specs/functions.yaml", strings.Replace(specs, "spec:\n", "spec:\n  allowAccessToExternalNetwork: true\n", 1))
		s.Pushed(r, "shop", name)
		ask := func(function, address string) string {
			return s.Post(s.At("shop", "/api/"+function), "text/plain", address).Body
		}
		for _, server := range []*httptest.Server{plain, secure} {
			testkit.Equal(t, name+": answer of "+server.URL, ask("fetch", server.URL+"/stock"), "served /stock")
			if answer := ask("closed", server.URL+"/stock"); !strings.Contains(answer, "failed:") ||
				strings.Contains(answer, "served") {
				t.Errorf("%s, without the field: %q, want a failure", name, answer)
			}
		}
		for _, address := range []string{
			other.URL, "http://127.0.0.1:" + s.Port + "/readyz", "http://localhost:" + s.Port + "/readyz",
			"http://169.254.169.254/latest/meta-data/", "https://169.254.169.254/", "http://10.0.0.1/",
		} {
			answer := ask("fetch", address)
			if !strings.Contains(answer, "failed:") ||
				!strings.Contains(answer, "the sandbox reaches") && !strings.Contains(answer, "403") {
				t.Errorf("%s: %s: %q, want it refused by the proxy", name, address, answer)
			}
		}
	}
}

// What a function may reach is shown before it may, and the administrator can forbid it for all.
func TestFunctionNetworkIsShown(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") }))
	t.Cleanup(plain.Close)
	s := site.New(t, "LANDFALL_ALLOWED_HOSTS="+plain.Listener.Addr().String())
	r := s.Repository(s.App("shop"))
	specs := site.FunctionsSpec("python-env", "fetch main.main")
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"fetch/main.py", fetchers()[0].text)
	s.Pushed(r, "shop", "A function")
	ask := func() string { return s.Post(s.At("shop", "/api/fetch"), "text/plain", plain.URL).Body }
	testkit.Equal(t, "a function without", strings.HasPrefix(ask(), "failed: "), true)

	// Fission has the field at environments.
	r.Write("specs/functions.yaml", strings.Replace(specs, "version: 2,",
		"version: 2, allowAccessToExternalNetwork: true,", 1))
	out, _ := s.Run(r.Dir, "spec", "validate")
	testkit.Contains(t, site.Told{out}, "may reach the network: fetch")
	out, _ = s.Run(r.Dir, "spec", "diff")
	site.WantFiles(t, out, "function fetch changed", "may reach the network now")
	s.Pushed(r, "shop", "A network")
	testkit.Equal(t, "a function with a network", ask(), "served")
	out, _ = s.Run(r.Dir, "status")
	testkit.Contains(t, site.Told{out}, "as their specs say")

	// A function's own word counts before its environment's.
	r.Write("specs/functions.yaml",
		strings.Replace(strings.Replace(specs, "version: 2,", "version: 2, allowAccessToExternalNetwork: true,", 1),
			"spec:\n", "spec:\n  allowAccessToExternalNetwork: false\n", 1))
	s.Pushed(r, "shop", "None for this one")
	testkit.Equal(t, "a function that wants none", strings.HasPrefix(ask(), "failed: "), true)
	r.Write("specs/functions.yaml", strings.Replace(specs, "spec:\n", "spec:\n  allowAccessToExternalNetwork: maybe\n", 1))
	out, _ = s.Run(r.Dir, "spec", "validate")
	testkit.Contains(t, site.Told{out}, "specs/functions.yaml:", "allowAccessToExternalNetwork")

	s.Stop()
	s.Start("LANDFALL_FUNCTIONS_NETWORK=off")
	r.Write("specs/functions.yaml", strings.Replace(specs, "spec:\n", "spec:\n  allowAccessToExternalNetwork: true\n", 1))
	s.Pushed(r, "shop", "A network, again")
	testkit.Equal(t, "a function that gets none", strings.HasPrefix(ask(), "failed: "), true)
	var status client.Status
	s.Call(http.MethodGet, "/status", nil, &status)
	testkit.Equal(t, "status", status.Network, "off, whatever their specs say")
}
