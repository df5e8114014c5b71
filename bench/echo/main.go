// Command echo hands back what it gets: on its standard output, or as a server for HTTP, which ends with its standard input.
package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
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
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
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
