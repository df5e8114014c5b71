package pipeline

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/store"
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
}

// BuildResult says how a build command ended.
type BuildResult struct {
	ExitCode int
	Killed   string // which limit ended it; empty when it ended by itself
}

// builds reports whether a build command makes files of the app itself.
func (w *worker) builds() bool { return w.spec.App != nil && w.spec.App.Build != nil }

// build runs the build commands whose output is not at hand: of the app, and of the packages that changed. Then it looks whether
// what is new can be run, as far as that can be told.
func (w *worker) build(ctx context.Context) error {
	w.outputs = map[landfall.Digest]string{}
	if w.builds() {
		files, err := w.buildApp(ctx)
		if err != nil {
			return err
		}
		if err := w.planUnits(ctx, files); err != nil {
			return err
		}
	}
	w.built = map[landfall.UnitID][]builder.ArchiveFile{}
	for _, u := range w.units {
		plan, ok := w.packages[u.Unit]
		if image := w.images[plan.pkg.Environment]; ok && image != "" && w.current[u.Unit].Content == nil {
			if err := w.pullPackage(ctx, u, image); err != nil {
				return err
			}
			continue
		}
		if !ok || plan.pkg.BuildCommand == "" || plan.source == nil || w.current[u.Unit].Content != nil {
			continue
		}
		if err := w.buildPackage(ctx, u, plan); err != nil {
			return err
		}
	}
	return w.checkModules(ctx)
}

// buildJob is one build command and what it may read.
type buildJob struct {
	what    string // for people
	command string
	env     map[string]string
	inputs  []builder.ArchiveFile // the files that it sees, by their path in its folder
	outputs []string              // files and folders that it makes
	pull    string                // in place of the command: the image that it pulls
	warmup  environment.Warmup
	key     landfall.Digest // covers all of the above and the environment's definition
}

