package sandbox

import (
	"maps"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/sandbox/inner"
)

const (
	workDir = "/build"             // where a confined command sees Dir
	homeDir = "/function"          // where a confined program does
	initAt  = "/run/landfall/init" // where it sees the init
	nobody  = 65534                // the user that it is
	search  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"

	firstExtraFile = 3 // the number of the first of exec.Cmd's ExtraFiles in the new process
)

// confinement are bubblewrap's arguments for every command: namespaces of its own for everything, no controlling terminal, and
// of the machine's files only programs and what they need to start. The init keeps no capability but, from root, those to
// become another user. The host has the name; temporary is the size of /tmp.
func (s *Sandbox) confinement(name string, temporary int64) []string {
	args := []string{"--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL"}
	if os.Geteuid() == 0 {
		args = append(args, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
			"--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
	} else {
		args = append(args, "--unshare-all", "--uid", strconv.Itoa(nobody), "--gid", strconv.Itoa(nobody))
	}
	args = append(args, "--hostname", name, "--ro-bind", "/usr", "/usr")
	for _, path := range []string{"/etc", "/etc/pki", "/etc/pki/ca-trust", "/etc/pki/tls", "/etc/ssl", "/run", "/run/landfall"} {
		args = append(args, "--perms", "0755", "--dir", path)
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		path := "/" + name
		if target, err := os.Readlink(path); err == nil {
			args = append(args, "--symlink", target, path)
		} else if _, err := os.Stat(path); err == nil {
			args = append(args, "--ro-bind", path, path)
		}
	}
	for _, path := range []string{
		"/etc/alternatives", "/etc/ca-certificates", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
		"/etc/nsswitch.conf", "/etc/pki/ca-trust/extracted", "/etc/pki/tls/certs", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
	} {
		args = append(args, "--ro-bind-try", path, path)
	}
	args = append(args, "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
	for path, size := range map[string]int64{"/tmp": temporary, "/dev/shm": temporary / 2} {
		if s.sized {
			args = append(args, "--size", strconv.FormatInt(size, 10))
		}
		args = append(args, "--perms", "1777", "--tmpfs", path)
	}
	return append(args, "--remount-ro", "/dev")
}

// prepare makes the command line, and what it needs.
func (r *run) prepare() error {
	// Whoever started the server may have left files open in it, which would go along.
	if err := unix.CloseRange(firstExtraFile, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	if r.sandbox.mode == Off {
		return r.prepareUnconfined()
	}
	filter, err := filterBytes()
	if err != nil {
		return err
	}
	bind, temporary, host := "--bind", r.command.Limits.Memory/2, strings.TrimPrefix(r.at, "/")
	if r.stays {
		bind, temporary = "--ro-bind", r.command.Limits.Disk
	} else if os.Geteuid() == 0 {
		if err := giveAway(r.command.Dir, nobody); err != nil {
			return err
		}
	}
	r.args = append([]string{r.sandbox.bwrap}, r.sandbox.confinement(host, temporary)...)
	r.args = append(r.args, "--ro-bind", r.sandbox.init, initAt, bind, r.command.Dir, r.at)
	for _, data := range []struct{ path, content string }{
		{"", string(filter)},
		{"/etc/passwd", "root:x:0:0:root:/:/bin/false\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n"},
		{"/etc/group", "root:x:0:\nnogroup:x:65534:\n"},
		{"/etc/hosts", "127.0.0.1 localhost " + host + "\n::1 localhost\n"},
	} {
		file, err := dataFile([]byte(data.content))
		if err != nil {
			return err
		}
		if data.path == "" {
			r.args = append(r.args, "--seccomp", strconv.Itoa(r.attach(file)))
			continue
		}
		r.args = append(r.args, "--perms", "0644", "--file", strconv.Itoa(r.attach(file)), data.path)
	}
	return r.prepareInit()
}

// attach lets the command find a file open, and returns the number that it has there.
func (r *run) attach(file *os.File) int {
	r.files = append(r.files, file)
	return firstExtraFile + len(r.files) - 1
}

// prepareInit adds the init and its arguments. It reads the command's environment from a file: it shall not be moved by that,
// and command lines are open to every process of the machine.
func (r *run) prepareInit() error {
	env := map[string]string{"PATH": search, "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
	if r.command.Proxy != nil {
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			env[name] = "http://" + proxyAddress()
		}
	}
	maps.Copy(env, r.command.Env)
	variables, err := environmentFile(env)
	if err != nil {
		return err
	}
	environment, control := r.attach(variables), 0
	if r.command.Proxy != nil {
		server, file, err := newProxyServer(r.command.Proxy)
		if err != nil {
			return err
		}
		r.proxy, control = server, r.attach(file)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	r.alive = ours
	alive, access := r.attach(theirs), inner.Writable
	if r.stays {
		access = "read-only"
	}
	r.args = append(r.args, "--remount-ro", "/", "--", initAt, inner.Word, strconv.Itoa(environment), r.at, access, strconv.Itoa(control), strconv.Itoa(alive))
	r.args = append(r.args, r.argv...)
	return nil
}

// prepareUnconfined makes the command line without a sandbox: a clean environment is all that is left, and a parent that ends
// what the command leaves.
func (r *run) prepareUnconfined() error {
	temp, err := os.MkdirTemp("", ownName()+"-")
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
	variables, err := environmentFile(env)
	if err != nil {
		return err
	}
	r.args = append([]string{self, parentArgument, strconv.Itoa(r.attach(variables))}, r.argv...)
	return nil
}
