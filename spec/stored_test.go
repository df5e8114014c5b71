package spec_test

import (
	"fmt"
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
			triggers++
			got, err := spec.ReadTriggerVersion(landfall.UnitID{Kind: want.Kind, Name: want.Name}, want.Spec)
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
  secrets: [{name: STRIPE_KEY}, {name: db-password, namespace: default, mountPath: db}]
  keep_warm: 2
  stream_body: true
  max_body: 100Mi
  retries: 4
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
	want := landfall.Function{Environment: landfall.Environment{Name: "python"}, Entrypoint: "hello.main",
		Resources: landfall.Resources{
			Memory: 1536 << 20, MilliCPU: 250, Disk: 10_000_000, Timeout: 5 * time.Second, IdleTimeout: time.Minute,
			Concurrency: 3, KeepWarm: 2}, Secrets: []landfall.SealedSecret{{Name: "STRIPE_KEY"}, {Name: "db-password"}},
		Folders: []string{"/secrets/default/STRIPE_KEY", "/secrets/default/db-password"}, Body: 100 << 20, Retries: 4}
	if err != nil || !reflect.DeepEqual(got, want) || spec.ReadPackage(s.Functions[0].Spec) != "hello-pkg" {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	runtime, resources, err := spec.ReadEnvironmentVersion("python", s.Environments[0].Spec)
	if err != nil || runtime.Name != "python" || runtime.Image != "fission/python-env" ||
		resources != (landfall.Resources{MilliCPU: 2000}) {
		t.Errorf("environment: got %+v %+v %v", runtime, resources, err)
	}
}

// A quantity that is none is said with its place.
func TestResources(t *testing.T) {
	t.Parallel()
	function := func(field string) spec.Source {
		return one("apiVersion: fission.io/v1\nkind: Function\nmetadata: {name: hello}\nspec:\n  environment: {name: " +
			"python}\n" +
			"  package: {packageref: {name: hello-pkg}}\n  " + field + `
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: hello-pkg}
spec: {deployment: {type: literal, literal: aGVsbG8=}}
`)
	}
	for field, says := range map[string]string{
		"resources: {limits: {memory: much}}": "specs/a.yaml:7: Function hello: resources: memory is much; it is a " +
			"quantity such as 128Mi or 500m",
		"resources: {limits: {memory: -1Mi}}": "memory is -1Mi",
		"resources: {limits: {memory: 0}}":    "memory is 0",
		"resources: {requests: {cpu: 1e30}}":  "cpu is 1e+30",
		"resources: {limits: {cpu: [1]}}":     "cpu is [1]",
		"resources: [1]":                      "hello: the spec cannot be read",
		"functionTimeout: -1":                 "functionTimeout is -1; it is a number of seconds from 0 to 86400",
		"idletimeout: 100000":                 "idletimeout is 100000",
		"keep_warm: -1":                       "keep_warm is -1; it is a number of processes from 0 to 10000",
		"concurrency: 1\n  keep_warm: 2":      "keep_warm is 2, and concurrency allows 1 processes",
		"keep_warm: 17": "specs/a.yaml:7: Function hello: keep_warm is 17, and concurrency, which is not given, allows 16 " +
			"processes; " +
			"set it to at least 17",
		"stream_body: true\n  max_body: much": "specs/a.yaml:8: Function hello: max_body is much; it is a quantity of " +
			"bytes such as 100Mi or 2Gi",
		"stream_body: true\n  max_body: 500m": "max_body is 500m",
		"max_body: 1Gi": "max_body is the bound of a body that comes in parts; set stream_body: " +
			"true, or leave it out",
		"stream_body: 1Gi": "stream_body",
		"retries: 21":      "specs/a.yaml:7: Function hello: retries is 21; it is a number from 0 to 20",
		"retries: -1":      "retries is -1",
		"concurrency: -2":  "concurrency is -2; it is a number from 0 to 10000",
		"resources: {limits: {memory: 9999999T}}": "memory is 9999999T",
	} {
		contains(t, refused(t, spec.Limits{}, function(field)), says)
	}
	for _, field := range []string{"keep_warm: 16", "concurrency: 17\n  keep_warm: 17"} {
		mustParse(t, function(field))
	}
}

// A trigger's concurrency goes before its function's, so it holds for what that keeps warm, too.
func TestConcurrencyOfTriggerBelowKeepWarm(t *testing.T) {
	t.Parallel()
	calling := func(function, trigger string) spec.Source {
		return one(`apiVersion: fission.io/v1
kind: TimeTrigger
metadata: {name: nightly}
spec:
  cron: "@daily"
  functionref: ` + function + `
  ` + trigger + `
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: hello}
spec: {environment: {name: python}, package: {packageref: {name: hello-pkg}}, keep_warm: 4}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: hello-pkg}
spec: {deployment: {type: literal, literal: aGVsbG8=}}
`)
	}
	for _, function := range []string{"{name: hello}", "{functionweights: {hello: 100}}"} {
		contains(t, refused(t, spec.Limits{}, calling(function, "concurrency: 3")), "specs/a.yaml:7: TimeTrigger nightly: "+
			"concurrency is 3, and Function hello keeps 4 processes warm (keep_warm); set it to at least 4, or leave it out")
		mustParse(t, calling(function, "concurrency: 4"))
		mustParse(t, calling(function, "functionTimeout: 3"))
	}
	mustParse(t, calling("{name: 'hello:live'}", "concurrency: 3")) // another version, of which the spec knows nothing
}

// A limit that stands where nothing reads it is said to, in a function, an environment and a trigger.
func TestLimitsWhereNobodyLooks(t *testing.T) {
	t.Parallel()
	s := mustParse(t, one(`apiVersion: fission.io/v1
kind: Function
metadata: {name: hello}
spec:
  environment: {name: python}
  package: {packageref: {name: hello-pkg}}
  resources: {memory: 128Mi}
---
apiVersion: fission.io/v1
kind: Environment
metadata: {name: python}
spec: {runtime: {image: python-env}, resources: {limits: {memory: 128Mi}, cpu: 2}}
---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: hello}
spec: {functionref: {name: hello}, relativeurl: /, resources: {requests: {memory: 1Gi}}}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: hello-pkg}
spec: {deployment: {type: literal, literal: aGVsbG8=}}
`))
	if got := fmt.Sprint(s.Warnings); got != "[specs/a.yaml:7: kept, not used: spec.resources.memory; a limit is "+
		"spec.resources.limits.memory "+
		"specs/a.yaml:12: kept, not used: spec.resources.cpu; a limit is spec.resources.limits.cpu]" {
		t.Errorf("got %s, want warnings of the function and the environment", got)
	}
}

// What a trigger says to its function, and lets it take, is the same in all kinds of triggers.
func TestTriggersOfAllKinds(t *testing.T) {
	t.Parallel()
	trigger := func(kind, more string) spec.Source {
		return one("apiVersion: fission.io/v1\nkind: " + kind +
			"\nmetadata: {name: fire}\nspec:\n  functionref: {name: hello}\n  " + more + `
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: hello}
spec: {environment: {name: python}, package: {packageref: {name: hello-pkg}}}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: hello-pkg}
spec: {deployment: {type: literal, literal: aGVsbG8=}}
`)
	}
	for kind, own := range map[string]string{"HTTPTrigger": "relativeurl: /a", "TimeTrigger": `cron: "0 8 * * *"`,
		"MessageQueueTrigger": "topic: t1"} {
		got := mustParse(t, trigger(kind, own+"\n  config: {currency: EUR, most: 3, open: true}\n  resources: {limits: "+
			"{memory: 64Mi}}\n  functionTimeout: 5\n  concurrency: 2\n  filters: [{exact: {type: order}}]")).Triggers[0]
		want := map[string]string{"currency": "EUR", "most": "3", "open": "true"}
		if !reflect.DeepEqual(got.Config, want) || string(got.Filters) != `[{"exact":{"type":"order"}}]` ||
			got.Resources != (landfall.Resources{Memory: 64 << 20, Timeout: 5 * time.Second, Concurrency: 2}) {
			t.Errorf("%s: got %v, %s and %+v", kind, got.Config, got.Filters, got.Resources)
		}
		if kind != "MessageQueueTrigger" { // which has maxRetries
			three := mustParse(t, trigger(kind, own+"\n  retries: 3")).Triggers[0].Retries
			if got.Retries != nil || three == nil || *three != 3 {
				t.Errorf("%s: got the retries %v and %v, want none and 3", kind, got.Retries, three)
			}
		}
		for field, says := range map[string]string{
			"config: [1]":                         "spec.config must be a mapping",
			"config: {a: {b: c}}":                 "spec.config.a must be text",
			"resources: {limits: {memory: much}}": "specs/a.yaml:7: " + kind + " fire: resources: memory is much",
			"idletimeout: -1":                     "idletimeout is -1",
			"retries: 21":                         "retries",
			"filters: [{any: []}]":                "specs/a.yaml:7: " + kind + " fire: filters[0].any: there is nothing in it",
		} {
			contains(t, refused(t, spec.Limits{}, trigger(kind, own+"\n  "+field)), says)
		}
	}
}

// A function has no format of its own.
func TestNoFormats(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"default", "http", "json"} {
		said := refused(t, spec.Limits{},
			one("apiVersion: fission.io/v1\nkind: Function\nmetadata: {name: hello}\nspec:\n  environment: {name: python}\n"+
				"  package: {packageref: {name: hello-pkg}}\n  format: "+format+"\n"))
		// E-005: the formats default, http and json do not exist
		contains(t, said, `specs/a.yaml:7: unknown field "format"`)
	}
}

