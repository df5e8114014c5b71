package pipeline

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/preflight"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/tree"
	"landfall.dev/landfall/versioning"
)

// Sandbox runs commands that are not trusted.
type Sandbox interface {
	// Build runs a build command. A command that fails is a result, not an error. Forbidden when nothing here can hold
	// it; the message says what to do.
	Build(ctx context.Context, c BuildCommand) (BuildResult, error)
}

// BuildCommand is a command of a repository's.
type BuildCommand struct {
	Shell   string             // for /bin/sh -c
	Dir     string             // the only folder that it sees of ours, and where it starts
	Env     map[string]string  // beside what every command has
	Output  io.Writer          // what it prints, as it does
	Network bool               // whether it may reach public addresses
	Warmup  environment.Warmup // makes a folder that it finds in Dir
	Say     func(line string)  // tells who waits for the build what is done before the command
	Logger  *slog.Logger       // names the run: for what the operator is to know
	Hide    *secret.Redactor   // what must not be in what the operator is told; nil: nothing
}

// BuildResult says how a build command ended.
type BuildResult struct {
	ExitCode int
	Killed   string // which limit ended it; empty when it ended by itself
	Dir      string // the path at which the command saw its folder
	// NotReached has a line for each host that the command asked for in vain: the host, and what would allow it.
	NotReached []string
}

// built is a plan, of which a build of the app made a new one, with what build commands made of packages.
type built struct {
	plan

	made map[landfall.UnitID][]builder.ArchiveFile
}

// builds reports whether a build command makes files of the app itself.
func (w source) builds() bool { return w.spec.App != nil && w.spec.App.Build != nil }

// build runs the build commands whose output is not at hand: of the app, and of the packages that changed. Then it looks whether
// what is new can be run, as far as that can be told.
func (w plan) build(ctx context.Context) (built, error) {
	if w.builds() {
		files, err := w.buildApp(ctx)
		if err != nil {
			return built{}, err
		}
		if w, err = w.planUnits(ctx, files); err != nil {
			return built{}, err
		}
	}
	b := built{plan: w, made: map[landfall.UnitID][]builder.ArchiveFile{}}
	b.packages = maps.Clone(w.packages) // of which zips are unpacked
	if err := b.buildPackages(ctx); err != nil {
		return built{}, err
	}
	return b, b.checkFunctions(ctx)
}

// buildPackages builds the packages that are not stored.
func (w built) buildPackages(ctx context.Context) error {
	for _, u := range w.units {
		plan, ok := w.packages[u.Unit]
		if image := w.images[plan.pkg.Environment]; ok && image != "" && w.current[u.Unit].content() == nil {
			if err := w.pullPackage(ctx, u, image); err != nil {
				return err
			}
			continue
		}
		if !ok || w.current[u.Unit].content() != nil {
			continue
		}
		if err := w.unzipPackage(ctx, u); err != nil {
			return err
		}
		if plan = w.packages[u.Unit]; plan.pkg.BuildCommand == "" || plan.source == nil {
			continue
		}
		if err := w.buildPackage(ctx, u, plan); err != nil {
			return err
		}
	}
	return nil
}

// buildJob is one build command and what it may read.
type buildJob struct {
	what    string // for people
	command string
	env     map[string]string
	inputs  []builder.ArchiveFile // the files that it sees, by their path in its folder
	outputs []string              // files and folders that it makes
	deploy  bool                  // its output is at DEPLOY_PKG
	pull    string                // in place of the command: the image that it pulls
	pulled  spec.Environment      // whose image that is
	unzip   bool                  // in place of the command: it unpacks a zip
	marks   map[string]string     // of the secrets that it gets, by their names
	warmup  environment.Warmup
	key     landfall.Digest // covers all of the above and the environment's definition
}

