package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
)

// maxDepth is how deep folders may be nested: deeper than a commit may have. A walk holds one folder open for each
// level.
const maxDepth = 300

// disk returns the bytes that the command uses on the disk of its folder, and whether folders are nested too deeply to
// be counted.
func (r *run) disk(open *openFiles) (total int64, deep bool) {
	if !r.isProgram {
		total, deep = folderSize(r.command.Dir)
		total += open.unlinkedBytes()
	}
	if r.temp != "" {
		size, closed := folderSize(r.temp)
		total, deep = total+size, deep || closed
	}
	return total, deep
}

// blocks returns the disk space of a file. An empty file takes some, too.
func blocks(size int64) int64 {
	const block = 4096
	return max((size+block-1)/block, 1) * block
}

// folderSize returns the bytes of the files below dir that can be read. It does not follow links. It also reports
// whether folders are nested too deeply.
func folderSize(dir string) (total int64, deep bool) {
	deep = walk(dir, func(_ *os.Root, _ string, info fs.FileInfo) {
		if info.Mode().IsRegular() {
			total += blocks(info.Size())
		} else {
			total += blocks(0)
		}
	})
	return total, deep
}

// walk visits everything below dir, and dir itself as ".", each by its name in its folder. It leaves out what
// disappears meanwhile, what cannot be read, and what is deeper than maxDepth; for the last it reports true.
func walk(dir string, visit func(in *os.Root, name string, info fs.FileInfo)) (deep bool) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer func() { _ = root.Close() }() // nothing is written to it
	if info, err := root.Lstat("."); err == nil {
		visit(root, ".", info)
	}
	return walkIn(root, maxDepth, visit)
}

// walkIn visits the entries of a folder, and of the folders in it, down to a depth. It opens each folder from its
// parent; a path would be walked from the first folder each time.
func walkIn(folder *os.Root, most int, visit func(in *os.Root, name string, info fs.FileInfo)) (deep bool) {
	for _, name := range namesIn(folder) {
		info, err := folder.Lstat(name)
		if err != nil {
			continue
		}
		visit(folder, name, info)
		if !info.IsDir() {
			continue
		}
		if most == 0 {
			deep = true
			continue
		}
		if below, err := folder.OpenRoot(name); err == nil { // otherwise it cannot be read, and was visited before
			deep = walkIn(below, most-1, visit) || deep
			_ = below.Close()
		}
	}
	return deep
}

// namesIn returns the names in a folder, if it can be read.
func namesIn(folder *os.Root) []string {
	file, err := folder.Open(".")
	if err != nil {
		return nil
	}
	names, _ := file.Readdirnames(-1)
	_ = file.Close()
	return names
}

// cutDeep removes deeply nested folders, which cannot be removed by holding each parent open. It moves pieces out of
// the folder, from the top on.
func cutDeep(dir string) error {
	const piece = maxDepth / 2
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	var errs []error
	made := 0
	for todo := []string{"."}; len(todo) > 0; {
		top := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		folder, err := root.OpenRoot(top)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, path := range foldersAt(folder, piece, nil, "") {
			name := ".landfall-deep-" + strconv.Itoa(made)
			made++
			if err := root.Rename(top+"/"+path, name); err != nil {
				errs = append(errs, err)
				continue
			}
			todo = append(todo, name)
		}
		_ = folder.Close()
		if top != "." {
			errs = append(errs, root.RemoveAll(top))
		}
	}
	return errors.Join(errs...)
}

// foldersAt returns the paths of the folders at a depth, and makes their parents accessible to their owner.
func foldersAt(folder *os.Root, depth int, found []string, at string) []string {
	const open = 0o700
	for _, name := range namesIn(folder) {
		info, err := folder.Lstat(name)
		if err != nil || !info.IsDir() {
			continue
		}
		if depth == 0 {
			found = append(found, at+name)
			continue
		}
		if info.Mode().Perm()&open != open {
			_ = folder.Chmod(name, info.Mode().Perm()|open)
		}
		if below, err := folder.OpenRoot(name); err == nil {
			found = foldersAt(below, depth-1, found, at+name+"/")
			_ = below.Close()
		}
	}
	return found
}

// giveAway makes a user the owner of a folder and of everything in it.
func giveAway(dir string, user int) error {
	var failed error
	walk(dir, func(root *os.Root, path string, _ fs.FileInfo) {
		if err := root.Lchown(path, user, user); err != nil {
			failed = err
		}
	})
	return failed
}

// openFolders lets the owner read and remove folders that a command made inaccessible. It removes those that are nested
// too deeply.
func openFolders(dir string) error {
	const open = 0o700
	deep := walk(dir, func(in *os.Root, name string, info fs.FileInfo) {
		if info.IsDir() && info.Mode().Perm()&open != open {
			_ = in.Chmod(name, info.Mode().Perm()|open)
		}
	})
	if deep {
		return cutDeep(dir)
	}
	return nil
}
