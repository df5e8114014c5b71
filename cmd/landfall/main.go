// Command landfall makes an immutable, addressable release of every push.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/google/uuid"

	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/server"
)

// version is what make build calls the commit that it builds.
var version string

func main() {
	if code, handled := server.Forward(os.Args[1:]); handled {
		os.Exit(code)
	}
	uuid.EnableRandPool() // no name that is made of it is a secret, and each call of a function takes two
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	call := &cli.Call{
		Program: server.CommandLine(version), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		Environ: os.Environ(),
	}
	code := call.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
