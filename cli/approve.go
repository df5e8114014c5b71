package cli

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"

	"landfall.dev/landfall/api/client"
)

func (c *Call) runApprove() *cobra.Command {
	cmd := c.get("approve RUN", "Approve a commit of a fork: it is built and gets a release",
		"landfall run approve 0199e0c4-7b1c-7c3e-9d6f-5a1b2c3d4e5f\nlandfall run approve 3f9c1ab",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			return ask(ctx, cl, http.MethodPost, runPath(in["run"])+"/approve?via=cli", nil, c.showRun)
		})
	cmd.Long = `Approve the commit at the head of a pull request that comes from another repository (a fork).

RUN is the id of a run that waits for approval, or 7 or more digits of its commit: landfall run list --state waiting.
The approval is for that commit alone. The run then builds without secrets and without a network, with the build,
the environments and the limits that the base branch has. Its release never becomes live.`
	return cmd
}

func (c *Call) runDecline() *cobra.Command {
	var reason string
	cmd := c.get("decline RUN", "Decline a commit of a fork: it is not built",
		`landfall run decline 3f9c1ab --reason "the build sends files away"`,
		func(ctx context.Context, cl *client.Client, in Operands) error {
			return ask(ctx, cl, http.MethodPost, runPath(in["run"])+"/decline", client.Decline{Reason: reason}, c.showRun)
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why; the author of the pull request reads it in the commit status")
	return cmd
}
