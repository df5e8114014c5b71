package pipeline

import (
	"context"
	"errors"
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

// source is what a commit declares, with its files.
type source struct {
	checkout

	files []landfall.File // of the commit, relative to the app's folder
	spec  *spec.Spec
}

// read reads the specs from the commit's tree and validates all of them before anything is made.
func (c checkout) read(ctx context.Context) (source, error) {
	if c.run.Fork != 0 {
		return c.readFork(ctx)
	}
	s, err := c.readCommit(ctx)
	if err != nil {
		return source{}, err
	}
	return s, s.check(ctx)
}

// readCommit reads the specs from the commit's tree.
func (c checkout) readCommit(ctx context.Context) (source, error) {
	files, err := c.filesOf(ctx, c.run.Commit)
	if err != nil {
		return source{}, err
	}
	s := source{checkout: c, files: files}
	s.spec, err = s.readSpec(ctx)
	return s, err
}

// check fails unless what the commit declares can become a release, and logs what its author should know.
func (s source) check(ctx context.Context) error {
	for _, warning := range slices.Concat(s.spec.Warnings, environment.WithoutNetwork(s.spec)) {
		s.logf("warning: %s", warning)
	}
	problems, err := preflight.Unrunnable(ctx, s.spec, s.files, s.open)
	if err == nil {
		err = spec.ErrorOf(problems)
	}
	if err != nil {
		return err
	}
	s.warnOfNetworks()
	if err := s.requireTests(); err != nil {
		return err
	}
	if err := s.checkNamespaces(); err != nil {
		return err
	}
	s.logf("read %s of %q: %s, %s", s.run.Commit.Short(), s.info.Message, landfall.Count(len(s.files), "file"),
		summary(s.spec))
	return nil
}

// filesOf lists the files of a commit in the app's folder, by their paths below it.
func (c checkout) filesOf(ctx context.Context, commit landfall.CommitSHA) ([]landfall.File, error) {
	files, err := c.mirror.Files(ctx, commit, c.app.Folder)
	if c.app.Folder != "" {
		for i := range files {
			files[i].Path = strings.TrimPrefix(files[i].Path, c.app.Folder+"/")
		}
	}
	return files, err
}

func (s source) readSpec(ctx context.Context) (*spec.Spec, error) {
	var files []landfall.File
	var size int64
	index := false
	folder := specsFolder(s.app) + "/"
	for _, f := range s.files {
		index = index || f.Path == "index.html"
		if ext := path.Ext(f.Path); strings.HasPrefix(f.Path, folder) && (ext == ".yaml" || ext == ".yml") {
			files, size = append(files, f), size+f.Size
		}
	}
	if err := s.Specs.CheckBytes(size); err != nil {
		return nil, err
	}
	sources := make([]spec.Source, 0, len(files))
	for _, f := range files {
		data, err := s.readFile(ctx, f)
		if err != nil {
			return nil, err
		}
		sources = append(sources, spec.Source{Name: path.Join(s.app.Folder, f.Path), Data: data})
	}
	if len(sources) > 0 {
		declared, err := spec.Parse(sources, s.Specs)
		// a release policy or a configuration must not remove the pages of an app
		if err == nil && index && declared.OnlySettings() {
			declared.App.Static = spec.Implicit().App.Static
		}
		if err == nil {
			err = declared.ReadContracts(s.Specs, func(name string) ([]byte, error) { return s.readContractFile(ctx, name) })
		}
		return declared, err
	}
	if index {
		return spec.Implicit(), nil
	}
	return nil, landfall.Errorf("pipeline.read", landfall.Invalid,
		"%s has neither spec files in %s nor an index.html: add one of them, or name the folder of the specs (app create "+
			"--specs)", inFolder(s.app.Folder), folder)
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

// readContractFile reads a file of the app's folder that a contract names.
func (s source) readContractFile(ctx context.Context, name string) ([]byte, error) {
	at := slices.IndexFunc(s.files, func(f landfall.File) bool { return f.Path == path.Clean(name) })
	var why string
	switch {
	case at < 0:
		why = "the commit has no such file"
	case s.files[at].Mode != landfall.Regular && s.files[at].Mode != landfall.Executable:
		why = "it is no regular file"
	case s.files[at].Size > contract.MaxSchema:
		why = fmt.Sprintf("it has %d bytes; the limit is %d", s.files[at].Size, contract.MaxSchema)
	default:
		return s.readFile(ctx, s.files[at])
	}
	return nil, &landfall.Error{Op: "pipeline.read", Kind: landfall.Invalid, Message: why}
}

// readFile reads a file of the commit that is known to be small.
func (c checkout) readFile(ctx context.Context, f landfall.File) ([]byte, error) {
	r, err := c.mirror.Read(ctx, f)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

// checkNamespaces fails for an object that names another namespace than the app's.
func (s source) checkNamespaces() error {
	var objects []spec.Object
	for _, f := range s.spec.Functions {
		objects = append(objects, f.Object)
	}
	for _, p := range s.spec.Packages {
		objects = append(objects, p.Object)
	}
	for _, e := range s.spec.Environments {
		objects = append(objects, e.Object)
	}
	for _, t := range s.spec.Triggers {
		objects = append(objects, t.Object)
	}
	for _, a := range s.spec.Aliases {
		objects = append(objects, a.Object)
	}
	for _, t := range s.spec.FunctionTags {
		objects = append(objects, t.Object)
	}
	for _, o := range objects {
		if o.Namespace != "" && o.Namespace != landfall.DefaultNamespace && o.Namespace != s.app.Namespace {
			return landfall.Errorf("pipeline.read", landfall.Invalid,
				"%s: %s is in the namespace %q, but the app is in %q: leave the namespace out", o.Pos, o.Name, o.Namespace,
				s.app.Namespace)
		}
	}
	return nil
}

// summary counts the objects that a spec declares, for people.
func summary(s *spec.Spec) string {
	static := 0
	if s.App != nil {
		static = len(s.App.Static)
	}
	return strings.Join([]string{
		landfall.Count(len(s.Functions), "function"), landfall.Count(len(s.Packages), "package"),
		landfall.Count(len(s.Triggers), "trigger"), landfall.Count(static, "static unit"),
	}, ", ")
}

// close closes what the work has open.
func (c checkout) close() {
	if c.mirror != nil {
		_ = c.mirror.Close()
	}
}

// warnOfNetworks tells the person who pushed which functions ask for a network and get none here.
func (s source) warnOfNetworks() {
	if !s.NoNetwork {
		return
	}
	for _, name := range spec.NetworkFunctions(s.spec) {
		s.logf("warning: Function %s will have no network: this server gives functions none (LANDFALL_FUNCTIONS_NETWORK)",
			name)
	}
}
