// Package argo_test compares how Landfall and Argo CD's gitops-engine find what changed among 10,000 objects. It is a
// program of its own because the engine needs all of Kubernetes.
package argo_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/gitops-engine/pkg/diff"
	"github.com/argoproj/gitops-engine/pkg/utils/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall.dev/landfall"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/versioning"
)

// table has the figures of the run.
var table bench.Table

var out = flag.String("out", "", "file that the results are added to")

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	err := table.Print(os.Stdout)
	if *out != "" {
		err = errors.Join(err, table.Keep(*out))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// The objects of the figure: functions, their packages, and HTTP triggers, of which some functions change.
const (
	functions = 3_333
	changes   = 100
)

// documents writes all objects as one file. The functions below changed are those of another commit.
func documents(changed int) []byte {
	var b bytes.Buffer
	b.WriteString("apiVersion: fission.io/v1\nkind: Environment\nmetadata:\n  name: python\nspec:\n  version: 2\n  " +
		"runtime:\n    image: fission/python-env\n")
	for i := range functions {
		memory := 128
		if i < changed {
			memory = 256
		}
		fmt.Fprintf(&b, `---
apiVersion: fission.io/v1
kind: Function
metadata:
  name: function-%05[1]d
  labels:
    team: team-%[2]d
    tier: backend
spec:
  environment:
    name: python
  package:
    packageref:
      name: package-%05[1]d
    functionName: handlers.function_%[1]d
  resources:
    requests:
      cpu: 100m
      memory: %[3]dMi
    limits:
      cpu: 500m
      memory: 512Mi
  InvokeStrategy:
    StrategyType: execution
    ExecutionStrategy:
      ExecutorType: poolmgr
      MinScale: 0
      MaxScale: 4
      TargetCPUPercent: 80
---
apiVersion: fission.io/v1
kind: Package
metadata:
  name: package-%05[1]d
  labels:
    team: team-%[2]d
spec:
  environment:
    name: python
  deployment:
    type: url
    url: https://packages.example.com/team-%[2]d/package-%05[1]d.zip
    checksum:
      type: sha256
      sum: %064[1]x
---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata:
  name: trigger-%05[1]d
  labels:
    team: team-%[2]d
spec:
  functionref:
    type: name
    name: function-%05[1]d
  methods:
    - GET
    - POST
  relativeurl: /team-%[2]d/function-%05[1]d
`, i, i%50, memory)
	}
	return b.Bytes()
}

const objects = 3*functions + 1

// parse is Landfall's way from text to declared units.
func parse(b *testing.B, data []byte) *spec.Spec {
	b.Helper()
	s, err := spec.Parse([]spec.Source{{Name: "specs/all.yaml", Data: data}},
		spec.Limits{Objects: objects, Bytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// declare turns a spec into units, as the pipeline does.
func declare(s *spec.Spec) []versioning.Declared {
	declared := make([]versioning.Declared, 0, objects)
	add := func(kind landfall.UnitKind, o spec.Object, refs ...landfall.UnitID) {
		declared = append(declared, versioning.Declared{
			Unit: landfall.UnitID{Kind: kind, Name: o.Name}, Spec: o.Spec, Where: o.Pos.String(), Refs: refs})
	}
	for _, p := range s.Packages {
		add(landfall.PackageUnit, p.Object)
	}
	for _, e := range s.Environments {
		add(landfall.EnvironmentUnit, e.Object)
	}
	for _, f := range s.Functions {
		add(landfall.FunctionUnit, f.Object, landfall.UnitID{Kind: landfall.PackageUnit, Name: f.Package},
			landfall.UnitID{Kind: landfall.EnvironmentUnit, Name: f.Environment})
	}
	for _, t := range s.Triggers {
		add(t.Kind, t.Object)
	}
	return declared
}

// resolve computes what a commit's units are.
func resolve(b *testing.B, s *spec.Spec) []landfall.GroupUnit {
	b.Helper()
	units, err := versioning.Resolve(declare(s))
	if err != nil {
		b.Fatal(err)
	}
	group := make([]landfall.GroupUnit, 0, len(units))
	for _, u := range units {
		group = append(group, landfall.GroupUnit{Unit: u.Unit, Digest: u.Digest})
	}
	return group
}

// count fails the benchmark unless the diff says what really changed.
func count(b *testing.B, all []landfall.UnitChange) {
	b.Helper()
	changed := 0
	for _, c := range all {
		if c.Change != landfall.Unchanged {
			changed++
		}
	}
	if len(all) != objects || changed != changes {
		b.Fatalf("Landfall found %d of %d objects changed, want %d of %d", changed, len(all), changes, objects)
	}
}

// split is Argo's way from text to objects.
func split(b *testing.B, data []byte) []*unstructured.Unstructured {
	b.Helper()
	all, err := kube.SplitYAML(data)
	if err != nil {
		b.Fatal(err)
	}
	if len(all) != objects {
		b.Fatalf("Argo read %d objects, want %d", len(all), objects)
	}
	return all
}

// compare is Argo's diff of all objects; it fails the benchmark unless it says what really changed.
func compare(b *testing.B, config, live []*unstructured.Unstructured) {
	b.Helper()
	changed := 0
	for i := range config {
		result, err := diff.Diff(config[i], live[i])
		if err != nil {
			b.Fatal(err)
		}
		if result.Modified {
			changed++
		}
	}
	if changed != changes {
		b.Fatalf("Argo found %d objects changed, want %d", changed, changes)
	}
}

// timed returns how long f takes, in ms, without the garbage of whatever was before it.
func timed(f func()) float64 {
	runtime.GC()
	begin := time.Now()
	f()
	return float64(time.Since(begin)) / float64(time.Millisecond)
}

// BenchmarkP7 finds 100 changed objects among 10,000: from the text of the new commit, and with it parsed already. What
// is there before is at hand for both: for us the stored digests, for Argo the live objects.
func BenchmarkP7(b *testing.B) {
	old, text := documents(0), documents(changes)
	before, live := resolve(b, parse(b, old)), split(b, old)
	peer := "gitops-engine " + engine(b)
	cold := table.Row(bench.Row{Figure: "P7 diff of 10,000 objects, 100 changed, from text", Unit: "ms", Peer: peer,
		Floor: 0.3, Target: 0.2})
	parsed := table.Row(bench.Row{Figure: "P7 the same, parsed already", Unit: "ms", Peer: peer, Floor: 0.3, Target: 0.02})
	reading := table.Row(bench.Row{Figure: "P7 parsing alone", Unit: "ms", Peer: peer + " kube.SplitYAML"})
	for b.Loop() {
		var s *spec.Spec
		var config []*unstructured.Unstructured
		ourParse := timed(func() { s = parse(b, text) })
		ourDiff := timed(func() { count(b, versioning.Diff(before, resolve(b, s))) })
		theirParse := timed(func() { config = split(b, text) })
		theirDiff := timed(func() { compare(b, config, live) })
		cold.Add(ourParse+ourDiff, theirParse+theirDiff)
		parsed.Add(ourDiff, theirDiff)
		reading.Add(ourParse, theirParse)
	}
	table.Notef("P7: %d objects, %.1f MB of YAML. Ours validates them and follows references; the peer's objects have "+
		"no schema here and no last-applied annotation, which is its cheapest case.",
		objects, float64(len(text))/1e6)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(bench.Quantile(cold.Judged(), 0.5), "median")
}

// engine returns the version of gitops-engine, as go.mod says it.
func engine(b *testing.B) string {
	b.Helper()
	data, err := os.ReadFile("../go.mod")
	if err != nil {
		b.Fatal(err)
	}
	for l := range strings.Lines(string(data)) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(l), "github.com/argoproj/gitops-engine "); ok {
			return version
		}
	}
	b.Fatal("go.mod does not name gitops-engine")
	return ""
}
