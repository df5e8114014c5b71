package push_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"landfall.dev/landfall/test/site"
)

// What a lock file says is installed from npm's own registry by the only way that a build has to a network: for the
// app's build, and for the package of a function.
func TestNpmCiFromItsRegistry(t *testing.T) {
	t.Parallel()
	const registry = "registry.npmjs.org" // for which a company's network may have an address of its own
	const needs = `{"name": "page", "version": "1.0.0", "private": true, "dependencies": {"is-number": "7.0.0"}}`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(needs), 0o600); err != nil {
		t.Fatal(err)
	}
	lock := exec.CommandContext(t.Context(), "npm", "install", "--package-lock-only", "--no-audit", "--no-fund",
		"--registry", "https://"+registry)
	lock.Dir = dir
	if out, err := lock.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	locked, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	s := site.New(t, "LANDFALL_ALLOWED_HOSTS="+registry)
	r := s.Repository(s.App("shop"))
	r.Write("package.json", needs, "package-lock.json", string(locked), "build.js", `
const fs = require('fs');
fs.mkdirSync('site');
fs.writeFileSync('site/index.html', 'four is a number: ' + require('is-number')(4));
`, "specs/app.yaml", site.AppSpec("shop", "build: {command: npm ci && node build.js, outputs: [site]}"),
		"specs/function.yaml", site.BuiltPackage("hello", "node-env", "", "hello", `"npm ci && cp -r . $DEPLOY_PKG"`),
		"hello/package.json", needs, "hello/package-lock.json", string(locked), "hello/hello.js",
		"module.exports = async () => ({status: 200, body: 'five is a number: ' + require('is-number')(5)});\n")
	s.Pushed(r, "shop", "What npm has")
	// K-002: npm ci works in a build as its users write it
	site.WantServed(t, s, "shop", "/", "four is a number: true")
	site.WantServed(t, s, "shop", "/api/hello", "five is a number: true")
}
