package builder

import (
	"context"
	"io"
	"strings"

	"landfall.dev/landfall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// These are the longest chain of links (as in Linux), and the longest target.
const (
	maxLinks  = 40
	maxTarget = 4096
)

// linkError says why a symbolic link cannot be used.
type linkError struct{ reason string }

func (e *linkError) Error() string { return e.reason }

// follow returns the file to which the link at the path leads, through any folders and links of the same tree, or a
// linkError.
func (w *walk) follow(ctx context.Context, at string, link object.TreeEntry) (object.TreeEntry, error) {
	none := object.TreeEntry{}
	parts := strings.Split(at, "/")
	way := []plumbing.Hash{w.root} // the folders from the root to the current one
	todo := parts[:len(parts)-1]
	for links := 0; ; {
		for len(todo) > 0 && todo[0] != ".." && (todo[0] == "" || todo[0] == ".") {
			todo = todo[1:]
		}
		if len(todo) == 0 {
			if links > 0 {
				return none, &linkError{"it leads to a folder"}
			}
			links++
			var err error
			if todo, err = w.target(ctx, link); err != nil {
				return none, err
			}
			continue
		}
		part := todo[0]
		todo = todo[1:]
		if part == ".." {
			if len(way) == 1 {
				return none, &linkError{"it leads out of the repository"}
			}
			way = way[:len(way)-1]
			continue
		}
		e, ok, err := w.entry(ctx, way[len(way)-1], part)
		switch {
		case err != nil:
			return none, err
		case !ok:
			return none, &linkError{"it leads to nothing"}
		case e.Mode == filemode.Dir:
			way = append(way, e.Hash)
		case e.Mode == filemode.Symlink:
			links++
			if links > maxLinks {
				return none, &linkError{"it leads to itself, or through too many links"}
			}
			first, err := w.target(ctx, e)
			if err != nil {
				return none, err
			}
			todo = append(first, todo...)
		case e.Mode == filemode.Submodule:
			return none, &linkError{"it leads into a submodule"}
		case len(todo) > 0:
			return none, &linkError{"it leads to nothing"}
		default:
			return e, nil
		}
	}
}

// target returns the parts of a link's target.
func (w *walk) target(ctx context.Context, link object.TreeEntry) ([]string, error) {
	r, size, err := w.objects.Blob(ctx, link.Hash)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size > maxTarget {
		return nil, &linkError{"its target is no path"}
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	target := string(text)
	switch {
	case target == "" || strings.Contains(target, "\x00"):
		return nil, &linkError{"its target is no path"}
	case strings.HasPrefix(target, "/"):
		return nil, &linkError{"its target is absolute"}
	}
	return strings.Split(target, "/"), nil
}

// Check returns an Invalid error when an entry that Files listed cannot be used: a symbolic link that leads to no file
// of the repository, or a submodule. Whoever selects a file calls it; Read refuses the same.
func Check(file landfall.File) error {
	const op = landfall.Op("builder.check")
	var message string
	switch file.Mode {
	case landfall.Regular, landfall.Executable:
		return nil
	case landfall.Symlink:
		if file.IsBuiltLink() {
			return nil
		}
		message = "is a symbolic link that leads to no file of the repository (absolute, out of it, to a folder, to " +
			"nothing or to " +
			"itself): commit the file, or exclude the link"
	case landfall.Submodule:
		message = "is a submodule that is not fetched (" + file.Target + "): commit its files, or exclude it"
	}
	return &landfall.Error{Op: op, Kind: landfall.Invalid, Message: quote(file.Path) + " " + message}
}
