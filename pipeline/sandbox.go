package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/outbound"
	"landfall.dev/landfall/sandbox"
)

// BuildSandbox runs build commands in the sandbox of this machine.
type BuildSandbox struct {
	Sandbox      *sandbox.Sandbox
	AllowedHosts []string        // that builds may reach although their address is private
	Upstream     *outbound.Proxy // that leads to others; nil: none
	Warm         string          // the folder of what warmups made

	warming sync.Mutex // held while one is made
}

var _ Sandbox = (*BuildSandbox)(nil)

// Build implements Sandbox.
func (b *BuildSandbox) Build(ctx context.Context, c BuildCommand) (BuildResult, error) {
	var missed hosts
	command := sandbox.Command{Shell: c.Shell, Dir: c.Dir, Env: c.Env, Output: c.Output}
	if c.Network || c.Refuse != "" {
		command.Proxy = &sandbox.Proxy{AllowedHosts: b.AllowedHosts, Upstream: b.Upstream, Refuse: c.Refuse,
			Log: func(host string, failure error) {
				c.Logger.InfoContext(ctx, "a build asked for a host", "host", c.Hide.String(host), "allowed", failure == nil)
				missed.add(host, failure)
			}}
	}
	if c.Warmup.Folder != "" {
		if err := b.warmUp(ctx, c); err != nil {
			c.Logger.WarnContext(ctx, "a build takes longer than it could", "error", err)
		}
	}
	result, err := b.Sandbox.Run(ctx, command)
	return BuildResult{ExitCode: result.ExitCode, Killed: result.Killed, Dir: result.Dir, NotReached: missed.lines}, err
}

// hosts are those that a build asked for and did not reach, as lines that say why.
type hosts struct {
	mu    sync.Mutex
	lines []string
}

func (h *hosts) add(host string, failure error) {
	if failure == nil || errors.Is(failure, context.Canceled) {
		return
	}
	line := sandbox.NotReached(host, failure)
	h.mu.Lock()
	defer h.mu.Unlock()
	const most = 20
	if len(h.lines) < most && !slices.Contains(h.lines, line) {
		h.lines = append(h.lines, line)
	}
}

// warmUp gives a build a copy of what a warmup makes, which is made now when it is not there: by that command alone, in
// a sandbox of its own. No build of a repository's ever changes what another one gets.
func (b *BuildSandbox) warmUp(ctx context.Context, c BuildCommand) error {
	made := filepath.Join(b.Warm, landfall.DigestOf([]byte(c.Warmup.Command)).Hex())
	if _, err := os.Stat(made); err != nil {
		c.Progress(c.Warmup.Note) // also when another build makes it: this one waits as long
	}
	b.warming.Lock()
	defer b.warming.Unlock()
	if _, err := os.Stat(made); err != nil {
		if err := b.makeWarm(ctx, made, c.Warmup); err != nil {
			return err
		}
	}
	return os.CopyFS(filepath.Join(c.Dir, c.Warmup.Folder), os.DirFS(made))
}

// makeWarm makes what a warmup makes, in place of what was made before.
func (b *BuildSandbox) makeWarm(ctx context.Context, made string, w environment.Warmup) error {
	const private = 0o700
	if err := errors.Join(os.RemoveAll(b.Warm), os.MkdirAll(b.Warm, private)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.Warm, ".new-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var out strings.Builder
	result, err := b.Sandbox.Run(ctx, sandbox.Command{Shell: w.Command, Dir: dir, Output: &out})
	if err != nil {
		return err
	}
	if result.ExitCode != 0 || result.Killed != "" {
		return fmt.Errorf("what it begins with cannot be made: exit code %d %s: %s", result.ExitCode, result.Killed,
			landfall.Plain(out.String()))
	}
	return os.Rename(filepath.Join(dir, w.Folder), made)
}
