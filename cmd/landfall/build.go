package main

import (
	"context"

	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/sandbox"
)

// buildSandbox runs the pipeline's build commands in the sandbox.
type buildSandbox struct {
	sandbox *sandbox.Sandbox
	hosts   []string // that builds may reach although their address is private
}

var _ pipeline.Sandbox = buildSandbox{}

// Build implements pipeline.Sandbox.
func (b buildSandbox) Build(ctx context.Context, c pipeline.BuildCommand) (pipeline.BuildResult, error) {
	command := sandbox.Command{Shell: c.Shell, Dir: c.Dir, Env: c.Env, Output: c.Output}
	if c.Network {
		command.Proxy = &sandbox.Proxy{AllowedHosts: b.hosts, Log: func(host string, allowed bool) {
			c.Logger.InfoContext(ctx, "a build asked for a host", "host", host, "allowed", allowed)
		}}
	}
	result, err := b.sandbox.Run(ctx, command)
	return pipeline.BuildResult(result), err
}