// A function sees the path behind a prefix, unless the trigger keeps it.
func TestKeepPrefix(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		"prefix: /api": "/api", "prefix: /api, keepPrefix: false": "/api", "prefix: /api, keepPrefix: true": "",
		"relativeurl: /api": "", "relativeurl: /api, keepPrefix: false": "",
	} {
		s := mustParse(t, one(`apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: hook}
spec: {functionref: {type: name, name: hello}, `+fields+`}
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: hello}
spec: {environment: {name: python}, package: {packageref: {name: hello-pkg}}}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: hello-pkg}
spec: {environment: {name: python}, deployment: {type: literal, literal: aGVsbG8=}}
---
apiVersion: fission.io/v1
kind: Environment
metadata: {name: python}
spec: {runtime: {image: fission/python-env}}
`))
		trigger := s.Triggers[0]
		if got, err := spec.ReadTriggerVersion(landfall.UnitID{Kind: trigger.Kind, Name: trigger.Name},
			trigger.Spec); err != nil || got.HTTP.Trim != want {
			t.Errorf("%s: got %q, %v, want %q", fields, got.HTTP.Trim, err, want)
		}
	}
}

// Other resources take the place of all that a function asked for, and the same ones change nothing.
func TestWithResources(t *testing.T) {
	t.Parallel()
	stored := []byte(`{"concurrency":3,"functionTimeout":5,"resources":{"limits":{"memory":"64Mi"},"requests":{"cpu":1}}}`)
	now, err := spec.ReadFunctionVersion(stored)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := spec.WithResources(stored, now.Resources); err != nil || string(same) != string(stored) {
		t.Errorf("the same: got %s, %v", same, err)
	}
	wanted := landfall.Resources{Memory: 1 << 20, MilliCPU: 250, Disk: 9, IdleTimeout: time.Minute}
	other, err := spec.WithResources(stored, wanted)
	if err != nil {
		t.Fatal(err)
	}
	wanted.Concurrency = 3
	if got, err := spec.ReadFunctionVersion(other); err != nil || got.Resources != wanted {
		t.Errorf("others: got %+v, %v, want %+v", got.Resources, err, wanted)
	}
	if _, err := spec.WithResources(stored,
		landfall.Resources{Timeout: 48 * time.Hour}); landfall.KindOf(err) != landfall.Invalid {
		t.Errorf("out of bounds: got %v", err)
	}
}

