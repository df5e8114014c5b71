package inner

import (
	"errors"
	"os"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// These versions of Landlock's interface add something: moving files between folders, truncating files only where they
// may be written, TCP, devices, and sockets and signals that lead outside.
const (
	landlockFiles    = 2
	landlockTruncate = 3
	landlockTCP      = 4
	landlockDevices  = 5
	landlockScopes   = 6
)

// HasLandlock reports whether this kernel has Landlock.
func HasLandlock() bool {
	version, err := ll.LandlockGetABIVersion()
	return err == nil && version >= landlockFiles
}

// Lacks lists which parts of Landlock this kernel lacks, for people.
func Lacks() []string {
	version, err := ll.LandlockGetABIVersion()
	switch {
	case err != nil || version < landlockFiles:
		return []string{"Landlock: the sandbox's folders and empty network are all that holds a process"}
	case version < landlockTCP:
		return []string{"Landlock for TCP: the empty network is all that holds a process"}
	}
	return nil
}

// These are the rights that Landlock can give for files and folders.
const (
	readFolders = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	writeFiles  = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate |
		ll.AccessFSIoctlDev
	everything = ll.AccessFSIoctlDev<<1 - 1
)

// handledAccess returns the rights that are checked with a version of the interface.
func handledAccess(version int) uint64 {
	switch {
	case version < landlockTruncate:
		return ll.AccessFSTruncate - 1
	case version < landlockDevices:
		return ll.AccessFSIoctlDev - 1
	}
	return everything
}

// restrict is a second wall behind the folders and the network of the sandbox, as far as the kernel has it: nothing
// outside this root can be opened in any way, only temporary folders and a build's own can be written to, and a program
// has no TCP except to the proxy, if there is one. It applies to this thread and everything that it starts.
func restrict(dir string, writable, network bool) error {
	version, err := ll.LandlockGetABIVersion()
	if err != nil || version < landlockFiles {
		return nil // Lacks reports this
	}
	rules := ll.RulesetAttr{HandledAccessFS: handledAccess(version)}
	if !writable && version >= landlockTCP {
		rules.HandledAccessNet = ll.AccessNetBindTCP | ll.AccessNetConnectTCP
	}
	if !writable && version >= landlockScopes {
		rules.Scoped = ll.ScopeAbstractUnixSocket | ll.ScopeSignal
	}
	set, err := ll.LandlockCreateRuleset(&rules, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(set) }() // nothing is written to it
	allow := func(access uint64, paths ...string) error {
		for _, path := range paths {
			fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
			if errors.Is(err, os.ErrNotExist) && path != "/" {
				continue
			}
			if err != nil {
				return err
			}
			err = ll.LandlockAddPathBeneathRule(set,
				&ll.PathBeneathAttr{ParentFd: fd, AllowedAccess: access & rules.HandledAccessFS}, 0)
			if err := errors.Join(err, unix.Close(fd)); err != nil {
				return err
			}
		}
		return nil
	}
	if network && rules.HandledAccessNet != 0 {
		proxy := ll.NetPortAttr{AllowedAccess: ll.AccessNetConnectTCP, Port: ProxyPort}
		if err := ll.LandlockAddNetPortRule(set, &proxy, 0); err != nil {
			return err
		}
	}
	folders := []string{"/tmp", "/dev/shm", "/dev/pts"}
	if writable {
		folders = append(folders, dir)
	}
	return errors.Join(
		allow(readFolders, "/"),
		allow(everything, folders...),
		allow(writeFiles, "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		ll.LandlockRestrictSelf(set, 0),
	)
}
