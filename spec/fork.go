package spec

import (
	"encoding/json"
	"maps"
	"slices"

	"landfall.dev/landfall"
)

// limitFields are the fields of functions and triggers that say how much of this machine they may use.
func limitFields() []string {
	return []string{"resources", "functionTimeout", "idletimeout", "concurrency", keepWarm, streamBody, maxBody, "retries"}
}

// UnderBase returns what a fork's commit may declare: its files, functions and routes, without secrets and a network,
// and with the build, the release policy, the environments and the limits of the branch into which it is to be merged.
// What that branch does not have has none of these. It returns sentences about what differs. Invalid, with the line,
// for what a fork cannot have.
func (s *Spec) UnderBase(base *Spec) (*Spec, []string, error) {
	under, notes := *s, []string{}
	under.Functions, under.Packages = slices.Clone(s.Functions), slices.Clone(s.Packages)
	under.Triggers, under.Environments = slices.Clone(s.Triggers), base.Environments
	under.Canaries = nil
	under.App = appUnder(s.App, base.App)
	var problems []Problem
	for _, e := range s.Environments {
		if !slices.ContainsFunc(base.Environments, func(b Environment) bool { return b.Name == e.Name }) {
			problems = append(problems, Problem{e.Pos, "Environment " + e.Name + ": a fork has the environments of the base " +
				"branch alone: add it there first"})
		}
	}
	for i, f := range under.Functions {
		if len(f.Secrets) > 0 {
			notes = append(notes, "Function "+f.Name+" gets none of the secrets that it names")
		}
		under.Functions[i].Secrets = nil
		b, _ := find(base.Functions, f.Name, func(f Function) Object { return f.Object })
		var err error
		if under.Functions[i].Spec, err = withFields(f.Spec, b.Spec, limitFields(), map[string]any{external: false},
			"secrets"); err != nil {
			return nil, nil, err
		}
	}
	for i, p := range under.Packages {
		b, _ := find(base.Packages, p.Name, func(p Package) Object { return p.Object })
		under.Packages[i].BuildCommand = b.BuildCommand
		var err error
		if under.Packages[i].Spec, err = withFields(p.Spec, b.Spec, []string{"buildcmd"}, nil); err != nil {
			return nil, nil, err
		}
		for _, pair := range [][2]ArchiveRef{{p.Source, b.Source}, {p.Deployment, b.Deployment}} {
			if pair[0].URL != "" && (pair[0].URL != pair[1].URL || pair[0].Checksum != pair[1].Checksum) {
				problems = append(problems, Problem{pair[0].Pos, "Package " + p.Name + ": forks build without a network, and the " +
					"base branch has no such archive"})
			}
		}
	}
	for i, t := range under.Triggers {
		b, _ := find(base.Triggers, t.Name, func(t Trigger) Object { return t.Object })
		var err error
		if under.Triggers[i].Spec, err = withFields(t.Spec, b.Spec, limitFields(), nil); err != nil {
			return nil, nil, err
		}
		if t.Tag != "" || slices.ContainsFunc(t.References(), func(r landfall.Reference) bool { return !r.MeansRelease() }) {
			problems = append(problems, Problem{t.Pos, "the trigger " + t.Name + " leads to another version than that of its " +
				"commit: the routes of a fork lead to its own functions"})
		}
	}
	return &under, notes, ErrorOf(problems)
}

// appUnder returns the App of a fork's commit.
func appUnder(own, base *App) *App {
	if own == nil && base == nil {
		return nil
	}
	under := App{}
	if own != nil {
		under = *own
	}
	under.Build, under.Release = nil, landfall.ReleasePolicy{}
	if base != nil {
		under.Build, under.Release = base.Build, base.Release
		if own == nil {
			under.Object = base.Object
		}
	}
	return &under
}

// find returns what has a name.
func find[T any](all []T, name string, object func(T) Object) (found T, ok bool) {
	for _, t := range all {
		if object(t).Name == name {
			return t, true
		}
	}
	return found, false
}

// withFields returns a stored spec with some fields as another one has them, some as given, and without others.
func withFields(stored, other json.RawMessage, take []string, set map[string]any, without ...string) (json.RawMessage,
	error) {
	fields, from := map[string]any{}, map[string]any{}
	if err := DecodeNumbers(stored, &fields); err != nil {
		return nil, versionError(err)
	}
	if len(other) > 0 {
		if err := DecodeNumbers(other, &from); err != nil {
			return nil, versionError(err)
		}
	}
	for _, name := range take {
		delete(fields, name)
		if value, ok := from[name]; ok {
			fields[name] = value
		}
	}
	for _, name := range without {
		delete(fields, name)
	}
	maps.Copy(fields, set)
	return Canonical(fields)
}
