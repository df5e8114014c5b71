package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"landfall.dev/landfall/cli"
)

// Releases are made by what makes versions, and every such command can leave that out.
func TestNoRelease(t *testing.T) {
	t.Parallel()
	help := func(command string) string {
		var stdout, stderr bytes.Buffer
		c := &cli.Call{Stdout: &stdout, Stderr: &stderr}
		c.Run(t.Context(), strings.Fields("help "+command))
		return stdout.String() + stderr.String()
	}
	for _, word := range []string{"create-release", "release create-release", "app create-release"} {
		// D-040: there is no command that makes a release
		if got := help(word); !strings.Contains(got, "there is no command") {
			t.Errorf("help %s: got %q, want that there is none", word, got)
		}
	}
	for _, command := range []string{
		"spec version apply", "function create", "function version create", "function version update",
		"package version create", "package version update", "route create", "route delete", "trigger create",
		"trigger delete", "secret set",
	} {
		// D-040: what makes versions takes --no-release
		if got := help(command); !strings.Contains(got, "--no-release") {
			t.Errorf("help %s: got %q, want --no-release in it", command, got)
		}
	}
}
