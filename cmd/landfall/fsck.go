package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/fsck"
	"landfall.dev/landfall/pipeline"
)

// Check implements api.Keeper.
func (s *server) Check(ctx context.Context, found func(landfall.Finding) error) (done landfall.Checked, err error) {
	err = s.upkeep.Uncollected(ctx, func() error {
		done, err = s.check(ctx, s.pipeline.Builds, found)
		return err
	})
	return done, err
}

// check goes over everything while nothing is collected.
func (s *server) check(ctx context.Context, builds *pipeline.Builds, found func(landfall.Finding) error) (landfall.Checked, error) {
	c := &fsck.Check{DB: s.db, Objects: s.objects, Builds: builds, Secrets: s.secrets}
	if s.repos != nil {
		c.Repositories = s.repos
	}
	return c.Run(ctx, found)
}

// checkResult is what landfall fsck prints for programs.
type checkResult struct {
	Findings []landfall.Finding `json:"findings"`
	Checked  *landfall.Checked  `json:"checked,omitempty"` // none when it was broken off: what was found until then is not all
}

func (r *checkResult) add(f landfall.Finding) error {
	r.Findings = append(r.Findings, f)
	return nil
}

func (c *cli) fsckCommand() *cobra.Command {
	var offline func(context.Context) (*server, bool, error)
	cmd := c.command("fsck", "Go over everything that is kept, and name what is damaged",
		"landfall fsck\nlandfall fsck -o json\nlandfall fsck --offline --data /var/lib/landfall",
		func(ctx context.Context, _ operands) error {
			result := checkResult{Findings: []landfall.Finding{}}
			var checked landfall.Checked
			stopped, asked, err := offline(ctx)
			switch {
			case err != nil:
				return err
			case asked:
				defer func() { _ = stopped.Close() }()
				err = stopped.alone(ctx, func() error {
					builds := &pipeline.Builds{Folder: filepath.Join(stopped.config.Data, "cache", "builds")}
					checked, err = stopped.check(ctx, builds, result.add)
					return err
				})
			default:
				checked, err = c.remoteCheck(ctx, result.add)
			}
			switch {
			case err == nil:
				result.Checked = &checked
			case len(result.Findings) == 0:
				return err // an empty report would say that all is well
			}
			if err := errors.Join(err, c.print(result, func(t *table) { showFindings(t, result) })); err != nil {
				return err
			}
			if n := len(result.Findings); n > 0 {
				return &landfall.Error{Op: "cli", Kind: landfall.Internal, Message: count(n, "damage") + " found"}
			}
			return nil
		})
	cmd.Long = `Go over everything that is kept, and name what is damaged: the rows and the rules that they keep, every manifest and object against
its digest, every repository of the built-in remote by git, what builds made, and what nothing knows of. Each damage comes with what
to do about it. Nothing is changed, and the server goes on meanwhile. The exit code is 1 when something is damaged.`
	offline = c.offlineFlags(cmd)
	return cmd
}

// remoteCheck lets the server go over everything.
func (c *cli) remoteCheck(ctx context.Context, found func(landfall.Finding) error) (landfall.Checked, error) {
	cl, err := c.client()
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
			return landfall.Checked{}, &landfall.Error{Op: "cli", Kind: landfall.Unavailable, Err: err,
				Message: "the server stopped in the middle of the check; what it found until then is not all"}
		}
		switch {
		case line.Finding != nil:
			if err := found(*line.Finding); err != nil {
				return landfall.Checked{}, err
			}
		case line.Done != nil:
			return *line.Done, nil
		default:
			return landfall.Checked{}, &landfall.Error{Op: "cli", Kind: landfall.Unavailable, Message: "the check was broken off: " + line.Problem}
		}
	}
}

// showFindings shows what is damaged, each with what to do, and how much was gone over.
func showFindings(t *table, r checkResult) {
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
	t.row(strings.Join([]string{count(r.Checked.Apps, "app"), count(r.Checked.Releases, "release"), count(r.Checked.Manifests, "manifest"),
		count(r.Checked.Objects, "object"), strconv.FormatInt(r.Checked.Bytes, 10) + " bytes",
		count(r.Checked.Repositories, "built-in repo")}, ", ") + " checked")
}
