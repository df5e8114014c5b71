package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"landfall.dev/landfall/sandbox/inner"
)

// parentArgument is the argument that makes this binary the parent of a command that is not confined.
const parentArgument = "sandbox-parent"

// Forward handles the arguments with which Run and Start start this binary: it becomes the init of a confined command,
// or the parent of one that is not, and returns the command's exit code. For other arguments handled is false. The
// program calls it before anything else.
func Forward(args []string) (code int, handled bool) {
	if len(args) == 0 || args[0] != parentArgument {
		return inner.Main(args)
	}
	code, err := adopt(args[1:])
	if err != nil {
		const failed = 125
		fmt.Fprintln(os.Stderr, "the command cannot be run:", err)
		return failed, true
	}
	return code, true
}

// findInit returns the program that becomes process 1: landfall-init, if one of this version is beside this binary,
// else this binary.
func findInit(ctx context.Context) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	small := filepath.Join(filepath.Dir(self), "landfall-init")
	err = exec.CommandContext(ctx, small, inner.Word).Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && inner.Works(failed.ExitCode()) {
		return small, nil
	}
	return self, nil
}

// proxyAddress returns the address of the proxy inside the sandbox.
func proxyAddress() string { return net.JoinHostPort(inner.ProxyHost, strconv.Itoa(inner.ProxyPort)) }
