package cli

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall/api/client"
)

func (c *Call) queueCommand() *cobra.Command {
	return c.group("queue", "Publish messages for an app's queue triggers, and look at those that are kept",
		"landfall queue publish shop orders.new --data '{\"id\": 7}'\nlandfall queue read shop 'orders.*'", c.queuePublish(),
		c.queueRead())
}

func (c *Call) queuePublish() *cobra.Command {
	var data, contentType, key string
	var whole bool
	var cmd *cobra.Command
	cmd = c.get("publish APP TOPIC", "Store a message at a topic of an app",
		"landfall queue publish shop orders.new --data '{\"id\": 7}'\n"+
			"landfall queue publish shop orders.new --data @order.json --key order-7\n"+
			"landfall queue publish shop orders.new --event --data @event.json",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if !cmd.Flags().Changed("data") {
				return Invalid("--data is missing: text, @FILE, or - for standard input")
			}
			body, err := readData(c.Stdin, data)
			if err != nil {
				return err
			}
			if whole {
				contentType = "application/cloudevents+json"
			}
			stored, err := cl.Publish(ctx, in["app"], in["topic"], key, contentType, body)
			if err != nil {
				return err
			}
			return c.Print(stored, func(t *Table) {
				what := "stored as message "
				if stored.Duplicate {
					what = "was stored before, as message "
				}
				t.Row(what + strconv.FormatUint(stored.Sequence, 10) + " at " + stored.Topic)
			})
		})
	cmd.Flags().StringVar(&data, "data", "", "text, @FILE, or - for standard input")
	cmd.Flags().StringVar(&contentType, "content-type", "", "content type of the data")
	cmd.Flags().StringVar(&key, "key", "", "a message of the same key is stored once in two minutes")
	cmd.Flags().BoolVar(&whole, "event", false, "the data is a whole CloudEvent as JSON")
	return cmd
}

func (c *Call) queueRead() *cobra.Command {
	var after uint64
	var limit int
	cmd := c.get("read APP TOPIC", "Show the messages that are kept at a topic, or at all that a pattern names (*: one "+
		"word, >: the rest); none is taken away",
		"landfall queue read shop answers\nlandfall queue read shop 'dead.>' -o json\n"+
			"landfall queue read shop '>' --after 41 --limit 10",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if limit < 1 {
				return Invalid("--limit is %d; right would be 1 or more", limit)
			}
			query := url.Values{}
			if after > 0 {
				query.Set("after", strconv.FormatUint(after, 10))
			}
			all, err := client.First[client.Message](ctx, cl, appPath(in, "messages", in["topic"]), query, limit)
			heading := []string{"MESSAGE", "TIME", "TOPIC", "ERROR", "DATA"}
			return printRows(c, all, err, heading, func(m client.Message) []string {
				return []string{strconv.FormatUint(m.Sequence, 10), Local(m.Time), m.Topic,
					strings.Join(m.Headers["Landfall-Error"], " "), shortened(m)}
			})
		})
	cmd.Flags().Uint64Var(&after, "after", 0, "only messages behind this one")
	cmd.Flags().IntVar(&limit, "limit", 100, "how many messages at most")
	return cmd
}

// shortened returns what a row of a table shows of a message's data.
func shortened(m client.Message) string {
	const most = 60
	text := strings.Join(strings.Fields(m.Data), " ")
	switch runes := []rune(text); {
	case len(m.DataBase64) > 0:
		return strconv.Itoa(len(m.DataBase64)) + " bytes"
	case len(runes) > most:
		return string(runes[:most]) + "…"
	}
	return text
}
