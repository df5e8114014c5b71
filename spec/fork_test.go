package spec_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/test/testkit"
)

// parsed returns the spec of one file.
func parsed(t *testing.T, text string) *spec.Spec {
	t.Helper()
	return testkit.Must(spec.Parse([]spec.Source{{Name: "specs/all.yaml", Data: []byte(text)}}, spec.Limits{}))(t)
}

// base is what the branch declares into which a fork is to be merged.
const base = `apiVersion: landfall.dev/v1
kind: App
metadata: {name: shop}
spec:
  build: {command: make site, outputs: [site]}
  static: [{src: site, path: /}]
  release: {live: manual}
---
apiVersion: fission.io/v1
kind: Environment
metadata: {name: python}
spec: {version: 2, runtime: {image: fission/python-env}, builder: {image: fission/builder, command: build}}
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: pay}
spec:
  environment: {name: python}
  functionTimeout: 7
  allowAccessToExternalNetwork: true
  secrets: [{name: KEY, namespace: default}]
  package: {packageref: {name: pay-pkg}, functionName: main.main}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: pay-pkg}
spec: {environment: {name: python}, buildcmd: make pay, source: {url: "archive://pay"}}
---
kind: ArchiveUploadSpec
name: pay
include: ["pay/*"]
---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: pay}
spec: {functionref: {type: name, name: pay}, methods: [GET], relativeurl: /pay}
`

// What a fork changes of builds, releasing, secrets, network and limits is as the base branch has it, and what it
// changes of files, functions and routes is its own.
func TestUnderBase(t *testing.T) {
	t.Parallel()
	fork := parsed(t, strings.NewReplacer("make site", "evil", "live: manual", "keep: 9", "make pay", "evil",
		"functionTimeout: 7", "functionTimeout: 4000\n  concurrency: 99", "name: KEY", "name: OTHER", "relativeurl: /pay",
		"relativeurl: /paid", "main.main", "main.other", "fission/python-env", "fission/node-env",
		"src: site", "src: out").Replace(base))
	under, notes, err := fork.UnderBase(parsed(t, base))
	if err != nil {
		t.Fatal(err)
	}
	// S18: build, release and environments come from the base branch
	testkit.Equal(t, "build", under.App.Build.Command, "make site")
	testkit.Equal(t, "release", under.App.Release.Live, landfall.LiveManual)
	testkit.Equal(t, "build of the package", under.Packages[0].BuildCommand, "make pay")
	env, _ := under.Environment("python")
	testkit.Equal(t, "image", env.Image, "fission/python-env")
	pay := under.Functions[0]
	network, err := spec.ReadNetwork(pay.Spec, under.Environments[0].Spec)
	// S18: a fork's function has no secret and no network, and the base branch's limits
	if f := testkit.Must(spec.ReadFunctionVersion(pay.Spec))(t); err != nil || network || len(pay.Secrets) != 0 ||
		len(f.Secrets) != 0 || f.Resources.Timeout.Seconds() != 7 || f.Resources.Concurrency == 99 {
		t.Errorf("got %s, with the network %t, want the base branch's limits and nothing else", pay.Spec, network)
	}
	testkit.EqualList(t, "what is said", notes, []string{"Function pay gets none of the secrets that it names"})
	testkit.Equal(t, "entry point", testkit.Must(spec.ReadFunctionVersion(pay.Spec))(t).Entrypoint, "main.other")
	testkit.Equal(t, "whether the route is changed", string(under.Triggers[0].Spec) != string(fork.Triggers[0].Spec), false)
	testkit.Equal(t, "files", under.App.Static[0].Src, "out")
	testkit.Equal(t, "the fork's own build", fork.App.Build.Command, "evil")
}

// What a fork cannot have is refused with its line.
func TestUnderBaseRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, with, where string }{
		"an environment of its own": {"---\nkind: ArchiveUploadSpec", "---\napiVersion: fission.io/v1\nkind: Environment\n" +
			"metadata: {name: own}\nspec: {version: 2, runtime: {image: fission/node-env}}\n---\nkind: ArchiveUploadSpec",
			"specs/all.yaml:29: Environment own"},
		"an archive elsewhere": {`"archive://pay"`, "https://example.com/pay.zip",
			"specs/all.yaml:27: Package pay-pkg: forks build without a network"},
		"another version": {"type: name, name: pay}", "type: name, name: pay, version: '3'}",
			"specs/all.yaml:33: the trigger pay leads to another version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := parsed(t, strings.Replace(base, c.old, c.with, 1)).UnderBase(parsed(t, base))
			// S18: what could bring a secret, a network or foreign code is refused
			testkit.Kind(t, name, err, landfall.Invalid, c.where)
		})
	}
}