// A trigger that stands in no file is what it would be in one.
func TestReadTrigger(t *testing.T) {
	t.Parallel()
	written := mustParse(t, one(`apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: hello}
spec: {functionref: {name: greet}, relativeurl: /hello}
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: greet}
spec: {environment: {name: python}, package: {packageref: {name: greet-pkg}}}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: greet-pkg}
spec: {deployment: {type: literal, literal: aGVsbG8=}}
`)).Triggers[0]
	fields := map[string]any{"functionref": map[string]any{"name": "greet", "version": "latest"}, "relativeurl": "/hello"}
	got, err := spec.ReadTrigger(landfall.HTTPTrigger, "hello", fields, nil, spec.Limits{})
	if err != nil || string(got.Spec) != string(written.Spec) {
		t.Errorf("got %s, %v, want %s", got.Spec, err, written.Spec)
	}
	_, err = spec.ReadTrigger(landfall.HTTPTrigger, "other", fields, []spec.Trigger{written}, spec.Limits{})
	if want := `the route "/hello" of HTTPTrigger other conflicts with "/hello" of HTTPTrigger hello`; landfall.MessageOf(
		err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = spec.ReadTrigger(landfall.TimeTrigger, "never",
		map[string]any{"functionref": fields["functionref"], "cron": "x", "every": 1}, nil, spec.Limits{})
	if landfall.KindOf(err) != landfall.Invalid {
		t.Errorf("a field that is not there: got %v", err)
	}
}
