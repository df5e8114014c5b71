// Package artifact lists what a build made, and writes the files that one begins with. A zip that is unpacked counts as
// a build.
package artifact

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/tree"
)

// These bound the output of a build.
const (
	MaxFiles = 50_000
	MaxBytes = 2 << 30
)

// Folder is where, by Fission's build contract, the files of a package lie in the build's folder: at DEPLOY_PKG.
const Folder = "deploy"

// Build is what a build says of itself.
type Build struct {
	What    string   // it is of, for people
	Outputs []string // files and folders that it makes
	Deploy  bool     // its output is what a command left at DEPLOY_PKG
}

// Collect lists the files that a build made where it said it would, and the symbolic links between them. A device or a
// socket among them is an error, and so is a link that leaves the outputs. seen is the path at which the build saw its
// folder.
func Collect(dir, seen string, b Build) ([]landfall.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	found := &outputs{Build: b, root: root, buildDir: seen}
	for _, out := range b.Outputs {
		out = path.Clean(out)
		info, err := root.Lstat(out)
		switch {
		case err == nil && info.Mode().Type() == fs.ModeSymlink:
			return nil, found.invalid("made %s as a symbolic link: it must be a file or a folder; copy what the link leads to",
				found.displayPath(out))
		case err != nil || (!info.IsDir() && !info.Mode().IsRegular()):
			return nil, found.invalid("did not make %s", found.displayPath(out))
		}
		if err := fs.WalkDir(root.FS(), out, found.add); err != nil {
			return nil, err
		}
	}
	if len(found.files) == 0 {
		return nil, found.invalid("made no file in %s", found.displayPath(strings.Join(b.Outputs, ", ")))
	}
	slices.SortFunc(found.files, func(a, b landfall.File) int { return strings.Compare(a.Path, b.Path) })
	files := slices.CompactFunc(found.files, func(a, b landfall.File) bool { return a.Path == b.Path })
	return files, found.checkLinks(files, b.Outputs)
}

// outputs collects the files that a build made.
type outputs struct {
	Build

	root     *os.Root
	buildDir string
	files    []landfall.File
	bytes    int64
}

func (o *outputs) invalid(format string, args ...any) error {
	return landfall.Errorf("pipeline.build", landfall.Invalid, "the build of %s %s", o.What, fmt.Sprintf(format, args...))
}

// displayPath returns the path of an output as the author of the command knows it.
func (o *outputs) displayPath(name string) string {
	if !o.Deploy {
		return name
	}
	return "DEPLOY_PKG" + strings.TrimPrefix(name, Folder)
}

// add is a fs.WalkDirFunc.
func (o *outputs) add(name string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case tree.TooDeep(name):
		return o.invalid("made a file in more than %d folders within one another", tree.MaxDepth)
	case entry.IsDir():
		return nil
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	f := landfall.File{Path: name, Size: info.Size()}
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := o.root.Readlink(name)
		if err != nil {
			return err
		}
		f.Mode, f.Target = landfall.Symlink, o.relative(name, target)
		f.Size = int64(len(f.Target))
	case !info.Mode().IsRegular():
		return o.invalid("made %s, which is no regular file, folder or symbolic link", o.displayPath(name))
	case info.Mode()&0o111 != 0:
		f.Mode = landfall.Executable
	}
	o.files = append(o.files, f)
	if o.bytes += f.Size; o.bytes > MaxBytes || len(o.files) > MaxFiles {
		return o.invalid("made more than %d files or %d bytes", MaxFiles, int64(MaxBytes))
	}
	return nil
}

// relative returns the shortest path from a link's folder to its target, because the files may be used from a folder of
// the outputs on. A target that is a path in the build's folder is valid only while the build runs.
func (o *outputs) relative(link, target string) string {
	inside, ok := strings.CutPrefix(target+"/", strings.TrimSuffix(o.buildDir, "/")+"/")
	if !ok || o.buildDir == "" {
		return target
	}
	way, err := filepath.Rel(path.Dir(link), path.Clean(inside))
	if err != nil { // both paths are relative
		return target
	}
	return way
}

// checkLinks fails for a link that leaves the outputs.
func (o *outputs) checkLinks(files []landfall.File, made []string) error {
	found := tree.Of(files)
	for _, link := range found.Links() {
		to, inside := found.Follow(link)
		if !inside || !slices.ContainsFunc(made, func(out string) bool { return tree.IsBelow(out, to) }) {
			target, _ := o.root.Readlink(link) // it was read before
			return o.invalid("made the symbolic link %s, which leads out of %s, to %s: copy what it leads to, or remove it",
				o.displayPath(link), o.displayPath(strings.Join(made, ", ")), target)
		}
	}
	return nil
}

// Deployed returns the files that were left at DEPLOY_PKG as those of an archive. Invalid for a link that leads out of
// it: by the name of the folder, which is gone.
func Deployed(what string, made []landfall.File) ([]builder.ArchiveFile, error) {
	files := make([]builder.ArchiveFile, 0, len(made))
	for _, f := range made {
		files = append(files, builder.ArchiveFile{Path: strings.TrimPrefix(strings.TrimPrefix(f.Path, Folder), "/"), File: f})
	}
	deployed := tree.Of(builder.InArchive(files))
	for _, link := range deployed.Links() {
		if _, inside := deployed.Follow(link); !inside {
			f, _ := deployed.File(link)
			return nil, landfall.Errorf("pipeline.build", landfall.Invalid, "the build of %s made the symbolic link %s, which "+
				"leads out of DEPLOY_PKG, to %s, and back: name what it leads to from its own folder", what, link, f.Target)
		}
	}
	return files, nil
}
