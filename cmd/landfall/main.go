// Command landfall makes an immutable, addressable release of every push.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"landfall.dev/landfall/sandbox"
)

func main() {
	if code, handled := sandbox.Forward(os.Args[1:]); handled {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
