package pipeline

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/preflight"
	"landfall.dev/landfall/spec"
)

// source is what a commit declares, and its files.
type source struct {
	checkout

	files []landfall.File // of the commit, relative to the app's folder
	spec  *spec.Spec
}

// read reads the specs from the commit's tree and validates all of them before anything is made.
func (w checkout) read(ctx context.Context) (source, error) {
	files, err := w.filesOf(ctx, w.run.Commit)
	if err != nil {
		return source{}, err
	}
	s := source{checkout: w, files: files}
	if s.spec, err = s.readSpec(ctx); err != nil {
		return source{}, err
	}
	return s, s.check(ctx)
}

// check fails unless what the commit declares can become a release, and says what its author should know.
func (w source) check(ctx context.Context) error {
	for _, warning := range slices.Concat(w.spec.Warnings, environment.Offline(w.spec)) {
		w.sayf("warning: %s", warning)
	}
	problems, err := preflight.Unrunnable(ctx, w.spec, w.files, w.open)
	if err == nil {
		err = spec.ErrorOf(problems)
	}
	if err != nil {
		return err
	}
	w.warnOfNetworks()
	if err := w.requireTests(); err != nil {
		return err
	}
	if err := w.checkNamespaces(); err != nil {
		return err
	}
	w.sayf("read %s of %q: %s, %s", w.run.Commit.Short(), w.info.Message, landfall.Count(len(w.files), "file"), declared(w.spec))
	return nil
}

// filesOf lists the files of a commit in the app's folder, by their paths below it.
func (w checkout) filesOf(ctx context.Context, commit landfall.CommitSHA) ([]landfall.File, error) {
	files, err := w.mirror.Files(ctx, commit, w.app.Folder)
	if w.app.Folder != "" {
		for i := range files {
			files[i].Path = strings.TrimPrefix(files[i].Path, w.app.Folder+"/")
		}
	}
	return files, err
}

func (w source) readSpec(ctx context.Context) (*spec.Spec, error) {
	var files []landfall.File
	var size int64
	index := false
	folder := specsFolder(w.app) + "/"
	for _, f := range w.files {
		index = index || f.Path == "index.html"
		if ext := path.Ext(f.Path); strings.HasPrefix(f.Path, folder) && (ext == ".yaml" || ext == ".yml") {
			files, size = append(files, f), size+f.Size
		}
	}
	if err := w.Specs.CheckBytes(size); err != nil {
		return nil, err
	}
	sources := make([]spec.Source, 0, len(files))
	for _, f := range files {
		data, err := w.readFile(ctx, f)
		if err != nil {
			return nil, err
		}
		sources = append(sources, spec.Source{Name: path.Join(w.app.Folder, f.Path), Data: data})
	}
	if len(sources) > 0 {
		s, err := spec.Parse(sources, w.Specs)
		if err == nil && index && s.OnlySettings() { // a release policy or a configuration does not take a page away
			s.App.Static = spec.Implicit().App.Static
		}
		if err == nil {
			err = s.ReadContracts(w.Specs, func(name string) ([]byte, error) { return w.readNamed(ctx, name) })
		}
		return s, err
	}
	if index {
		return spec.Implicit(), nil
	}
	return nil, &landfall.Error{Op: "pipeline.read", Kind: landfall.Invalid, Message: fmt.Sprintf(
		"%s has neither spec files in %s nor an index.html: add one of them, or name the folder of the specs (app create --specs)",
		inFolder(w.app.Folder), folder)}
}

func specsFolder(app landfall.App) string {
	if app.Specs == "" {
		return spec.DefaultFolder
	}
	return strings.Trim(path.Clean(app.Specs), "/")
}

func inFolder(folder string) string {
	if folder == "" {
		return "the commit"
	}
	return "the folder " + folder
}

// readNamed reads a file of the app's folder that a contract names.
func (w source) readNamed(ctx context.Context, name string) ([]byte, error) {
	at := slices.IndexFunc(w.files, func(f landfall.File) bool { return f.Path == path.Clean(name) })
	var why string
	switch {
	case at < 0:
		why = "the commit has no such file"
	case w.files[at].Mode != landfall.Regular && w.files[at].Mode != landfall.Executable:
		why = "it is no regular file"
	case w.files[at].Size > contract.MaxSchema:
		why = fmt.Sprintf("it has %d bytes; the limit is %d", w.files[at].Size, contract.MaxSchema)
	default:
		return w.readFile(ctx, w.files[at])
	}
	return nil, &landfall.Error{Op: "pipeline.read", Kind: landfall.Invalid, Message: why}
}

// readFile reads a file of the commit whose size was found to be small.
func (w checkout) readFile(ctx context.Context, f landfall.File) ([]byte, error) {
	r, err := w.mirror.Read(ctx, f)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	return data, err
}

// checkNamespaces fails for an object that names another namespace than the app's.
func (w source) checkNamespaces() error {
	check := func(objects ...spec.Object) error {
		for _, o := range objects {
			if o.Namespace != "" && o.Namespace != landfall.DefaultNamespace && o.Namespace != w.app.Namespace {
				return &landfall.Error{Op: "pipeline.read", Kind: landfall.Invalid, Message: fmt.Sprintf(
					"%s: %s is in the namespace %q, but the app is in %q: leave the namespace out", o.Pos, o.Name, o.Namespace, w.app.Namespace)}
			}
		}
		return nil
	}
	for _, f := range w.spec.Functions {
		if err := check(f.Object); err != nil {
			return err
		}
	}
	for _, p := range w.spec.Packages {
		if err := check(p.Object); err != nil {
			return err
		}
	}
	for _, e := range w.spec.Environments {
		if err := check(e.Object); err != nil {
			return err
		}
	}
	for _, t := range w.spec.Triggers {
		if err := check(t.Object); err != nil {
			return err
		}
	}
	return nil
}

// declared counts what a spec declares, for people.
func declared(s *spec.Spec) string {
	static := 0
	if s.App != nil {
		static = len(s.App.Static)
	}
	return strings.Join([]string{
		landfall.Count(len(s.Functions), "function"), landfall.Count(len(s.Packages), "package"),
		landfall.Count(len(s.Triggers), "trigger"), landfall.Count(static, "static unit"),
	}, ", ")
}

// close lets go of what the work holds open.
func (w checkout) close() {
	if w.mirror != nil {
		_ = w.mirror.Close()
	}
}

// warnOfNetworks tells who pushes of the functions that get no network here, whatever they ask for.
func (w source) warnOfNetworks() {
	if !w.NoNetwork {
		return
	}
	for _, name := range spec.Networked(w.spec) {
		w.sayf("warning: Function %s will have no network: this server gives functions none (LANDFALL_FUNCTIONS_NETWORK)", name)
	}
}
