package inner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// At is the path at which a confined process sees this program.
const At = "/run/landfall/init"

// VisiblePaths returns the host's files and folders that every confined process sees, read-only, if they exist. A link
// stays a link.
func VisiblePaths() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
		"/etc/alternatives", "/etc/ca-certificates", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
		"/etc/localtime", "/etc/nsswitch.conf", "/etc/pki/ca-trust/extracted", "/etc/pki/tls/certs", "/etc/ssl/certs",
		"/etc/ssl/openssl.cnf",
	}
}

// Host is the name of the host that a program sees.
const Host = "function"

// UserFiles returns small files that a user sees in addition.
func UserFiles(host string, user int) map[string]string {
	number := strconv.Itoa(user)
	return map[string]string{ // #nosec G101 -- nobody has a password there
		"/etc/passwd": "root:x:0:0:root:/:/bin/false\n" + entry(user),
		"/etc/group":  "root:x:0:\nnogroup:x:" + number + ":\n",
		"/etc/hosts":  "127.0.0.1 localhost " + host + "\n::1 localhost\n",
	}
}

// entry is the line of /etc/passwd for a user.
func entry(user int) string {
	number := strconv.Itoa(user)
	return "nobody:x:" + number + ":" + number + ":nobody:/tmp:/bin/sh\n"
}

// Folders returns the folders of a program's own small files.
func Folders() []string { return []string{"/secrets", "/configs"} }

// These lead to the folder of a program, at the path that Fission uses.
const (
	UserFolder = "/userfunc"
	UserLink   = "/userfunc/deployarchive"
)

// base is where the root is made: no file that is still needed is there.
const base = "/proc"

// graft is a file or folder of the host, detached with all mounts below it, which will be put into the root.
type graft struct {
	fd     int
	at     string
	folder bool
}

// material is what the root is made of.
type material struct {
	folders []string
	files   map[string]string
	links   map[string]string
	grafts  []graft
	devices []graft
	user    int
	root    bool // this process is the host's root, except for the thread that makes the sandbox
}

