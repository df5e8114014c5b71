package server

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/fsck"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/secret"
)

// Check implements api.Keeper.
func (s *delivery) Check(ctx context.Context, found func(landfall.Finding) error) (done landfall.Checked, err error) {
	err = s.upkeep.WithoutCollection(ctx, func() error {
		done, err = s.check(ctx, s.pipeline.Builds, s.secrets, found)
		return err
	})
	return done, err
}

// check goes over everything while nothing is collected.
func (s *state) check(ctx context.Context, builds *pipeline.Builds, key *secret.Keeper,
	found func(landfall.Finding) error) (landfall.Checked, error) {
	c := &fsck.Check{DB: s.db, Objects: s.objects, Builds: builds, Secrets: key}
	if s.repos != nil {
		c.Repositories = s.repos
	}
	return c.Run(ctx, found)
}

// fsckCommand returns the command fsck, which also checks what a server that is stopped has.
func fsckCommand(c *cli.Call) *cobra.Command {
	var offline func(context.Context) (*stopped, bool, error)
	cmd := c.FsckCommand(func(ctx context.Context, found func(landfall.Finding) error) (checked landfall.Checked,
		asked bool, err error) {
		stopped, asked, err := offline(ctx)
		if err != nil || !asked {
			return checked, asked, err
		}
		defer func() { _ = stopped.Close() }()
		err = stopped.alone(ctx, func() error {
			builds := &pipeline.Builds{Folder: filepath.Join(stopped.config.Data, "cache", "builds")}
			checked, err = stopped.check(ctx, builds, stopped.secrets, found)
			return err
		})
		return checked, true, err
	})
	offline = offlineFlags(c, cmd)
	return cmd
}
