// Package sandbox runs processes that are not trusted: in namespaces of their own, on a read-only root, within limits,
// and with no network but a proxy of ours.
//
// It stands on bubblewrap. Of the machine a process sees the programs below /usr, one folder of its own to write in, and
// nothing else: no home, no /var, no data folder, no other process, no socket of the host. It is a user of its own where
// the server is root (else it could change the modes of the host's devices, which are root's), and the server's own user,
// in a user namespace, where the server is not. It shares the kernel, of which it gets the system calls that are on a list.
//
//	server ── bwrap ──│── init (landfall-init or our own binary, process 1) ── /bin/sh -c COMMAND
//	                  │ namespaces
//
// The init (room inner) becomes the user, reads from a pipe what to run, opens the proxy's listener in the empty network and sends
// it to the server, restricts itself by Landlock where the kernel has it, starts the command, reaps, and ends with it. All that the
// command started ends with the init, because it is process 1, and bwrap ends after that: so when bwrap has ended, nothing is left.
// bwrap ends with the server, and so does the init, which holds the pipe to it.
//
// A function's init is started without bubblewrap where the kernel lets the server make namespaces: then it makes the root, too, and
// puts itself under the filter. Some of those wait in reserve for the next function.
//
// Run runs a command to its end. Start starts a program that stays, which is a function: it has pipes instead of a log, its
// folder is read-only, and its /tmp has a size. Control groups hold its limits alone, so that it costs nothing while it waits;
// the watch looks after it only where they cannot be made. Whoever speaks to it says how long it may take.
//
// Limits are held by the kernel's control groups where the server may make them, and by a watch that looks every moment. The
// watch alone is late by that moment.
package sandbox