// buildApp returns the commit's files, overlaid with what the app's build command makes of them.
func (w *worker) buildApp(ctx context.Context) ([]landfall.File, error) {
	b := w.spec.App.Build
	env := maps.Clone(b.Env)
	if _, named := env[releaseURLVariable]; named {
		env[releaseURLVariable] = w.ReleaseURL(w.app.Name, w.run.UID)
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
	job.key = job.digest(w.environment(b.Environment))
	made, err := w.runBuild(ctx, job)
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(slices.Clone(w.files), func(f landfall.File) bool {
		return slices.ContainsFunc(b.Outputs, func(out string) bool { return isBelow(out, f.Path) })
	})
	files = append(files, made...)
	slices.SortFunc(files, func(a, b landfall.File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// releaseURLVariable tells a build where its release will answer; only builds that name it are told, since it makes
// every commit's build another one.
const releaseURLVariable = "LANDFALL_RELEASE_URL"

// isBelow reports whether name is folder or lies below it.
func isBelow(folder, name string) bool {
	folder = path.Clean(folder)
	return name == folder || strings.HasPrefix(name, folder+"/")
}

// The folders of Fission's build contract, in the build's folder.
const (
	sourceFolder = "src"
	deployName   = "deploy"
)

// buildPackage builds a package by Fission's contract: the command runs in the unpacked source, whose path is in
// SRC_PKG, and leaves a file or folder at the path in DEPLOY_PKG.
func (w *worker) buildPackage(ctx context.Context, u versioning.Unit, plan packagePlan) error {
	job := buildJob{
		what:    u.Unit.String(),
		command: "export SRC_PKG=\"$PWD/" + sourceFolder + "\" DEPLOY_PKG=\"$PWD/" + deployName + "\"\ncd " + sourceFolder + "\n" + plan.pkg.BuildCommand,
		outputs: []string{deployName},
		warmup:  plan.warmup,
	}
	for _, f := range plan.source {
		f.Path = sourceFolder + "/" + f.Path
		job.inputs = append(job.inputs, f)
	}
	job.key = job.digest(w.environment(plan.pkg.Environment))
	made, err := w.runBuild(ctx, job)
	if err != nil {
		return err
	}
	files := make([]builder.ArchiveFile, 0, len(made))
	for _, f := range made {
		files = append(files, builder.ArchiveFile{Path: strings.TrimPrefix(strings.TrimPrefix(f.Path, deployName), "/"), File: f})
	}
	if len(files) == 1 && files[0].Path == "" {
		files[0].Path = u.Unit.Name // the command made one file
	}
	w.built[u.Unit] = files
	return nil
}

// environment returns the definition of an environment, as far as this spec has it.
func (w *worker) environment(name string) []byte {
	for _, e := range w.spec.Environments {
		if e.Name == name {
			return e.Spec
		}
	}
	return []byte(name)
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
	}{"landfall-build/1", j.command, string(definition), j.env, j.outputs, rows})
	if err != nil {
		return "" // strings only: it always has a form
	}
	return landfall.DigestOf(data)
}

// runBuild returns what a build makes: from an earlier build of the same input, or by running the command.
func (w *worker) runBuild(ctx context.Context, job buildJob) ([]landfall.File, error) {
	if w.run.Rebuild {
		if err := w.forgetBuild(ctx, job.key); err != nil {
			return nil, err
		}
	}
	files, err := w.cached(ctx, job.key)
	if err != nil || files != nil {
		if files != nil {
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
	if err := w.execute(ctx, dir, job); err != nil {
		return nil, err
	}
	crashpoint.Here("build.executed")
	w.stats.Built++
	return w.keep(ctx, dir, job)
}

func (w *worker) forgetBuild(ctx context.Context, key landfall.Digest) error {
	return w.DB.Update(ctx, func(tx *store.Tx) error { return tx.DeleteBuild(ctx, w.app.ID, key) })
}

// cached returns the recorded output of a build whose bytes are still here; nil when there is none. After a failure of the run
// every byte is looked at: those may be what it failed for.
func (w *worker) cached(ctx context.Context, key landfall.Digest) ([]landfall.File, error) {
	data, err := w.DB.Build(ctx, w.app.ID, key)
	if err != nil {
		return nil, ignoreNotFound(err)
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
func (w *worker) fill(ctx context.Context, dir string, inputs []builder.ArchiveFile) error {
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
	for _, f := range inputs {
		if err := w.fillFile(ctx, root, f); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) fillFile(ctx context.Context, root *os.Root, f builder.ArchiveFile) error {
	if err := builder.Check(f.File); err != nil {
		return err
	}
	if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
		return err
	}
	in, err := w.open(ctx, f.File)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	mode := fs.FileMode(0o644)
	if f.File.Mode == landfall.Executable {
		mode = 0o755
	}
	out, err := root.OpenFile(f.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	return err
}

// execute runs the command, with its output streamed to the run's log, or pulls the image.
func (w *worker) execute(ctx context.Context, dir string, job buildJob) error {
	if job.pull != "" {
		return w.pull(ctx, dir, job.pull)
	}
	w.sayNow(ctx, append(w.takeLog(), fmt.Sprintf("building %s", job.what))...)
	output := &logWriter{write: func(lines []string) { w.sayNow(ctx, lines...) }, now: w.Now}
	result, err := w.Sandbox.Build(ctx, BuildCommand{
		Shell: job.command, Dir: dir, Env: job.env, Output: output, Network: true, Warmup: job.warmup, Logger: w.logger,
		Say: func(line string) { w.sayNow(ctx, line) },
	})
	output.flush()
	if err != nil {
		return err
	}
	var why string
	switch {
	case result.Killed != "":
		why = "was ended: " + result.Killed
	case result.ExitCode != 0:
		why = fmt.Sprintf("failed with exit code %d", result.ExitCode)
		if full(dir) { // whatever it says, that is not its author's fault
			return noSpace(nil)
		}
	default:
		return nil
	}
	if output.last != "" {
		why += ": " + output.last
	}
	return &landfall.Error{Op: "pipeline.build", Kind: landfall.Invalid, Message: fmt.Sprintf("the build command of %s %s", job.what, why)}
}

// keep takes a build's outputs out of its folder, records them with their digests, and returns them. The bytes are kept
// before the record: what is recorded can be read.
func (w *worker) keep(ctx context.Context, dir string, job buildJob) ([]landfall.File, error) {
	files, err := collectOutputs(dir, job)
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
		if err := move(filepath.Join(dir, filepath.FromSlash(f.Path)), target); err != nil {
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
func move(from, to string) error {
	err := os.Rename(from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	in, err := os.Open(filepath.Clean(from))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Clean(to), os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Limits of what a build may make.
const (
	maxOutputFiles = 50_000
	maxOutputBytes = 2 << 30
)

// collectOutputs lists the files that a build made where it said it would. A link, a device or a socket among them is
// an error: nothing but regular files ever gets into a version.
func collectOutputs(dir string, job buildJob) ([]landfall.File, error) {
	invalid := func(format string, args ...any) error {
		return &landfall.Error{Op: "pipeline.build", Kind: landfall.Invalid, Message: "the build of " + job.what + " " + fmt.Sprintf(format, args...)}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	var files []landfall.File
	var bytes int64
	for _, out := range job.outputs {
		out = path.Clean(out)
		if info, err := root.Lstat(out); err != nil || (!info.IsDir() && !info.Mode().IsRegular()) {
			return nil, invalid("did not make %s", out)
		}
		err := fs.WalkDir(root.FS(), out, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() {
				return invalid("made %s, which is no regular file", name)
			}
			f := landfall.File{Path: name, Size: info.Size()}
			if info.Mode()&0o111 != 0 {
				f.Mode = landfall.Executable
			}
			files = append(files, f)
			if bytes += f.Size; bytes > maxOutputBytes || len(files) > maxOutputFiles {
				return invalid("made more than %d files or %d bytes", maxOutputFiles, int64(maxOutputBytes))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, invalid("made no file in %s", strings.Join(job.outputs, ", "))
	}
	slices.SortFunc(files, func(a, b landfall.File) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(files, func(a, b landfall.File) bool { return a.Path == b.Path }), nil
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
func (w *worker) openOutput(f landfall.File) (io.ReadCloser, error) {
	return os.Open(filepath.Clean(w.outputs[f.Digest]))
}

// logWriter turns what a command prints into lines of the run's log, a few at a time.
type logWriter struct {
	write func([]string)
	now   func() time.Time

	partial []byte
	lines   []string
	written time.Time
	last    string // the last line that says something
}

const (
	logBatch    = 200
	logInterval = 100 * time.Millisecond
	logLine     = 4096 // bytes of a line; what is longer is cut into lines
)

// Write implements io.Writer. It does not fail.
func (l *logWriter) Write(p []byte) (int, error) {
	n := len(p)
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
	if len(l.lines) >= logBatch || l.now().Sub(l.written) >= logInterval {
		l.send()
	}
	return n, nil
}

func (l *logWriter) add(line []byte) {
	text := strings.TrimRight(strings.ToValidUTF8(string(line), "\uFFFD"), "\r")
	l.lines = append(l.lines, text)
	if said := landfall.Plain(text); said != "" { // it becomes the reason, which goes where no terminal is
		l.last = said
	}
}

func (l *logWriter) send() {
	if len(l.lines) > 0 {
		l.write(l.lines)
	}
	l.lines, l.written = nil, l.now()
}

// flush writes what is left.
func (l *logWriter) flush() {
	if len(l.partial) > 0 {
		l.add(l.partial)
		l.partial = nil
	}
	l.send()
}
