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

// Sandbox runs untrusted commands.
type Sandbox interface {
	// Build runs a build command. A failing command is a result, not an error. Forbidden when nothing can confine it
	// here; the message says what to do.
	Build(ctx context.Context, c BuildCommand) (BuildResult, error)
}

// BuildCommand is a command of a repository.
type BuildCommand struct {
	Shell    string             // for /bin/sh -c
	Dir      string             // the only folder of ours that it sees, and where it starts
	Env      map[string]string  // in addition to what every command has
	Output   io.Writer          // gets what the command prints, as it prints it
	Network  bool               // whether it may reach public addresses
	Refuse   string             // why it reaches no host, for a command without a network that asks for one; may be empty
	Warmup   environment.Warmup // makes a folder that the command finds in Dir
	Progress func(line string)  // reports what is done before the command to the person who waits for the build
	Logger   *slog.Logger       // has the run's name; for the operator
	Hide     *secret.Redactor   // removes secrets from what the operator is told; nil: there are none
}

// BuildResult says how a build command ended.
type BuildResult struct {
	ExitCode int
	Killed   string // the limit that ended it; empty when it ended by itself
	Dir      string // the path at which the command saw its folder
	// NotReached has a line for each host that the command could not reach: the host, and what would allow it.
	NotReached []string
}

// builtPlan is a plan with what build commands made of packages. When the app has a build, its output made a new plan.
type builtPlan struct {
	plan

	packageFiles map[landfall.UnitID][]builder.ArchiveFile
}

// hasBuild reports whether the app has a build command that makes its files.
func (s source) hasBuild() bool { return s.spec.App != nil && s.spec.App.Build != nil }

// build runs the build commands whose output is not stored yet: of the app, and of the packages that changed. Then it
// checks whether new functions can be run, as far as possible.
func (p plan) build(ctx context.Context) (builtPlan, error) {
	if p.hasBuild() {
		files, err := p.buildApp(ctx)
		if err != nil {
			return builtPlan{}, err
		}
		if p, err = p.planUnits(ctx, files); err != nil {
			return builtPlan{}, err
		}
	}
	b := builtPlan{plan: p, packageFiles: map[landfall.UnitID][]builder.ArchiveFile{}}
	b.packages = maps.Clone(p.packages) // zips in it are unpacked
	if err := b.buildPackages(ctx); err != nil {
		return builtPlan{}, err
	}
	return b, b.checkFunctions(ctx)
}

// buildPackages builds the packages that are not stored.
func (b builtPlan) buildPackages(ctx context.Context) error {
	for _, u := range b.units {
		plan, ok := b.packages[u.Unit]
		if image := b.images[plan.pkg.Environment]; ok && image != "" && b.current[u.Unit].content() == nil {
			if err := b.pullPackage(ctx, u, image); err != nil {
				return err
			}
			continue
		}
		if !ok || b.current[u.Unit].content() != nil {
			continue
		}
		if err := b.unzipPackage(ctx, u); err != nil {
			return err
		}
		if plan = b.packages[u.Unit]; plan.pkg.BuildCommand == "" || plan.source == nil {
			continue
		}
		if err := b.buildPackage(ctx, u, plan); err != nil {
			return err
		}
	}
	return nil
}

// buildJob is one build command and its input.
type buildJob struct {
	what      string // for people
	command   string
	env       map[string]string
	inputs    []builder.ArchiveFile // the files that it sees, by their path in its folder
	outputs   []string              // files and folders that it makes
	deploy    bool                  // its output is at DEPLOY_PKG
	pullImage string                // in place of the command: the image to pull
	pullEnv   spec.Environment      // the environment of that image
	unzip     bool                  // in place of the command: a zip is unpacked
	archive   *archiveJob           // in place of the command: an archive is fetched
	marks     map[string]string     // fingerprints of the secrets that it gets, by their names
	warmup    environment.Warmup
	key       landfall.Digest // covers all of the above and the environment's definition
}

