// Command landfall-init is the init of what runs in the sandbox: process 1 there, in place of the whole landfall, which
// takes ten times as long to begin. The server starts it when it lies beside landfall; nobody else does.
package main

import (
	"os"

	"landfall.dev/landfall/sandbox/inner"
)

func main() {
	code, handled := inner.Main(os.Args[1:])
	if !handled {
		const usage = 2
		code = usage
	}
	os.Exit(code)
}
