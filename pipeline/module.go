package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/spec"
)

// Modules knows which WebAssembly modules can be run.
type Modules interface {
	// Check looks at a module, and makes it ready. Invalid, with what is wrong with it, when it cannot be run.
	Check(ctx context.Context, module io.Reader) error
}

// checkModules fails for a new version of a function whose WebAssembly module cannot be run.
func (w *worker) checkModules(ctx context.Context) error {
	for _, f := range w.spec.Functions {
		_, known := w.current[landfall.UnitID{Kind: landfall.FunctionUnit, Name: f.Name}]
		env, err := environment.Of(f.Environment, w.image(f.Environment))
		if known || err != nil || !env.Modules() {
			continue // of those that cannot be run the log has a warning
		}
		files, err := w.deployed(ctx, landfall.UnitID{Kind: landfall.PackageUnit, Name: f.Package})
		if err != nil {
			return err
		}
		if len(files) == 0 {
			continue
		}
		if err := w.checkModule(ctx, f, files); err != nil {
			return &landfall.Error{Op: "pipeline.build", Kind: landfall.KindOf(err), Err: err,
				Message: fmt.Sprintf("%s: Function %s cannot be run: %s", f.Pos, f.Name, landfall.MessageOf(err))}
		}
	}
	return nil
}

// image returns that of an environment; empty when the spec has no such environment.
func (w *worker) image(name string) string { return imageOf(w.spec, name) }

func imageOf(s *spec.Spec, name string) string {
	for _, e := range s.Environments {
		if e.Name == name {
			image, _, _ := spec.ReadEnvironmentVersion(e.Spec) // it was read before
			return image
		}
	}
	return ""
}

// opened is how a file of a package is read.
type opened func(ctx context.Context) (io.ReadCloser, error)

// deployed returns the files of a package as its functions see them; none when it is not stored here.
func (w *worker) deployed(ctx context.Context, id landfall.UnitID) (map[string]opened, error) {
	plan := w.packages[id]
	list, built := w.built[id]
	switch {
	case built:
	case plan.pkg.BuildCommand != "" && plan.source != nil:
		return w.builtBefore(ctx, id)
	case plan.deployment != nil:
		list = plan.deployment
	default:
		list = plan.source
	}
	if list == nil {
		return map[string]opened{}, nil
	}
	files := make(map[string]opened, len(list))
	for _, f := range list {
		files[f.Path] = func(ctx context.Context) (io.ReadCloser, error) { return w.open(ctx, f.File) }
	}
	return files, nil
}

// builtBefore returns the files of a package that was built for an earlier version of it.
func (w *worker) builtBefore(ctx context.Context, id landfall.UnitID) (map[string]opened, error) {
	var content PackageContent
	if err := json.Unmarshal(w.current[id].Content, &content); err != nil {
		return nil, err
	}
	if content.Deployment == nil {
		return map[string]opened{}, nil
	}
	stored, err := w.Objects.Open(ctx, content.Deployment.Key)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stored.Close() }()
	list, err := builder.ListArchive(stored, content.Deployment.Size)
	files := make(map[string]opened, len(list))
	for name := range list {
		files[name] = func(ctx context.Context) (io.ReadCloser, error) {
			stored, err := w.Objects.Open(ctx, content.Deployment.Key)
			if err != nil {
				return nil, err
			}
			file, err := builder.OpenArchived(stored, content.Deployment.Size, name)
			if err != nil {
				_ = stored.Close()
				return nil, err
			}
			return both{file, stored}, nil
		}
	}
	return files, err
}

// both is a file of an archive, and the archive.
type both struct {
	io.ReadCloser

	archive io.Closer
}

// Close implements io.Closer.
func (b both) Close() error {
	err := b.ReadCloser.Close()
	if failed := b.archive.Close(); err == nil {
		err = failed
	}
	return err
}

func (w *worker) checkModule(ctx context.Context, f spec.Function, files map[string]opened) error {
	name, _, err := environment.Module(slices.Sorted(maps.Keys(files)), f.FunctionName)
	if err != nil {
		return err
	}
	file, err := files[name](ctx)
	if err != nil {
		return err
	}
	err = w.Modules.Check(ctx, file)
	_ = file.Close() // it was only read
	if err != nil {
		return &landfall.Error{Op: "pipeline.build", Kind: landfall.KindOf(err), Err: err, Message: "its module " + name + ": " + landfall.MessageOf(err)}
	}
	return nil
}
