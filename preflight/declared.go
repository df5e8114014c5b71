package preflight

import (
	"fmt"
	"path"

	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/spec"
)

// EnvironmentOf returns how the functions of an environment of a spec are run. Invalid when that is not known.
func EnvironmentOf(s *spec.Spec, name string) (environment.Environment, error) {
	e, _ := s.Environment(name)
	return environment.Of(e)
}

// BuildCommand returns the command that builds a package from its source, as its environment has it, and what it begins
// with. fallback is what the Environment document names for it, where that makes a difference; it is a part of the
// package's version.
func BuildCommand(s *spec.Spec, p spec.Package, env environment.Environment) (command string, warmup environment.Warmup,
	fallback string) {
	command, warmup = env.Build(p.BuildCommand)
	named := spec.ReadBuilder(Definition(s, p.Environment))
	if p.BuildCommand != "" || named == "" {
		return command, warmup, ""
	}
	implied := command
	if command, warmup = env.Build(named); command != implied {
		fallback = named
	}
	return command, warmup, fallback
}

// prefixGlobs puts a folder before globs.
func prefixGlobs(folder string, globs []string) []string {
	all := make([]string, len(globs))
	for i, g := range globs {
		all[i] = path.Join(folder, g)
	}
	return all
}

// Definition returns the definition of an environment, as far as a spec has it.
func Definition(s *spec.Spec, name string) []byte {
	for _, e := range s.Environments {
		if e.Name == name {
			return e.Spec
		}
	}
	return []byte(name)
}

// ArchivesOf returns what goes into the archives of a spec, by their names.
func ArchivesOf(s *spec.Spec) map[string]builder.ArchiveSpec {
	archives := make(map[string]builder.ArchiveSpec, len(s.Archives))
	for _, a := range s.Archives {
		archives[a.Name] = archiveOf(a)
	}
	return archives
}

func archiveOf(a spec.Archive) builder.ArchiveSpec {
	return builder.ArchiveSpec{Name: fmt.Sprintf("%s (%s)", a.Name, a.Pos), Include: prefixGlobs(a.RootDir, a.Include),
		Lines: a.Lines, Exclude: prefixGlobs(a.RootDir, a.Exclude)}
}

// RulesOf returns which files the static units of an app are.
func RulesOf(app *spec.App) []assets.Rule {
	rules := make([]assets.Rule, 0, len(app.Static))
	for _, s := range app.Static {
		where := s.Pos.String()
		if s.Implicit {
			where = "a folder without specs"
		}
		rules = append(rules, assets.Rule{
			Src: s.Src, Path: s.Path, Fallback: s.Fallback, Exclude: s.Exclude, Implicit: s.Implicit, Where: where})
	}
	return rules
}