// gather separates this process's mounts from the host's, and detaches what belongs into every root.
func gather(user int) (*material, error) {
	// When the machine runs out of memory, the kernel ends this process and its descendants first.
	if err := write("/proc/self/oom_score_adj", "1000"); err != nil {
		return nil, err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("keep mounts apart: %w", err)
	}
	self, err := cut("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	self.at = At
	// It shows its own processes. It must be mounted while the host's is visible; otherwise a user who is not root may
	// not mount one.
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RDONLY
	if err := unix.Mount("proc", base, "proc", flags, ""); err != nil {
		return nil, fmt.Errorf("/proc: %w", err)
	}
	m := &material{
		folders: []string{"/run", "/run/landfall", "/tmp", "/dev"},
		links: map[string]string{
			"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1",
			"/dev/stderr": "/proc/self/fd/2",
			"/dev/shm":    "/tmp", // one size for both
		},
		user: user, root: os.Geteuid() == 0,
	}
	proc, err := cut("/proc")
	if err != nil {
		return nil, err
	}
	m.grafts = []graft{self, proc}
	for _, path := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		device, err := cut(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m.devices = append(m.devices, device)
	}
	return m, nil
}

// showMachine adds what a command sees of the machine, and a place for its folder.
func (m *material) showMachine() error {
	m.folders = append(m.folders, "/etc", "/etc/ssl", "/etc/pki", "/etc/pki/ca-trust", "/etc/pki/tls", "/"+Host,
		UserFolder)
	m.folders = append(m.folders, Folders()...)
	m.links[UserLink] = "/" + Host
	m.files = UserFiles(Host, m.user)
	for _, path := range VisiblePaths() {
		if err := m.show(path, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// showRoot adds the content of a folder of the host, except what every root has of its own, and the places of small
// files, if there are any.
func (m *material) showRoot(folder string, files bool) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	own := []string{"/proc", "/dev", "/tmp", "/run"}
	if files {
		own = append(own, Folders()...)
		m.folders = append(m.folders, Folders()...)
	}
	for _, e := range entries {
		if at := "/" + e.Name(); !slices.Contains(own, at) {
			if err := m.show(folder+at, at); err != nil {
				return err
			}
		}
	}
	return m.nameUser(folder)
}

// usersPath is where the list of users lies that takes the place of a root's own.
const usersPath = "/run/landfall/passwd"

// nameUser adds the user to a root's list of users, if it has one, because many programs ask for the name of their
// user.
func (m *material) nameUser(folder string) error {
	list, err := Users(folder, m.user)
	if list != "" {
		m.files = map[string]string{usersPath: list}
	}
	return err
}

// Users returns the list of users of a root, with this one added; empty when the root has no ordinary file for it.
func Users(folder string, user int) (string, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // nothing is written to it
	const list = "etc/passwd"
	etc, failed := root.Lstat("etc")
	file, err := root.Lstat(list)
	if failed != nil || err != nil || !etc.IsDir() || !file.Mode().IsRegular() {
		return "", nil // it has none to which one could be added
	}
	text, err := root.ReadFile(list)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(line, ":"); len(fields) > 2 && fields[2] == strconv.Itoa(user) {
			return "", nil
		}
	}
	return entry(user) + string(text), nil
}

// show adds a file or folder of the host. A link stays a link.
func (m *material) show(path, at string) error {
	if target, err := os.Readlink(path); err == nil {
		m.links[at] = target
		return nil
	}
	g, err := cut(path)
	if err == nil {
		g.at = at
		m.grafts = append(m.grafts, g)
	}
	return err
}

// readOnlyAttr returns the attributes of a mount that nobody can change, and where no file gives rights.
func readOnlyAttr() *unix.MountAttr {
	return &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
}

// makeRoot makes the root of the sandbox, and goes there: a folder in memory into which everything is grafted that the
// command may see, and which is then made read-only. The devices are put on top. The host's files are still visible.
func (m *material) makeRoot() error {
	const own = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("tmpfs", base, "tmpfs", own, "mode=0755,size=1m"); err != nil {
		return fmt.Errorf("a root in memory: %w", err)
	}
	if err := unix.Chdir(base); err != nil {
		return err
	}
	for _, path := range m.folders {
		if err := unix.Mkdir("."+path, folderMode); err != nil {
			return &os.PathError{Op: "mkdir", Path: path, Err: err}
		}
	}
	for path, target := range m.links {
		if err := unix.Symlink(target, "."+path); err != nil {
			return &os.PathError{Op: "symlink", Path: path, Err: err}
		}
	}
	for path, text := range m.files {
		if err := write("."+path, text); err != nil {
			return err
		}
	}
	for _, g := range slices.Concat(m.grafts, m.devices) {
		if err := g.prepare(); err != nil {
			return err
		}
	}
	return errors.Join(
		putAll(m.grafts),
		m.putNames(),
		unix.MountSetattr(unix.AT_FDCWD, ".", unix.AT_RECURSIVE, readOnlyAttr()),
		putAll(m.devices),
		unix.Sethostname([]byte(Host)),
	)
}

// putNames replaces a root's own list of users.
func (m *material) putNames() error {
	if _, ok := m.files[usersPath]; !ok {
		return nil
	}
	g, err := cut("." + usersPath)
	if err != nil {
		return err
	}
	g.at = "/etc/passwd"
	return putAll([]graft{g})
}

// enter finishes the root, and leaves the host's.
func (p *Plan) enter(m *material) error {
	if m.files == nil { // it has a root of its own
		if err := errors.Join(m.showRoot(p.Dir, len(p.Files) > 0), m.makeRoot()); err != nil {
			return err
		}
	} else {
		folder, err := cut(p.Dir)
		if err != nil {
			return err
		}
		folder.at = p.At
		if err := unix.MountSetattr(folder.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, readOnlyAttr()); err != nil {
			return err
		}
		if err := putAll([]graft{folder}); err != nil {
			return err
		}
	}
	temporary := "mode=1777,size=" + strconv.FormatInt(p.Temporary, 10)
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"/tmp", func() error { return unix.Mount("tmpfs", "./tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, temporary) }},
		{"small files", p.mountFiles},
		{"make it the root", func() error { return unix.PivotRoot(".", ".") }}, // the host's root is on top of it now
		{"leave the host's root", func() error { return unix.Unmount(".", unix.MNT_DETACH) }},
		{"go to the root", func() error { return unix.Chdir("/") }},
		{"turn on the loopback device", p.raiseLoopback},
		{"/dev/zero", p.unmapZeros},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// unmapZeros replaces the device of zeros by one that cannot be mapped, because mapped zeros are shared memory that
// nobody counts.
func (p *Plan) unmapZeros() error {
	if p.Charged {
		return nil
	}
	return unix.Mount("/dev/full", "/dev/zero", "", unix.MS_BIND, "")
}

// mountFiles puts the small files into folders in memory, in the root that is being made, and makes them read-only.
func (p *Plan) mountFiles() error {
	if len(p.Files) == 0 {
		return nil
	}
	for _, folder := range Folders() {
		options := "mode=0755,size=" + strconv.FormatInt(FilesSize(p.Files), 10)
		if err := unix.Mount("tmpfs", "."+folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
			return err
		}
	}
	if err := p.writeFiles("."); err != nil {
		return err
	}
	for _, folder := range Folders() {
		if err := unix.MountSetattr(unix.AT_FDCWD, "."+folder, 0, readOnlyAttr()); err != nil {
			return err
		}
	}
	return nil
}

// FilesSize returns how many bytes a folder in memory needs for these files.
func FilesSize(files map[string]string) int64 {
	const block = 4096
	size := int64(block)
	for _, content := range files {
		size += int64(len(content))/block*block + block
	}
	return size
}

// writeFiles writes the small files below a folder. Only the user of the command can read them.
func (p *Plan) writeFiles(below string) error {
	const ours = 0o400
	for name, content := range p.Files {
		file := below + name
		if err := os.MkdirAll(filepath.Dir(file), folderMode); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(content), ours); err != nil {
			return err
		}
	}
	return nil
}

const (
	folderMode = 0o755
	fileMode   = 0o644
)

// write writes a small file, and makes it if it does not exist.
func write(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, fileMode)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	_, err = unix.Write(fd, []byte(text))
	return errors.Join(err, unix.Close(fd))
}

// cut detaches one file or folder.
func cut(path string) (graft, error) {
	var info unix.Stat_t
	if err := unix.Stat(path, &info); err != nil {
		return graft{}, fmt.Errorf("%s: %w", path, err)
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return graft{}, fmt.Errorf("%s: %w", path, err)
	}
	return graft{fd: fd, at: path, folder: info.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

// prepare makes the place for the graft.
func (g graft) prepare() error {
	if g.folder {
		return unix.Mkdir("."+g.at, folderMode)
	}
	return unix.Mknod("."+g.at, unix.S_IFREG|fileMode, 0)
}

// putAll puts grafts into their places.
func putAll(all []graft) error {
	for _, g := range all {
		if err := unix.MoveMount(g.fd, "", unix.AT_FDCWD, "."+g.at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("%s: %w", g.at, err)
		}
	}
	return nil
}

// raiseLoopback turns on the loopback device of an empty network, for the proxy.
func (p *Plan) raiseLoopback() error {
	if !p.Network {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer os.NewFile(uintptr(fd), "socket").Close()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
