package preflight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/spec"
)

// Unrunnable finds the functions of a spec that cannot be run: the environment is not known, the entry point is no file
// of the package, or the function takes a WebSocket. It knows nothing about files that a build makes. The error is that
// of open, which opens files of the app's folder.
func Unrunnable(ctx context.Context, s *spec.Spec, files []landfall.File,
	open artifact.Opener) ([]spec.Problem, error) {
	entries, err := entryProblems(ctx, s, committedPackages(s, files, open))
	return append(environment.UnknownEnvironments(s), entries...), err
}

// missingFiles finds what a spec names and the files of the app's folder do not have. A push fails with problems:
// archives that would be empty, and static files that are not there; with warnings it does not: globs of archives that
// match nothing beside others. Nothing is said of what a build makes.
func missingFiles(s *spec.Spec, files []landfall.File) (problems, warnings []spec.Problem) {
	if s.App != nil && s.App.Build != nil {
		return nil, nil
	}
	used := map[string]bool{} // archives that a push reads
	for _, p := range s.Packages {
		used[p.Source.Name], used[p.Deployment.Name] = true, true
	}
	for _, a := range s.Archives {
		if !used[a.Name] {
			continue // there is a warning for it
		}
		archive := archiveOf(a)
		archive.Name = a.Name
		_, without, err := builder.SelectArchive(archive, files)
		if err != nil {
			problems = append(problems, spec.Problem{Pos: a.Pos, Message: landfall.MessageOf(err)})
		}
		for _, message := range without {
			warnings = append(warnings, spec.Problem{Pos: a.Pos, Message: message})
		}
	}
	return append(problems, missingStatic(s.App, files)...), warnings
}

// missingStatic finds the static units without files. It does not check the content of files, which is another kind of
// error.
func missingStatic(app *spec.App, files []landfall.File) []spec.Problem {
	if app == nil {
		return nil
	}
	var problems []spec.Problem
	for i, rule := range RulesOf(app) {
		if _, _, err := assets.Select([]assets.Rule{rule}, files); !rule.Implicit &&
			landfall.KindOf(err) == landfall.Invalid {
			message := strings.TrimPrefix(landfall.MessageOf(err), rule.Where+": ")
			problems = append(problems, spec.Problem{Pos: app.Static[i].Pos, Message: message})
		}
	}
	return problems
}

// entryProblems finds the functions whose entry point is no file of their package, no function of its source, or takes
// a WebSocket, of the packages whose files are known.
func entryProblems(ctx context.Context, s *spec.Spec, packages map[string]Deployment) ([]spec.Problem, error) {
	var problems []spec.Problem
	for _, f := range s.Functions {
		env, err := EnvironmentOf(s, f.Environment)
		known, ok := packages[f.Package]
		if err != nil || !ok {
			continue // there is another problem with the environment
		}
		if known.compiled {
			err = CheckCompiled(ctx, env, f.FunctionName, known)
		} else {
			_, _, err = CheckEntry(ctx, env, f.FunctionName, known)
		}
		switch {
		case landfall.KindOf(err) == landfall.Invalid:
			problems = append(problems, entryProblem(f, err))
		case err != nil:
			return nil, err
		}
	}
	return problems, nil
}

func entryProblem(f spec.Function, why error) spec.Problem {
	return spec.Problem{Pos: f.Pos, Message: fmt.Sprintf("Function %s will not run: %s", f.Name, landfall.MessageOf(why))}
}

// CheckEntry fails for an entry point that is no file of a package, or no function of that file, or takes a WebSocket:
// Invalid, with what to do. It returns the path and the text of the file that the entry point means; nothing where
// there is no need to look into it.
func CheckEntry(ctx context.Context, env environment.Environment, entrypoint string, d Deployment) (file string,
	source []byte, err error) {
	if err := env.CheckEntrypoint(d.Modes, entrypoint); err != nil {
		return "", nil, err
	}
	if file, source, err = readSource(ctx, env, entrypoint, d); err != nil {
		return "", nil, err
	}
	if line := env.Socket(source, entrypoint); line > 0 {
		return "", nil, landfall.Errorf("pipeline.build", landfall.Invalid, "%s:%d takes a WebSocket, as (ws, clients), and "+
			"no function gets one here: it answers a request or an event; to a page it can send a stream of events "+
			"(docs/functions.md, Answers piece by piece)", file, line)
	}
	return file, source, env.CheckDefined(d.Modes, source, entrypoint)
}

// CheckCompiled fails for an entry point that is no function of a source which Fission's build compiles: Invalid, with
// what to do.
func CheckCompiled(ctx context.Context, env environment.Environment, entrypoint string, source Deployment) error {
	// bytes of all files: nobody writes more, and a larger source is read by the build only, in its sandbox
	const most = 2 << 20
	files, size := map[string][]byte{}, int64(0)
	for name, f := range source.Files {
		if !env.Compiles(name) {
			continue
		}
		if size += f.Size; size > most {
			return nil
		}
		var err error
		if files[name], err = readAll(ctx, source, f); err != nil {
			return err
		}
	}
	return env.CheckCompiled(files, entrypoint)
}

func readAll(ctx context.Context, d Deployment, f landfall.File) ([]byte, error) {
	r, err := d.Open(ctx, f)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	return text, errors.Join(err, r.Close())
}

// readSource reads the file of a package to which an entry point leads, if it must be read.
func readSource(ctx context.Context, env environment.Environment, entrypoint string, d Deployment) (name string,
	source []byte, err error) {
	const most = 256 << 10 // of a file that a person wrote; a larger one is a bundle
	file, found := d.Files[env.Source(d.Modes, entrypoint)]
	if !found || file.Size > most {
		return "", nil, nil
	}
	source, err = readAll(ctx, d, file)
	// a stored build is damaged; archiving it reports that
	if file.Digest != "" && landfall.DigestOf(source) != file.Digest {
		return "", nil, err
	}
	return file.Path, source, err
}

// committedPackages returns the files of each package that no build command makes, and the sources that Fission's build
// compiles.
func committedPackages(s *spec.Spec, files []landfall.File, open artifact.Opener) map[string]Deployment {
	if s.App != nil && s.App.Build != nil {
		return nil
	}
	archives := ArchivesOf(s)
	packages := map[string]Deployment{}
	for _, p := range s.Packages {
		ref, built, compiled := deploymentArchive(s, p)
		selected, _, err := builder.SelectArchive(archives[ref.Name], files)
		// a zip is checked when it is unpacked
		if built && !compiled || ref.Name == "" || err != nil || artifact.IsZip(selected) {
			continue
		}
		d := DeploymentOf(selected, open)
		d.compiled = compiled
		packages[p.Name] = d
	}
	return packages
}

// deploymentArchive returns the archive of a package that functions see, or from which that is built, and whether
// Fission's build compiles it.
func deploymentArchive(s *spec.Spec, p spec.Package) (ref spec.ArchiveRef, built, compiled bool) {
	if env, err := EnvironmentOf(s, p.Environment); err == nil && p.Deployment.IsZero() {
		command, _, _ := BuildCommand(s, p, env)
		return p.Source, command != "", env.IsCompiled(command)
	}
	return p.Deployment, p.BuildCommand != "", false
}
