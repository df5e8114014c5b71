// Command testservers runs a command, such as go test, with the servers that all its test programs share: PostgreSQL
// and S3. They end with it. A test program that is run without them starts its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"landfall.dev/landfall/assets/s3/s3test"
	"landfall.dev/landfall/store/storetest"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testservers:", err)
	}
	os.Exit(code)
}

// run runs the command, and returns its exit code.
func run(args []string) (code int, err error) {
	if len(args) == 0 {
		return 2, errors.New("type a command behind it, such as: testservers go test ./store")
	}
	endDatabases, err := storetest.Share()
	if err != nil {
		return 1, err
	}
	defer endDatabases()
	endBuckets, err := s3test.Share()
	if err != nil {
		return 1, err
	}
	defer endBuckets()
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...) // #nosec G204 -- what somebody typed
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}
