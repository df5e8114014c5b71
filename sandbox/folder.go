package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// disk returns the bytes that the command holds on the disk of its folder.
func (r *run) disk(processes []process) int64 {
	var total int64
	if !r.stays {
		total = folderSize(r.command.Dir) + unlinkedSize(r.command.Dir, processes)
	}
	if r.temp != "" {
		total += folderSize(r.temp)
	}
	return total
}

// blocks returns what a file of a size takes. Also an empty one takes something.
func blocks(size int64) int64 {
	const block = 4096
	return max((size+block-1)/block, 1) * block
}

// folderSize returns the bytes of what lies below dir, as far as it can be read; never of what links there lead to.
func folderSize(dir string) int64 {
	var total int64
	walk(dir, func(_ *os.Root, _ string, info fs.FileInfo) {
		if info.Mode().IsRegular() {
			total += blocks(info.Size())
		} else {
			total += blocks(0)
		}
	})
	return total
}

// walk visits what lies below dir, and dir itself as ".". What vanishes meanwhile, or cannot be read, is left out.
func walk(dir string, visit func(root *os.Root, path string, info fs.FileInfo)) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	_ = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil { // else it is a folder that cannot be read, and was visited before
			if info, err := entry.Info(); err == nil {
				visit(root, path, info)
			}
		}
		return nil
	})
	_ = root.Close()
}

// unlinkedSize returns the bytes of files that have no name any more, on the disk of dir, but are open.
func unlinkedSize(dir string, processes []process) int64 {
	var here syscall.Stat_t
	if syscall.Stat(dir, &here) != nil {
		return 0
	}
	sizes := map[uint64]int64{}
	for _, p := range processes {
		folder := filepath.Join("/proc", strconv.Itoa(p.pid), "fd")
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue // it has ended
		}
		for _, entry := range entries {
			var file syscall.Stat_t
			if syscall.Stat(filepath.Join(folder, entry.Name()), &file) == nil && file.Nlink == 0 && file.Dev == here.Dev {
				sizes[file.Ino] = blocks(file.Size)
			}
		}
	}
	var total int64
	for _, size := range sizes {
		total += size
	}
	return total
}

// giveAway makes a user the owner of a folder and of all that lies in it.
func giveAway(dir string, user int) error {
	var failed error
	walk(dir, func(root *os.Root, path string, _ fs.FileInfo) {
		if err := root.Lchown(path, user, user); err != nil {
			failed = err
		}
	})
	return failed
}

// openFolders lets their owner read and remove what a command closed to it.
func openFolders(dir string) {
	const open = 0o700
	walk(dir, func(root *os.Root, path string, info fs.FileInfo) {
		if info.IsDir() && info.Mode().Perm()&open != open {
			_ = root.Chmod(path, info.Mode().Perm()|open)
		}
	})
}
