package sandbox

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/sandbox/inner"
)

const (
	workDir = "/build"    // the path at which a confined command sees Dir
	homeDir = "/function" // the path at which a confined program sees it
	search  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"

	firstExtraFile = 3 // the number of the first of exec.Cmd's ExtraFiles in the new process
)

// confinement returns bubblewrap's arguments for every command: new namespaces of all kinds, no controlling terminal,
// and of the machine's files only programs and what they need to start. The init keeps no capabilities except, when
// started by root, those to become another user and to remove capabilities from its descendants. name is the name of
// the host; temporary is the size of /tmp; charged says that a control group counts all memory. A root replaces the
// machine's files.
func (s *Sandbox) confinement(root, name string, temporary int64, charged bool) ([]string, error) {
	args := []string{"--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL"}
	if os.Geteuid() == 0 {
		args = append(args, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
			"--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP")
	} else {
		args = append(args, "--unshare-all", "--uid", strconv.Itoa(inner.Nobody), "--gid", strconv.Itoa(inner.Nobody))
	}
	shown, err := machine(), error(nil)
	if root != "" {
		shown, err = rootBinds(root)
	}
	args = append(append(args, "--hostname", name), shown...)
	args = append(args, "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
	if !charged { // mapped zeros are shared memory that nobody counts
		args = append(args, "--dev-bind", "/dev/full", "/dev/zero")
	}
	for path, size := range map[string]int64{"/tmp": temporary, "/dev/shm": temporary / 2} {
		if s.sized {
			args = append(args, "--size", strconv.FormatInt(size, 10))
		}
		args = append(args, "--perms", "1777", "--tmpfs", path)
	}
	return append(args, "--remount-ro", "/dev"), err
}

// machine returns the arguments for what a command sees of this machine.
func machine() []string {
	var args []string
	for _, path := range []string{"/etc", "/etc/pki", "/etc/pki/ca-trust", "/etc/pki/tls", "/etc/ssl", "/run",
		"/run/landfall"} {
		args = append(args, "--perms", "0755", "--dir", path)
	}
	for _, path := range inner.VisiblePaths() {
		if target, err := os.Readlink(path); err == nil {
			args = append(args, "--symlink", target, path)
		} else {
			args = append(args, "--ro-bind-try", path, path)
		}
	}
	return args
}

// prepare makes the command line and everything that it needs.
func (r *run) prepare() error {
	// The process that started the server may have left files open in it, which the command would inherit.
	if err := unix.CloseRange(firstExtraFile, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	if r.sandbox.mode == Off {
		return r.prepareUnconfined()
	}
	bind, temporary := "--bind", r.command.Limits.Memory/2
	if r.isProgram {
		bind, temporary = "--ro-bind", r.command.Limits.Disk
	} else if os.Geteuid() == 0 {
		if err := giveAway(r.command.Dir, r.user); err != nil {
			return err
		}
	}
	confinement, err := r.sandbox.confinement(r.root, r.host(), temporary, r.charged())
	if err != nil {
		return err
	}
	r.args = append([]string{r.sandbox.bwrap}, confinement...)
	r.args = append(r.args, "--ro-bind", r.sandbox.init, inner.At)
	if err := r.prepareFolders(); err != nil {
		return err
	}
	way, written := "--file", map[string]string{}
	if r.root == "" {
		r.args = append(r.args, bind, r.command.Dir, r.at)
		written = inner.UserFiles(r.host(), r.user)
	} else { // it has its own files, or none
		list, err := inner.Users(r.root, r.user)
		if err != nil {
			return err
		}
		if list != "" {
			way, written["/etc/passwd"] = "--ro-bind-data", list
		}
	}
	for path, content := range written {
		file, err := dataFile([]byte(content))
		if err != nil {
			return err
		}
		r.args = append(r.args, "--perms", "0644", way, strconv.Itoa(r.attach(file)), path)
	}
	r.args = append(r.args, "--remount-ro", "/", "--")
	return errors.Join(r.makePlan(), r.prepareInit(inner.At))
}

// charged reports whether a control group counts all memory.
func (r *run) charged() bool { return r.group.memory != "" }

// hasOwnUser reports whether no other command has the command's user.
func (r *run) hasOwnUser() bool { return r.user != inner.Nobody }

// prepareFolders adds the folders of small files, and the link to a program's own folder.
func (r *run) prepareFolders() error {
	for _, folder := range inner.Folders() {
		switch {
		case len(r.command.Files) > 0:
			if r.sandbox.sized {
				r.args = append(r.args, "--size", strconv.FormatInt(inner.FilesSize(r.command.Files), 10))
			}
			r.args = append(r.args, "--perms", "1777", "--tmpfs", folder) // the init fills it, and Landlock makes it read-only
		case r.isProgram && r.root == "":
			r.args = append(r.args, "--perms", "0755", "--dir", folder)
		}
	}
	if r.isProgram && r.root == "" {
		r.args = append(r.args, "--perms", "0755", "--dir", inner.UserFolder, "--symlink", r.at, inner.UserLink)
	}
	if len(r.command.Files) > 0 && !r.sandbox.walled {
		return r.fillFolders()
	}
	return nil
}

// fillFolders lets bubblewrap fill the folders of small files and make them read-only. If the init could fill them, the
// command could change them, too. Their names are on no command line.
func (r *run) fillFolders() error {
	mode := "0400"
	if os.Geteuid() == 0 { // bubblewrap is another user than the command
		mode = "0444"
	}
	var args []string
	for path, content := range r.command.Files {
		file, err := dataFile([]byte(content))
		if err != nil {
			return err
		}
		args = append(args, "--perms", mode, "--file", strconv.Itoa(r.attach(file)), path)
	}
	for _, folder := range inner.Folders() {
		args = append(args, "--remount-ro", folder)
	}
	file, err := dataFile([]byte(strings.Join(args, "\x00") + "\x00"))
	if err != nil {
		return err
	}
	r.args = append(r.args, "--args", strconv.Itoa(r.attach(file)))
	return nil
}

// host returns the name of the host that the command sees.
func (r *run) host() string {
	if r.root != "" {
		return strings.TrimPrefix(homeDir, "/")
	}
	return strings.TrimPrefix(r.at, "/")
}

// network returns which sockets the command may have.
func (r *run) network() inner.Network {
	switch {
	case !r.isProgram:
		return inner.Itself
	case r.command.Proxy != nil:
		return inner.Proxied
	}
	return inner.Nothing
}

// maxFileSize is the size of the largest file that the command may write. It is above the limit, so a file that reaches
// the limit is noticed.
func (r *run) maxFileSize() int64 {
	const block = 512
	return (r.command.Limits.Disk/block + 1) * block
}

// attach passes an open file to the command, and returns its number there.
func (r *run) attach(file *os.File) int {
	r.files = append(r.files, file)
	return firstExtraFile + len(r.files) - 1
}

// prepareInit adds the init, by its path, and its connection to the server. Command lines can be read by every process
// of the machine, so a pipe tells the init what to do.
func (r *run) prepareInit(program string) error {
	control := 0
	if r.command.Proxy != nil {
		connections := commandConnections
		if r.isProgram {
			connections = programConnections
		}
		server, file, err := newProxyServer(r.command.Proxy, connections)
		if err != nil {
			return err
		}
		r.proxy, control = server, r.attach(file)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	r.server = ours
	r.args = append(r.args, program, inner.Word, cmp.Or(r.initWord, "inside"), strconv.Itoa(r.attach(theirs)),
		strconv.Itoa(control),
		strconv.Itoa(r.user))
	return nil
}

// makePlan makes the plan for the init.
func (r *run) makePlan() error {
	env := map[string]string{"PATH": search, "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
	if r.command.Proxy != nil {
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			env[name] = "http://" + proxyAddress()
		}
		env["NODE_USE_ENV_PROXY"] = "1" // Node.js uses the other variables only with this one
	}
	maps.Copy(env, r.command.Env)
	variables, err := variables(env)
	if err != nil {
		return err
	}
	filter, err := r.sandbox.filters[inner.Walls{Network: r.network(), Charged: r.charged(), Own: r.hasOwnUser()}]()
	if err != nil {
		return err
	}
	r.plan = &inner.Plan{
		At: r.at, File: r.maxFileSize(), Writable: !r.isProgram, Network: r.command.Proxy != nil, Charged: r.charged(),
		Filter: string(filter),
		Env:    variables, Args: r.argv,
	}
	if r.initWord != "" || r.sandbox.walled { // otherwise they exist
		r.plan.Files = r.command.Files
	}
	// a process over its limit is noticed and ended, but this stops it earlier: a shell that cannot fork ends by itself
	if r.hasOwnUser() {
		const share, more = 2, 1024
		r.plan.Processes = share*r.command.Limits.Processes + more
	}
	if r.initWord == "" {
		return nil
	}
	dir, err := filepath.Abs(r.command.Dir)
	r.plan.Dir, r.plan.Temporary = dir, r.command.Limits.Disk
	return err
}

// prepareUnconfined makes the command line without a sandbox: there is only a clean environment, and a parent that ends
// what the command leaves.
func (r *run) prepareUnconfined() error {
	temp, err := os.MkdirTemp("", instancePrefix()+"-")
	if err != nil {
		return err
	}
	r.temp = temp
	env := map[string]string{"PATH": search, "HOME": temp, "TMPDIR": temp, "LANG": "C.UTF-8"}
	maps.Copy(env, r.command.Env)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	variables, err := variables(env)
	if err != nil {
		return err
	}
	file, err := dataFile([]byte(strings.Join(variables, "\x00")))
	if err != nil {
		return err
	}
	r.args = append([]string{self, parentArgument, strconv.Itoa(r.attach(file))}, r.argv...)
	return nil
}
