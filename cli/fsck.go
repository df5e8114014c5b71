package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// checkResult is what landfall fsck prints for programs.
type checkResult struct {
	Findings []landfall.Finding `json:"findings"`
	// none when it was broken off: what was found until then is not all
	Checked *landfall.Checked `json:"checked,omitempty"`
}

func (r *checkResult) add(f landfall.Finding) error {
	r.Findings = append(r.Findings, f)
	return nil
}

// FsckCommand returns the command fsck. offline goes over the data of a server that is stopped, and reports whether
// that was asked for. When it was not asked for, the running server goes over its own data.
func (c *Call) FsckCommand(
	offline func(ctx context.Context, found func(landfall.Finding) error) (checked landfall.Checked, asked bool,
		err error),
) *cobra.Command {
	cmd := c.Command("fsck", "Go over everything that is kept, and name what is damaged",
		"landfall fsck\nlandfall fsck -o json\nlandfall fsck --offline --data /var/lib/landfall",
		func(ctx context.Context, _ Operands) error {
			result := checkResult{Findings: []landfall.Finding{}}
			checked, asked, err := offline(ctx, result.add)
			if err == nil && !asked {
				checked, err = c.remoteCheck(ctx, result.add)
			}
			switch {
			case err == nil:
				result.Checked = &checked
			case len(result.Findings) == 0:
				return err // an empty report would say that all is well
			}
			if err := errors.Join(err, c.Print(result, func(t *Table) { showFindings(t, result) })); err != nil {
				return err
			}
			if n := len(result.Findings); n > 0 {
				return landfall.Errorf("cli", landfall.Internal, "%s found", landfall.Count(n, "damage"))
			}
			return nil
		})
	cmd.Long = `Go over everything that is kept, and name what is damaged: the rows and the rules that they keep, every
manifest and object against its digest, every repository of the built-in remote by git, what builds made,
and what nothing knows of. Each damage comes with what to do about it. Nothing is changed, and the server
goes on meanwhile. The exit code is 1 when something is damaged.`
	return cmd
}

// remoteCheck lets the server go over everything.
func (c *Call) remoteCheck(ctx context.Context, found func(landfall.Finding) error) (landfall.Checked, error) {
	cl, err := c.Client()
	if err != nil {
		return landfall.Checked{}, err
	}
	answer, err := cl.Stream(ctx, "/check")
	if err != nil {
		return landfall.Checked{}, err
	}
	defer func() { _ = answer.Close() }()
	for lines := json.NewDecoder(answer); ; {
		var line client.CheckLine
		if err := lines.Decode(&line); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return landfall.Checked{}, landfall.Wrapf("cli", landfall.Unavailable, err,
				"the server stopped in the middle of the check; what it found until then is not all")
		}
		switch {
		case line.Finding != nil:
			if err := found(*line.Finding); err != nil {
				return landfall.Checked{}, err
			}
		case line.Done != nil:
			return *line.Done, nil
		default:
			return landfall.Checked{}, landfall.Errorf("cli", landfall.Unavailable, "the check was broken off: %s", line.Problem)
		}
	}
}

// showFindings shows what is damaged, each with what to do, and how much was gone over.
func showFindings(t *Table, r checkResult) {
	for _, f := range r.Findings {
		releases := make([]string, len(f.Releases))
		for i, uid := range f.Releases {
			releases[i] = string(uid)
		}
		t.field("damaged", f.What)
		t.field("  app", f.App)
		t.field("  releases", strings.Join(releases, ", "))
		t.field("  unit", f.Unit)
		t.field("  path", f.Path)
		t.field("  key", f.Key)
		t.field("  problem", f.Problem)
		t.field("  to do", f.Remedy)
	}
	if r.Checked == nil {
		return
	}
	t.Row(strings.Join([]string{
		landfall.Count(r.Checked.Apps, "app"), landfall.Count(r.Checked.Releases, "release"),
		landfall.Count(r.Checked.Manifests, "manifest"), landfall.Count(r.Checked.Objects, "object"),
		strconv.FormatInt(r.Checked.Bytes, 10) + " bytes", landfall.Count(r.Checked.Repositories, "built-in repo"),
	}, ", ") + " checked")
}
