// Command echo hands back what it gets: on its standard output, or as a server for HTTP, which ends with its standard
// input.
package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	listen := flag.String("listen", "", "address; empty: from standard input to standard output")
	flag.Parse()
	if err := echo(*listen); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func echo(listen string) error {
	if listen == "" {
		return pipe()
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // first: net/http reads no more when the answer has begun
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = w.Write(body) // the client may be gone
	})
	return (&http.Server{Addr: listen, Handler: handler, ReadHeaderTimeout: time.Minute}).ListenAndServe()
}

// pipe copies standard input to standard output. It waits as a Go program waits for the network, and hides its system
// calls from Go's scheduler, which would wake a thread to watch each: none of them is to be watched, as nothing else
// runs here.
func pipe() error {
	if err := syscall.SetNonblock(syscall.Stdin, true); err != nil {
		return err
	}
	in := os.NewFile(uintptr(syscall.Stdin), "stdin")
	conn, err := in.SyscallConn()
	if err != nil {
		return err
	}
	buffer := make([]byte, 32<<10)
	call := func(number, fd uintptr, p []byte) (int, syscall.Errno) {
		for {
			//nolint:gosec // G103: Go keeps what is converted in a call where it is until that ends; p has a byte or more
			n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
			if errno != syscall.EINTR {
				return int(n), errno
			}
		}
	}
	for {
		var n int
		var errno syscall.Errno
		if err := conn.Read(func(fd uintptr) bool {
			n, errno = call(syscall.SYS_READ, fd, buffer)
			return errno != syscall.EAGAIN
		}); err != nil {
			return err
		}
		if errno != 0 {
			return errno
		}
		if n == 0 {
			return nil
		}
		for rest := buffer[:n]; len(rest) > 0; rest = rest[n:] {
			if n, errno = call(syscall.SYS_WRITE, uintptr(syscall.Stdout), rest); errno != 0 {
				return errno
			}
		}
	}
}