// buildApp returns the commit's files, overlaid with what the app's build command makes of them.
func (w draft) buildApp(ctx context.Context) ([]landfall.File, error) {
	b := w.spec.App.Build
	env := maps.Clone(b.Env)
	if _, named := env[releaseURLVariable]; named {
		env[releaseURLVariable] = w.Runs.ReleaseURL(w.app.Name, w.run.UID)
	}
	job := buildJob{what: "the app", command: b.Command, env: env, outputs: b.Outputs}
	for _, f := range w.files {
		if f.Mode != landfall.Regular && f.Mode != landfall.Executable {
			continue
		}
		if len(b.Inputs) == 0 || slices.ContainsFunc(b.Inputs, func(glob string) bool { return builder.Match(glob, f.Path) }) {
			job.inputs = append(job.inputs, builder.ArchiveFile{Path: f.Path, File: f})
		}
	}
	if len(job.inputs) == 0 {
		return nil, &landfall.Error{Op: "pipeline.build", Kind: landfall.Invalid, Message: fmt.Sprintf(
			"%s: build.inputs matches no file", w.spec.App.Pos)}
	}
	job.marks = w.building.marks
	job.key = job.digest(preflight.Definition(w.spec, b.Environment))
	made, err := w.runBuild(ctx, job)
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(slices.Clone(w.files), func(f landfall.File) bool {
		return slices.ContainsFunc(b.Outputs, func(out string) bool { return tree.IsBelow(out, f.Path) })
	})
	files = append(files, made...)
	slices.SortFunc(files, func(a, b landfall.File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// releaseURLVariable tells a build where its release will answer; only builds that name it are told, since it makes
// every commit's build another one.
const releaseURLVariable = "LANDFALL_RELEASE_URL"

// sourceFolder is where, by Fission's build contract, the source lies in the build's folder.
const sourceFolder = "src"

// buildPackage builds a package by Fission's contract: the command runs in the unpacked source, whose path is in
// SRC_PKG, and leaves a file or folder at the path in DEPLOY_PKG.
func (w built) buildPackage(ctx context.Context, u versioning.Unit, plan packagePlan) error {
	job := buildJob{
		what:    u.Unit.String(),
		command: "export SRC_PKG=\"$PWD/" + sourceFolder + "\" DEPLOY_PKG=\"$PWD/" + artifact.Folder + "\"\ncd " + sourceFolder + "\n" + plan.pkg.BuildCommand,
		outputs: []string{artifact.Folder},
		deploy:  true,
		warmup:  plan.warmup,
	}
	for _, f := range plan.source {
		f.Path = sourceFolder + "/" + f.Path
		job.inputs = append(job.inputs, f)
	}
	job.marks = w.building.marks
	job.key = job.digest(preflight.Definition(w.spec, plan.pkg.Environment))
	made, err := w.runBuild(ctx, job)
	if err != nil {
		return err
	}
	files, err := artifact.Deployed(job.what, made)
	if err != nil {
		return err
	}
	if len(files) == 1 && files[0].Path == "" {
		files[0].Path = u.Unit.Name // the command made one file
	}
	w.made[u.Unit] = files
	return nil
}

// digest covers everything that the outcome of a build may depend on.
func (j buildJob) digest(definition []byte) landfall.Digest {
	rows := make([][3]string, 0, len(j.inputs))
	for _, f := range j.inputs {
		rows = append(rows, [3]string{f.Path, fmt.Sprint(f.File.Mode), f.File.ContentID()})
	}
	data, err := json.Marshal(struct {
		Rules       string            `json:"rules"`
		Command     string            `json:"command"`
		Environment string            `json:"environment"`
		Env         map[string]string `json:"env"`
		Outputs     []string          `json:"outputs"`
		Inputs      [][3]string       `json:"inputs"`
		Secrets     map[string]string `json:"secrets,omitempty"`
	}{"landfall-build/1", j.command, string(definition), j.env, j.outputs, rows, j.marks})
	if err != nil {
		return "" // strings only: it always has a form
	}
	return landfall.DigestOf(data)
}

// runBuild returns what a build makes: from an earlier build of the same input, or by running the command.
func (w draft) runBuild(ctx context.Context, job buildJob) ([]landfall.File, error) {
	if w.run.Rebuild {
		if err := w.forgetBuild(ctx, job.key); err != nil {
			return nil, err
		}
	}
	files, err := w.cached(ctx, job.key)
	if err != nil || files != nil {
		if files != nil && !job.unzip {
			w.stats.Cached++
			w.sayf("%s: built before from the same input", job.what)
		}
		return files, err
	}
	dir := filepath.Join(w.Scratch, w.run.ID+"-"+job.key.Hex()[:12])
	defer func() { _ = os.RemoveAll(dir) }()
	if err := w.fill(ctx, dir, job.inputs); err != nil {
		return nil, err
	}
	crashpoint.Here("build.filled")
	seen, err := w.execute(ctx, dir, job)
	if err != nil {
		return nil, err
	}
	crashpoint.Here("build.executed")
	if !job.unzip {
		w.stats.Built++
	}
	return w.keep(ctx, dir, seen, job)
}

func (w *attempt) forgetBuild(ctx context.Context, key landfall.Digest) error {
	return w.DB.Update(ctx, func(tx *store.Tx) error { return tx.DeleteBuild(ctx, w.app.ID, key) })
}

// cached returns the recorded output of a build whose bytes are still here; nil when there is none. After a failure of the run
// every byte is looked at: those may be what it failed for.
func (w *attempt) cached(ctx context.Context, key landfall.Digest) ([]landfall.File, error) {
	data, err := w.DB.Build(ctx, w.app.ID, key)
	if err != nil {
		return nil, landfall.Ignore(err, landfall.NotFound)
	}
	var kept keptBuild
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, err
	}
	folder := w.useBuild(kept.Folder)
	for _, f := range kept.Files {
		at := filepath.Join(folder, filepath.FromSlash(f.Path))
		if !isKept(f, at, w.run.Attempt > 1) {
			return nil, w.forgetBuild(ctx, key)
		}
		w.outputs[f.Digest] = at
	}
	return kept.Files, nil
}

// isKept reports whether a file that a build made lies at a path: by its size, or by its digest.
func isKept(f landfall.File, at string, byDigest bool) bool {
	info, err := os.Lstat(at)
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
		return false
	}
	if !byDigest {
		return true
	}
	digest, err := digestPath(at)
	return err == nil && digest == f.Digest
}

// fill writes a build's input files into its folder, from nothing.
func (w checkout) fill(ctx context.Context, dir string, inputs []builder.ArchiveFile) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, links := range []bool{false, true} { // last what could lead elsewhere
		for _, f := range inputs {
			if f.File.IsBuiltLink() != links {
				continue
			}
			if err := w.fillFile(ctx, root, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w checkout) fillFile(ctx context.Context, root *os.Root, f builder.ArchiveFile) error {
	if err := builder.Check(f.File); err != nil {
		return err
	}
	if !f.File.IsBuiltLink() {
		return artifact.CopyFile(ctx, root, f.Path, f.File, w.open)
	}
	if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
		return err
	}
	return root.Symlink(f.File.Target, f.Path)
}

// execute runs the command, with its output streamed to the run's log, or pulls the image. It returns the path at which the command
// saw the folder.
func (w draft) execute(ctx context.Context, dir string, job buildJob) (seen string, err error) {
	if job.pull != "" {
		return dir, w.pull(ctx, dir, job)
	}
	if job.unzip {
		return "", artifact.Unzip(dir, job.what)
	}
	w.sayNow(ctx, append(w.takeLog(), fmt.Sprintf("building %s", job.what))...)
	output := &logWriter{write: func(lines []string) { w.sayNow(ctx, lines...) }, now: w.Now, hide: w.hide.Stream()}
	shell, env := w.building.addTo(job.command, job.env)
	result, err := w.Sandbox.Build(ctx, BuildCommand{
		Shell: shell, Dir: dir, Env: env, Output: output, Network: true, Warmup: job.warmup, Logger: w.logger, Hide: w.hide,
		Say: func(line string) { w.sayNow(ctx, line) },
	})
	output.flush()
	if len(result.NotReached) > 0 {
		w.sayNow(ctx, slices.Clone(result.NotReached)...)
	}
	if err != nil {
		return "", err
	}
	var why string
	switch {
	case result.Killed != "":
		why = "was ended: " + result.Killed
	case result.ExitCode != 0:
		why = fmt.Sprintf("failed with exit code %d", result.ExitCode)
		if full(dir) { // whatever it says, that is not its author's fault
			return "", noSpace(nil)
		}
	default:
		return result.Dir, nil
	}
	if reason := reasonOf(output.reason.line, result.NotReached); reason != "" {
		why += ": " + w.hide.String(reason)
	}
	return "", &landfall.Error{Op: "pipeline.build", Kind: landfall.Invalid, Message: fmt.Sprintf("the build command of %s %s", job.what, why)}
}

// keep takes a build's outputs out of its folder, records them with their digests, and returns them. The bytes are kept
// before the record: what is recorded can be read.
func (w draft) keep(ctx context.Context, dir, seen string, job buildJob) ([]landfall.File, error) {
	files, err := artifact.Collect(dir, seen, artifact.Build{What: job.what, Outputs: job.outputs, Deploy: job.deploy})
	if err == nil && len(job.marks) > 0 {
		err = w.building.checkOutputs(dir, job, files)
	}
	if err != nil {
		return nil, err
	}
	name := path.Join(w.app.ID, job.key.Hex()+"-"+rand.Text())
	kept := w.useBuild(name)
	for i, f := range files {
		target := filepath.Join(kept, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return nil, err
		}
		if f.IsBuiltLink() { // it is kept as the text that it is
			err = os.WriteFile(target, []byte(f.Target), 0o600)
		} else {
			err = move(ctx, filepath.Join(dir, filepath.FromSlash(f.Path)), target)
		}
		if err != nil {
			return nil, err
		}
		if files[i].Digest, err = digestPath(target); err != nil {
			return nil, err
		}
		w.outputs[files[i].Digest] = target
	}
	crashpoint.Here("build.kept")
	data, err := json.Marshal(keptBuild{name, files})
	if err != nil {
		return nil, err
	}
	return files, w.DB.Update(ctx, func(tx *store.Tx) error {
		if err := tx.Fence(ctx, w.run.ID, w.run.Attempt); err != nil {
			return err
		}
		_, err := tx.PutBuild(ctx, w.app.ID, job.key, w.run.ID, data, w.Now())
		return err
	})
}

// move gives a file another name, also on another file system: scratch may be one of its own.
func move(ctx context.Context, from, to string) error {
	err := os.Rename(from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // the file was closed before
	return artifact.CopyFile(ctx, root, filepath.Base(to), landfall.File{}, func(context.Context, landfall.File) (io.ReadCloser, error) {
		return os.Open(filepath.Clean(from))
	})
}

func digestPath(name string) (landfall.Digest, error) {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	return digestFile(f)
}

// openOutput opens a file that a build made. Whoever stores it compares it with its digest; see cached for what comes of another one.
func (w *attempt) openOutput(f landfall.File) (io.ReadCloser, error) {
	return os.Open(filepath.Clean(w.outputs[f.Digest]))
}

// logWriter turns what a command prints into lines of the run's log, a few at a time.
type logWriter struct {
	write func([]string)
	now   func() time.Time
	hide  *secret.Stream // nil: nothing

	partial []byte
	lines   []string
	written time.Time
	reason  errorFinder // of the lines so far
}

const (
	logBatch    = 200
	logInterval = 100 * time.Millisecond
	logLine     = 4096 // bytes of a line; what is longer is cut into lines
)

// Write implements io.Writer. It does not fail.
func (l *logWriter) Write(p []byte) (int, error) {
	l.take(l.hide.Next(p))
	if len(l.lines) >= logBatch || l.now().Sub(l.written) >= logInterval {
		l.send()
	}
	return len(p), nil
}

// take makes lines of text.
func (l *logWriter) take(p []byte) {
	for len(p) > 0 {
		i := slices.Index(p, '\n')
		if i < 0 {
			l.partial = append(l.partial, p...)
			p = nil
		} else {
			l.partial = append(l.partial, p[:i]...)
			p = p[i+1:]
		}
		for len(l.partial) > logLine {
			l.add(l.partial[:logLine])
			l.partial = l.partial[logLine:]
		}
		if i >= 0 {
			l.add(l.partial)
			l.partial = nil
		}
	}
}

func (l *logWriter) add(line []byte) {
	text := strings.TrimRight(strings.ToValidUTF8(string(line), "\uFFFD"), "\r")
	l.lines = append(l.lines, text)
	l.reason.add(text)
}

func (l *logWriter) send() {
	if len(l.lines) > 0 {
		l.write(l.lines)
	}
	l.lines, l.written = nil, l.now()
}

// flush writes what is left.
func (l *logWriter) flush() {
	l.take(l.hide.End())
	if len(l.partial) > 0 {
		l.add(l.partial)
		l.partial = nil
	}
	l.send()
}
