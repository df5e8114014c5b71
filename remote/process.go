package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall"
)

// Limits of a git process that reads what a client sent.
const (
	maxMemory = 2 << 30 // bytes of address space
	maxCPU    = 600     // seconds
)

// FindGit returns the path of the git on this machine, or an Unavailable error that says what to install.
func FindGit() (string, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return "", landfall.Wrapf("remote.FindGit", landfall.Unavailable, err,
			"git was not found, so there is no built-in remote: install it (Debian: apt-get install git); webhooks work "+
				"without it")
	}
	return path, nil
}

// git returns a git process that sees no configuration but ours and nothing of our environment. Arguments are fixed
// words, or values that were parsed. When ctx ends, it ends with all its children.
func (r *Repositories) git(ctx context.Context, args ...string) *exec.Cmd {
	settings := []string{
		"safe.directory=*",
		"core.hooksPath=" + r.hooks(),
		"core.logAllRefUpdates=false",
		"core.fsync=committed,reference", // what was accepted survives a power cut
		"core.fsyncMethod=batch",
		"core.bigFileThreshold=16m", // larger files are streamed, never held in memory
		"core.packedGitLimit=256m",
		"core.packedGitWindowSize=32m",
		"pack.threads=2",
		"pack.windowMemory=64m",
		"receive.autogc=false",
		"receive.denyDeleteCurrent=ignore",
		"transfer.fsckObjects=true",
		// a worker elsewhere fetches a commit that its branch has left; newer protocols allow it anyway
		"uploadpack.allowAnySHA1InWant=true",
		"transfer.hideRefs=" + strings.TrimSuffix(hiddenPrefix, "/"),
	}
	line := make([]string, 0, 2*len(settings)+len(args))
	for _, setting := range settings {
		line = append(line, "-c", setting)
	}
	cmd := exec.CommandContext(ctx, r.program, append(line, args...)...)
	cmd.Dir = r.root
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.root, "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// output runs cmd and returns what it wrote.
func output(ctx context.Context, op landfall.Op, cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	var stderr complaint
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, failed(ctx, op, err, stderr.String())
	}
	return out.Bytes(), nil
}

// failed returns the error of a git process that ended badly.
func failed(ctx context.Context, op landfall.Op, err error, stderr string) error {
	kind := landfall.Internal
	if ctx.Err() != nil {
		kind, err = landfall.Canceled, errors.Join(ctx.Err(), err)
	}
	return &landfall.Error{Op: op, Kind: kind, Err: fmt.Errorf("git: %w: %s", err, strings.TrimSpace(stderr))}
}

// restrain limits what a process and its children may use.
func restrain(pid int) error {
	for resource, limit := range map[int]uint64{unix.RLIMIT_AS: maxMemory, unix.RLIMIT_CPU: maxCPU} {
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
			return fmt.Errorf("limiting git: %w", err)
		}
	}
	return nil
}

// complaint keeps the beginning of what a process complains about.
type complaint struct{ bytes.Buffer }

// Write keeps what still fits.
func (c *complaint) Write(p []byte) (int, error) {
	const limit = 4 << 10
	c.Buffer.Write(p[:min(len(p), max(0, limit-c.Len()))])
	return len(p), nil
}
