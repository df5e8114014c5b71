package spec_test

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
)

// What a version keeps of a trigger is all that serving it needs.
func TestReadTriggerVersion(t *testing.T) {
	t.Parallel()
	triggers := 0
	for _, path := range fixtures(t, "valid") {
		for _, want := range mustParse(t, readFixture(t, path).sources...).Triggers {
			if want.Kind != landfall.HTTPTrigger {
				continue
			}
			triggers++
			got, err := spec.ReadTriggerVersion(want.Name, want.Spec)
			want.Object = got.Object // its place and namespace are not the version's
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, %v, want %+v", filepath.Base(path), got, err, want)
			}
		}
	}
	if triggers == 0 {
		t.Error("there is no trigger")
	}
}

func TestReadFunctionVersion(t *testing.T) {
	t.Parallel()
	s := mustParse(t, one(`apiVersion: fission.io/v1
kind: Function
metadata: {name: hello}
spec:
  environment: {name: python}
  package: {packageref: {name: hello-pkg}, functionName: hello.main}
  resources: {requests: {memory: 64Mi, cpu: 1}, limits: {memory: 1.5Gi, cpu: 250m, ephemeral-storage: 10M}}
  functionTimeout: 5
  idletimeout: 60
  concurrency: 3
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: hello-pkg}
spec: {deployment: {type: literal, literal: aGVsbG8=}}
---
apiVersion: fission.io/v1
kind: Environment
metadata: {name: python}
spec: {runtime: {image: fission/python-env}, resources: {limits: {cpu: "2"}}}
`))
	got, err := spec.ReadFunctionVersion(s.Functions[0].Spec)
	want := spec.StoredFunction{Environment: "python", Entrypoint: "hello.main", Resources: landfall.Resources{
		Memory: 1536 << 20, MilliCPU: 250, Disk: 10_000_000, Timeout: 5 * time.Second, IdleTimeout: time.Minute, Concurrency: 3}}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	image, resources, err := spec.ReadEnvironmentVersion(s.Environments[0].Spec)
	if err != nil || image != "fission/python-env" || resources != (landfall.Resources{MilliCPU: 2000}) {
		t.Errorf("environment: got %q %+v %v", image, resources, err)
	}
}

// A quantity that is none is said with its place.
func TestResources(t *testing.T) {
	t.Parallel()
	function := func(field string) spec.Source {
		return one("apiVersion: fission.io/v1\nkind: Function\nmetadata: {name: hello}\nspec:\n  environment: {name: python}\n" +
			"  package: {packageref: {name: hello-pkg}}\n  " + field + `
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: hello-pkg}
spec: {deployment: {type: literal, literal: aGVsbG8=}}
`)
	}
	for field, says := range map[string]string{
		"resources: {limits: {memory: much}}":     "specs/a.yaml:7: Function hello: resources: memory is much; it is a quantity such as 128Mi or 500m",
		"resources: {limits: {memory: -1Mi}}":     "memory is -1Mi",
		"resources: {limits: {memory: 0}}":        "memory is 0",
		"resources: {requests: {cpu: 1e30}}":      "cpu is 1e+30",
		"resources: {limits: {cpu: [1]}}":         "cpu is [1]",
		"resources: [1]":                          "hello: the spec cannot be read",
		"functionTimeout: -1":                     "functionTimeout is -1; it is a number of seconds from 0 to 86400",
		"idletimeout: 100000":                     "idletimeout is 100000",
		"concurrency: -2":                         "concurrency is -2; it is a number from 0 to 10000",
		"resources: {limits: {memory: 9999999T}}": "memory is 9999999T",
	} {
		contains(t, refused(t, spec.Limits{}, function(field)), says)
	}
}