// buildApp returns the commit's files, overlaid with the output of the app's build command.
func (d draft) buildApp(ctx context.Context) ([]landfall.File, error) {
	b := d.spec.App.Build
	env := maps.Clone(b.Env)
	if _, named := env[releaseURLVariable]; named {
		env[releaseURLVariable] = d.Runs.ReleaseURL(d.app.Name, d.run.UID)
	}
	job := buildJob{what: "the app", command: b.Command, env: env, outputs: b.Outputs}
	for _, f := range d.files {
		if f.Mode != landfall.Regular && f.Mode != landfall.Executable {
			continue
		}
		if len(b.Inputs) == 0 || slices.ContainsFunc(b.Inputs, func(glob string) bool {
			return builder.Match(glob, f.Path)
		}) {
			job.inputs = append(job.inputs, builder.ArchiveFile{Path: f.Path, File: f})
		}
	}
	if len(job.inputs) == 0 {
		return nil, landfall.Errorf("pipeline.build", landfall.Invalid, "%s: build.inputs matches no file", d.spec.App.Pos)
	}
	job.marks = d.buildSecrets.marks
	job.key = job.digest(preflight.Definition(d.spec, b.Environment))
	made, err := d.runBuild(ctx, job)
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(slices.Clone(d.files), func(f landfall.File) bool {
		return slices.ContainsFunc(b.Outputs, func(out string) bool { return tree.IsBelow(out, f.Path) })
	})
	files = append(files, made...)
	slices.SortFunc(files, func(a, b landfall.File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// releaseURLVariable tells a build the address of its release. Only builds that use the variable get it, because it
// makes the build of every commit a different one.
const releaseURLVariable = "LANDFALL_RELEASE_URL"

// sourceFolder is where, by Fission's build contract, the source lies in the build's folder.
const sourceFolder = "src"

// buildPackage builds a package by Fission's contract: the command runs in the unpacked source, whose path is in
// SRC_PKG, and leaves a file or folder at the path in DEPLOY_PKG.
func (b builtPlan) buildPackage(ctx context.Context, u versioning.Unit, plan packagePlan) error {
	job := buildJob{
		what: u.Unit.String(),
		command: "export SRC_PKG=\"$PWD/" + sourceFolder + "\" DEPLOY_PKG=\"$PWD/" + artifact.Folder + "\"\ncd " +
			sourceFolder + "\n" + plan.pkg.BuildCommand, outputs: []string{artifact.Folder},
		deploy: true,
		warmup: plan.warmup,
	}
	for _, f := range plan.source {
		f.Path = sourceFolder + "/" + f.Path
		job.inputs = append(job.inputs, f)
	}
	job.marks = b.buildSecrets.marks
	job.key = job.digest(preflight.Definition(b.spec, plan.pkg.Environment))
	made, err := b.runBuild(ctx, job)
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
	b.packageFiles[u.Unit] = files
	return nil
}

// builds reports whether the job is a build for people.
func (j buildJob) builds() bool { return !j.unzip && j.archive == nil }

// digest covers everything that can change the output of a build.
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
		return "" // it has only strings, so it can always be encoded
	}
	return landfall.DigestOf(data)
}

// runBuild returns the output of a build: from an earlier build of the same input, or by running the command.
func (d draft) runBuild(ctx context.Context, job buildJob) ([]landfall.File, error) {
	job.key = d.ownKey(job.key)
	if d.run.Rebuild {
		if err := d.forgetBuild(ctx, job.key); err != nil {
			return nil, err
		}
	}
	files, err := d.cachedBuild(ctx, job.key)
	if err != nil || files != nil {
		if files != nil && job.builds() {
			d.stats.Cached++
			d.logf("%s: built before from the same input", job.what)
		}
		return files, err
	}
	if d.judged {
		return nil, errChanged
	}
	dir := filepath.Join(d.Scratch, d.run.ID+"-"+job.key.Hex()[:12])
	defer func() { _ = os.RemoveAll(dir) }()
	if err := d.fill(ctx, dir, job.inputs); err != nil {
		return nil, err
	}
	crashpoint.Here("build.filled")
	seen, err := d.execute(ctx, dir, job)
	if err != nil {
		return nil, err
	}
	crashpoint.Here("build.executed")
	if job.builds() {
		d.stats.Built++
	}
	return d.storeOutputs(ctx, dir, seen, job)
}

func (a *attempt) forgetBuild(ctx context.Context, key landfall.Digest) error {
	return a.DB.Update(ctx, func(tx *store.Tx) error { return tx.DeleteBuild(ctx, a.app.ID, key) })
}

// cachedBuild returns the recorded output of a build whose bytes still exist, or are on another machine; nil when there
// is none. After a failure of the run every byte is checked, because the output may be the cause.
func (a *attempt) cachedBuild(ctx context.Context, key landfall.Digest) ([]landfall.File, error) {
	data, err := a.DB.Build(ctx, a.app.ID, key)
	if err != nil {
		return nil, landfall.Ignore(err, landfall.NotFound)
	}
	var kept storedBuild
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, err
	}
	folder := a.holdBuild(kept.Folder)
	if a.isElsewhere(folder) {
		return kept.Files, nil
	}
	for _, f := range kept.Files {
		at := filepath.Join(folder, filepath.FromSlash(f.Path))
		if !isStored(f, at, a.run.Attempt > 1) {
			if a.dry || a.judged { // the files may be on the machine that works on runs
				return nil, nil
			}
			return nil, a.forgetBuild(ctx, key)
		}
		a.outputs[f.Digest] = at
	}
	return kept.Files, nil
}

