package pipeline

import (
	"fmt"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/spec"
)

// Missing warns of what a spec names and the files of the app's folder do not have: archives that would be empty and static files
// that are not there, with which a push fails, and functions whose entry point is no file of their package, which cannot be called.
// Nothing is said of what a build makes.
func Missing(s *spec.Spec, files []landfall.File) []spec.Problem {
	return append(MissingFiles(s, files), missingEntries(s, files)...)
}

// MissingFiles are the problems of Missing with which a push fails.
func MissingFiles(s *spec.Spec, files []landfall.File) []spec.Problem {
	var warnings []spec.Problem
	if s.App != nil && s.App.Build != nil {
		return nil
	}
	for _, a := range s.Archives {
		archive := archiveOf(a)
		archive.Name = a.Name
		if _, _, err := builder.SelectArchive(archive, files); err != nil {
			warnings = append(warnings, spec.Problem{Pos: a.Pos, Message: "a push would fail: " + landfall.MessageOf(err)})
		}
	}
	return append(warnings, missingStatic(s.App, files)...)
}

// missingStatic warns of static units that are nothing. What is in their files is not known here, which is an error of another kind.
func missingStatic(app *spec.App, files []landfall.File) []spec.Problem {
	if app == nil {
		return nil
	}
	var warnings []spec.Problem
	for i, rule := range rulesOf(app) {
		if _, _, err := assets.Select([]assets.Rule{rule}, files); !rule.Implicit && landfall.KindOf(err) == landfall.Invalid {
			message := strings.TrimPrefix(landfall.MessageOf(err), rule.Where+": ")
			warnings = append(warnings, spec.Problem{Pos: app.Static[i].Pos, Message: "a push would fail: " + message})
		}
	}
	return warnings
}

// missingEntries warns of the functions whose entry point is no file of their package.
func missingEntries(s *spec.Spec, files []landfall.File) []spec.Problem {
	if s.App != nil && s.App.Build != nil {
		return nil
	}
	archives := archivesOf(s)
	packages := map[string]map[string]bool{}
	for _, p := range s.Packages {
		ref := p.Deployment
		command := p.BuildCommand
		if env, err := environment.Of(p.Environment, imageOf(s, p.Environment)); err == nil && ref.IsZero() {
			command, _ = env.Build(command)
			ref = p.Source
		}
		selected, _, err := builder.SelectArchive(archives[ref.Name], files)
		if command != "" || ref.Name == "" || err != nil {
			continue
		}
		packages[p.Name] = map[string]bool{}
		for _, file := range selected {
			packages[p.Name][file.Path] = file.File.Mode == landfall.Executable
		}
	}
	var warnings []spec.Problem
	for _, f := range s.Functions {
		env, err := environment.Of(f.Environment, imageOf(s, f.Environment))
		known := packages[f.Package]
		if err != nil || known == nil {
			continue // of the environment there is another warning
		}
		if err := env.Missing(known, f.FunctionName); err != nil {
			warnings = append(warnings, spec.Problem{Pos: f.Pos, Message: fmt.Sprintf("Function %s will not run: %s", f.Name, landfall.MessageOf(err))})
		}
	}
	return warnings
}

// archivesOf returns what goes into the archives of a spec, by their names.
func archivesOf(s *spec.Spec) map[string]builder.ArchiveSpec {
	archives := make(map[string]builder.ArchiveSpec, len(s.Archives))
	for _, a := range s.Archives {
		archives[a.Name] = archiveOf(a)
	}
	return archives
}

func archiveOf(a spec.Archive) builder.ArchiveSpec {
	return builder.ArchiveSpec{Name: fmt.Sprintf("%s (%s)", a.Name, a.Pos), Include: below(a.RootDir, a.Include), Exclude: below(a.RootDir, a.Exclude)}
}
