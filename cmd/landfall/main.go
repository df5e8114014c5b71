// Command landfall makes an immutable, addressable release of every push.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/google/uuid"

	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/runtime/wasm"
	"landfall.dev/landfall/sandbox"
)

func main() {
	if code, handled := forward(os.Args[1:]); handled {
		os.Exit(code)
	}
	uuid.EnableRandPool() // no name that is made of it is a secret, and each call of a function takes two
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	call := &cli.Call{
		Program: commandLine(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ(),
	}
	code := call.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// forward is what this binary is when the server starts it: the init of a sandbox, or a compiler.
func forward(args []string) (code int, handled bool) {
	if code, handled = sandbox.Forward(args); !handled {
		code, handled = wasm.Forward(args)
	}
	return code, handled
}
