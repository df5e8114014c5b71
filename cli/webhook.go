package cli

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (c *Call) webhookCommand() *cobra.Command {
	return c.group("webhook", "Make addresses by which others call functions without a token",
		"landfall webhook create hello --version 3\nlandfall webhook list", c.webhookCreate(), c.webhookUpdate(),
		c.usesList("list", "List the webhooks of functions, newest first", "landfall webhook list --function hello",
			func(ctx context.Context, cl *client.Client, query url.Values) (int, error) {
				hooks, err := client.List[client.Webhook](ctx, cl, "/webhooks", query)
				heading := []string{"WEBHOOK", "FUNCTION", "VERSION", "ADDRESS", "DESCRIPTION"}
				return len(hooks), printRows(c, hooks, err, heading, func(h client.Webhook) []string {
					return []string{h.ID, h.Function, versionNumber(h.Number), h.URL, inShort(h.Description)}
				})
			}),
		c.get("show ID", "Show one webhook", "landfall webhook show "+aJob,
			func(ctx context.Context, cl *client.Client, in Operands) error {
				return ask(ctx, cl, http.MethodGet, pathOf("webhooks", in["id"]), nil, c.showWebhook)
			}),
		c.deletion("delete ID", "Delete a webhook: its address leads nowhere any more", "landfall webhook delete "+aJob,
			"webhooks", "webhook"))
}

func (c *Call) webhookCreate() *cobra.Command {
	var n client.NewWebhook
	var named func(in Operands) error
	cmd := c.getIn("create FUNCTION", "Make an address by which whoever knows it calls a function",
		"landfall webhook create hello\nlandfall webhook create hello --version 3 --description \"For the shop's tills\"",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if err := named(in); err != nil {
				return err
			}
			return ask(ctx, cl, http.MethodPost, "/webhooks", n, c.showWebhook)
		})
	cmd.Long = `Make an address by which whoever knows it calls a function, by any method and without a token.

The webhook holds the version that it names: that version cannot be deleted before the webhook is. A webhook of the
latest version holds none, and calls the version that is the latest each time.`
	named = namesFunction(cmd, &n.FunctionName)
	cmd.Flags().StringVar(&n.Description, "description", "", "what it is for")
	return cmd
}

func (c *Call) webhookUpdate() *cobra.Command {
	var change client.WebhookChange
	var version, description string
	var cmd *cobra.Command
	cmd = c.get("update ID", "Let a webhook call another version, or describe it",
		"landfall webhook update "+aJob+" --version 4\nlandfall webhook update "+aJob+" --version latest",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if cmd.Flags().Changed("version") {
				number, err := hookVersion(ctx, cl, in["id"], version)
				if err != nil {
					return err
				}
				change.Number = &number
			}
			if cmd.Flags().Changed("description") {
				change.Description = &description
			}
			if change == (client.WebhookChange{}) {
				return Invalid("say what changes: --version or --description")
			}
			return ask(ctx, cl, http.MethodPut, pathOf("webhooks", in["id"]), change, c.showWebhook)
		})
	cmd.Flags().StringVar(&version, "version", "", "number, uid or label of the version; latest: whichever is the latest")
	cmd.Flags().StringVar(&description, "description", "", "what it is for")
	return cmd
}

// hookVersion returns the number of the version of a webhook's function that is named so; 0 for the latest.
func hookVersion(ctx context.Context, cl *client.Client, id, version string) (int64, error) {
	if version == landfall.Latest || version == "0" {
		return 0, nil
	}
	var hook client.Webhook
	if err := cl.Do(ctx, http.MethodGet, pathOf("webhooks", id), nil, &hook); err != nil {
		return 0, err
	}
	var v client.Version
	path := functionKind().unitPath(hook.Function, "versions", version)
	err := cl.Do(ctx, http.MethodGet, path+"?"+url.Values{"namespace": {hook.Namespace}}.Encode(), nil, &v)
	return v.Number, err
}

func (c *Call) showWebhook(h client.Webhook) error {
	return c.Print(h, func(t *Table) {
		t.field("webhook", h.ID)
		t.field("function", h.Function)
		t.field("namespace", h.Namespace)
		t.field("version", versionNumber(h.Number))
		t.field("address", h.URL)
		t.field("description", h.Description)
		t.field("created", Local(h.Created))
	})
}
