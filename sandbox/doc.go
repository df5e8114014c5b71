// Package sandbox runs untrusted processes: in new namespaces, on a read-only root, within limits, and with no network
// except through a proxy of ours.
//
// It uses bubblewrap. Of the machine a process sees the programs below /usr, one folder of its own to write in, and
// nothing else: no home, no /var, no data folder, no other process, no socket of the host. When the server is root, the
// process has a user of its own (as root it could change the modes of the host's devices). Otherwise it has the
// server's own user, in a user namespace. It shares the kernel, and may only make the system calls on a list.
//
//	server ── bwrap ──│── init (landfall-init or our own binary, process 1) ── /bin/sh -c COMMAND
//	                  │ namespaces
//
// The init (room inner) becomes the user, reads from a pipe what to run, opens the proxy's listener in the empty
// network and sends it to the server, restricts itself by Landlock if the kernel has it, starts the command, reaps
// processes, and ends with the command. All processes of the command end with the init, because it is process 1, and
// bwrap ends after that: so when bwrap has ended, nothing is left. bwrap ends with the server, and so does the init,
// which holds the pipe to the server.
//
// A function's init is started without bubblewrap if the kernel lets the server make namespaces: then the init makes
// the root, too, and installs the filter itself. Some of these inits wait in reserve for the next function.
//
// Run runs a command to its end. Start starts a program that stays, which is a function: it has pipes instead of a log,
// its folder is read-only, and its /tmp has a size. Its limits are enforced by control groups alone, so that it costs
// nothing while it waits; the watch looks after it only where they cannot be made. The caller that talks to it decides
// how long it may take.
//
// Limits are enforced by the kernel's control groups where the server may make them, and by a watch that looks at short
// intervals. The watch alone may be late by one interval.
package sandbox