// isElsewhere reports whether the output of a build is on another machine, or gone, and may be enough without its
// bytes: the digests say whether there is a new version of anything.
func (a *attempt) isElsewhere(folder string) bool {
	if a.dry || a.here || a.run.Attempt > 1 {
		return false
	}
	_, err := os.Lstat(folder)
	return errors.Is(err, fs.ErrNotExist)
}

// isStored reports whether a build output lies at a path, by its size or by its digest.
func isStored(f landfall.File, at string, byDigest bool) bool {
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

// fill writes a build's input files into its new folder.
func (c checkout) fill(ctx context.Context, dir string, inputs []builder.ArchiveFile) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := c.mirror.FetchLFS(ctx, builder.InArchive(inputs)); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, links := range []bool{false, true} { // links are last, because they could lead elsewhere
		for _, f := range inputs {
			if f.File.IsBuiltLink() != links {
				continue
			}
			if err := c.fillFile(ctx, root, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c checkout) fillFile(ctx context.Context, root *os.Root, f builder.ArchiveFile) error {
	if err := builder.Check(f.File); err != nil {
		return err
	}
	if !f.File.IsBuiltLink() {
		return artifact.CopyFile(ctx, root, f.Path, f.File, c.open)
	}
	if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
		return err
	}
	return root.Symlink(f.File.Target, f.Path)
}

// execute runs the command and copies its output to the run's log, or pulls the image. It returns the path at which the
// command saw its folder.
func (d draft) execute(ctx context.Context, dir string, job buildJob) (buildDir string, err error) {
	if job.pullImage != "" {
		return dir, d.pull(ctx, dir, job)
	}
	if job.unzip {
		return "", artifact.Unzip(dir, job.what)
	}
	if job.archive != nil {
		return "", d.bring(ctx, dir, job)
	}
	d.logNow(ctx, append(d.takeLog(), fmt.Sprintf("building %s", job.what))...)
	output := &logWriter{write: func(lines []string) { d.logNow(ctx, lines...) }, now: d.Now, hide: d.hide.Stream()}
	shell, env := d.buildSecrets.addTo(job.command, job.env)
	result, err := d.Sandbox.Build(ctx, BuildCommand{
		Shell: shell, Dir: dir, Env: env, Output: output, Network: d.run.Fork == 0, Refuse: d.noNetwork(),
		Warmup: job.warmup, Logger: d.logger, Hide: d.hide,
		Progress: func(line string) { d.logNow(ctx, line) },
	})
	output.flush()
	if len(result.NotReached) > 0 {
		d.logNow(ctx, slices.Clone(result.NotReached)...)
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
		if isFull(dir) { // whatever the command says, its author is not at fault
			return "", noSpace(nil)
		}
	default:
		return result.Dir, nil
	}
	if d.run.Fork != 0 && len(result.NotReached) == 0 && networkFailure.MatchString(output.reason.line) {
		result.NotReached = []string{"the network was not reached: " + d.noNetwork()}
	}
	if reason := reasonOf(output.reason.line, result.NotReached); reason != "" {
		why += ": " + d.hide.String(reason)
	}
	return "", landfall.Errorf("pipeline.build", landfall.Invalid, "the build command of %s %s", job.what, why)
}

// storeOutputs takes a build's outputs out of its folder, records them with their digests, and returns them. It stores
// the bytes before the record, so what is recorded can be read.
func (d draft) storeOutputs(ctx context.Context, dir, buildDir string, job buildJob) ([]landfall.File, error) {
	files, err := artifact.Collect(dir, buildDir, artifact.Build{What: job.what, Outputs: job.outputs, Deploy: job.deploy})
	if err == nil && len(job.marks) > 0 {
		err = d.buildSecrets.checkOutputs(dir, job, files)
	}
	if err != nil {
		return nil, err
	}
	name := path.Join(d.app.ID, job.key.Hex()+"-"+rand.Text())
	kept := d.holdBuild(name)
	for i, f := range files {
		target := filepath.Join(kept, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return nil, err
		}
		if f.IsBuiltLink() { // a link is stored as its text
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
		d.outputs[files[i].Digest] = target
	}
	if d.dry {
		d.dryOutputs = append(d.dryOutputs, kept)
		return files, nil
	}
	crashpoint.Here("build.kept")
	data, err := json.Marshal(storedBuild{name, files})
	if err != nil {
		return nil, err
	}
	return files, d.DB.Update(ctx, func(tx *store.Tx) error {
		if err := tx.Fence(ctx, d.run.ID, d.run.Attempt); err != nil {
			return err
		}
		_, err := tx.PutBuild(ctx, d.app.ID, job.key, d.run.ID, data, d.Now())
		return err
	})
}

// move renames a file, also to another file system: scratch may be on its own.
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
	return artifact.CopyFile(ctx, root, filepath.Base(to), landfall.File{},
		func(context.Context, landfall.File) (io.ReadCloser, error) {
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

// errElsewhere is the error when a build output that is on another machine is read.
var errElsewhere = landfall.Errorf("pipeline.build", landfall.Unavailable,
	"the output of a build is on another machine")

// openOutput opens a build output. Whoever stores it compares it with its digest; cachedBuild says what happens when it
// is damaged.
func (a *attempt) openOutput(f landfall.File) (io.ReadCloser, error) {
	at, ok := a.outputs[f.Digest]
	if !ok {
		return nil, errElsewhere
	}
	return os.Open(filepath.Clean(at))
}

// logWriter makes lines of the run's log from what a command prints, and writes a few at a time.
type logWriter struct {
	write func([]string)
	now   func() time.Time
	hide  *secret.Stream // nil: nothing

	partial []byte
	lines   []string
	written time.Time
	reason  errorFinder // found in the lines so far
}

const (
	logBatch    = 200
	logInterval = 100 * time.Millisecond
	logLine     = 4096 // bytes of a line; a longer one is cut
)

// Write implements io.Writer. It does not fail.
func (l *logWriter) Write(p []byte) (int, error) {
	l.take(l.hide.Next(p))
	if len(l.lines) >= logBatch || l.now().Sub(l.written) >= logInterval {
		l.send()
	}
	return len(p), nil
}

// take splits text into lines.
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
