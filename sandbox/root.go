package sandbox

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"

	"landfall.dev/landfall"
)

// refusedRoot returns the error when no program can have a root of its own.
func (s *Sandbox) refusedRoot(op landfall.Op, root string) error {
	switch {
	case root == "":
		return nil
	case s.mode == Off:
		return landfall.Errorf(op, landfall.Forbidden, "functions that are images are refused without a sandbox")
	case !s.direct && !isStatic(s.init):
		return landfall.Errorf(op, landfall.Unavailable,
			"functions that are images cannot be run: install landfall-init beside landfall, or a landfall that was built "+
				"without cgo")
	}
	return nil
}

// isStatic reports whether a program needs no libraries.
func isStatic(program string) bool {
	file, err := elf.Open(program)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // nothing was written
	return !slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// rootBinds returns bubblewrap's arguments for a root that is a folder of the host: each entry is bound by itself, so
// there is a place for what every command has in addition.
func rootBinds(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	args := []string{"--perms", "0755", "--dir", "/run", "--perms", "0755", "--dir", "/run/landfall"}
	for _, e := range entries {
		from, at := filepath.Join(root, e.Name()), "/"+e.Name()
		switch {
		case slices.Contains([]string{"/proc", "/dev", "/tmp", "/run"}, at):
		case e.Type() == os.ModeSymlink:
			target, err := os.Readlink(from)
			if err != nil {
				return nil, err
			}
			args = append(args, "--symlink", target, at)
		default:
			args = append(args, "--ro-bind", from, at)
		}
	}
	return args, nil
}
