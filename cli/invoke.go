package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/event"
)

// invocation is what `function invoke` and `trigger fire` send.
type invocation struct {
	data, eventType, contentType string
	whole                        bool      // data is the event
	notes                        io.Writer // for what may be a mistake
}

func (c *Call) functionInvoke() *cobra.Command {
	var in invocation
	cmd := c.getIn("invoke NAME", "Give an event to a version of a function, and print the data of its answer",
		"landfall function invoke hello --data '{\"name\": \"Ada\"}'\n"+
			"landfall function invoke hello:3 --data @order.json --type order.placed\n"+
			"landfall function invoke hello:live --event --data @event.json -o json",
		func(ctx context.Context, cl *client.Client, words Operands) error {
			ref, err := landfall.ParseReference(words["name"])
			if err != nil {
				return err
			}
			ref.Namespace = cmp.Or(ref.Namespace, words["namespace"])
			body, err := in.event(c.Stdin)
			if err != nil {
				return err
			}
			answer, err := cl.Call(ctx, ref, body)
			if err != nil {
				return err
			}
			return c.showAnswer(answer)
		})
	cmd.Long = "Give an event to a version of a function, and print the data of its answer." + wordsOfAnswer
	cmd.Flags().StringVar(&in.eventType, "type", "dev.landfall.invoke", "type of the event")
	in.flags(c, cmd)
	return cmd
}

// wordsOfAnswer are what people should know of the answer that they see.
const wordsOfAnswer = `

When the function fails, the exit code says it. A status that it answers with is an answer, as with curl and
aws lambda invoke: the exit code is 0 with 404 and 500, too. With -o json the whole answer is printed, and
its status is in "protocol".`

// flags gives a command the flags that say what is sent.
func (in *invocation) flags(c *Call, cmd *cobra.Command) {
	in.notes = c.Stderr
	cmd.Flags().StringVar(&in.data, "data", "", "data of the event: text, @FILE, or - for standard input")
	cmd.Flags().StringVar(&in.contentType, "content-type", "",
		"content type of the data (default: application/json if it is JSON, else text/plain)")
	cmd.Flags().BoolVar(&in.whole, "event", false, "the data is a whole CloudEvent as JSON")
}

func (c *Call) triggerFire() *cobra.Command {
	var in invocation
	var release, method string
	cmd := c.getIn("fire APP NAME", "Fire a trigger by hand, and print the data of its answer",
		"landfall trigger fire shop nightly\nlandfall trigger fire shop nightly --release pr-12\n"+
			"landfall trigger fire shop orders --data '{\"total\": 9}' --type order.placed",
		func(ctx context.Context, cl *client.Client, words Operands) error {
			app := words["app"]
			if release != "" {
				app += ":" + landfall.ReleaseLabel(release)
			}
			var trigger client.FnTrigger
			of := fnPath(words["namespace"], "apps", words["app"], "triggers", words["name"])
			// a token that may not read it fires it all the same
			if cl.Do(ctx, http.MethodGet, of, nil, &trigger) == nil && trigger.Tag != "" && in.eventType == "" {
				in.eventType = landfall.ScheduleEvent
			}
			address := landfall.TriggerPath + words["namespace"] + "/" + app + "/" + words["name"]
			if in.whole || in.eventType != "" {
				return c.fireEvent(ctx, cl, address, &in)
			}
			data, err := readData(c.Stdin, in.data)
			if err != nil {
				return err
			}
			answer, err := cl.Fire(ctx, strings.ToUpper(method), address, in.mediaType(data), data)
			if err != nil {
				return err
			}
			return c.showAnswer(answer)
		})
	cmd.Long = `Fire a trigger by hand, and print the data of its answer.

The function gets the event that the trigger's schedule, queue or route would give it, with the data. A
trigger of a function tag calls all functions of it, and each answer is printed on a line.
With --type or --event it gets that event, with the trigger as its source, if the trigger's filters let
it pass. Schedules and queues of previews are fired by hand alone.` + wordsOfAnswer
	cmd.Flags().StringVar(&release, "release", "",
		"release that the trigger is of: uid, tag, commit, latest or live (default live)")
	cmd.Flags().StringVar(&method, "method", http.MethodPost, "method of the request, for a trigger of a route")
	cmd.Flags().StringVar(&in.eventType, "type", "", "type of the event, in place of the trigger's own")
	in.flags(c, cmd)
	return cmd
}

// fireEvent gives an event to the triggers at an address; of each kind there may be one.
func (c *Call) fireEvent(ctx context.Context, cl *client.Client, address string, in *invocation) error {
	body, err := in.event(c.Stdin)
	if err != nil {
		return err
	}
	e, _, err := event.Parse(body)
	if err != nil {
		return err
	}
	e.SetSource(address)
	if body, err = event.Append(nil, event.Structured, e); err != nil {
		return err
	}
	answers, err := cl.FireEvent(ctx, body)
	if c.output != "" && len(answers) > 1 {
		return errors.Join(err, c.showAnswers(answers))
	}
	for i, answer := range answers {
		if i > 0 && c.output == "" {
			fmt.Fprintln(c.Stdout)
		}
		err = errors.Join(err, c.showAnswer(answer))
	}
	return err
}

// event returns the event as JSON.
func (in *invocation) event(stdin io.Reader) ([]byte, error) {
	data, err := readData(stdin, in.data)
	if err != nil || in.whole {
		return data, err
	}
	e := event.New()
	e.SetID(uuid.NewString())
	e.SetSource("/cli")
	e.SetType(in.eventType)
	if contentType := in.mediaType(data); contentType != "" {
		e.SetDataContentType(contentType)
		e.DataEncoded = data
	}
	return event.Append(nil, event.Structured, e)
}

// mediaType returns the content type of data; nothing for no data.
func (in *invocation) mediaType(data []byte) string {
	switch {
	case in.contentType != "" || len(data) == 0:
		return in.contentType
	case json.Valid(data):
		return "application/json"
	}
	if start := bytes.TrimSpace(data); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		fmt.Fprintln(in.notes,
			"note: the data begins as JSON and is none, so it is sent as text; --content-type text/plain says so")
	}
	return "text/plain"
}

// readData returns what --data means; stdin is what "-" means.
func readData(stdin io.Reader, given string) ([]byte, error) {
	name, isFile := strings.CutPrefix(given, "@")
	var data []byte
	var err error
	switch {
	case given == "-":
		data, err = io.ReadAll(stdin)
	case isFile:
		data, err = os.ReadFile(filepath.Clean(name))
	default:
		return []byte(given), nil
	}
	if err != nil {
		return nil, Invalid("--data cannot be read: %v", err)
	}
	return data, nil
}

// showAnswer prints the data of an answer, or the whole of it for programs. An answer that is an error is one.
func (c *Call) showAnswer(answer []byte) error {
	e, _, err := event.Parse(answer)
	if err != nil {
		return err
	}
	if c.output != "" {
		if err := c.Print(json.RawMessage(answer), nil); err != nil {
			return err
		}
	}
	fault, failed, err := event.ErrorOf(e)
	switch {
	case err != nil:
		return err
	case failed:
		return functionFailed(fault, event.ExecutionOf(e))
	case c.output == "":
		data := e.Data()
		if IsTerminal(c.Stdout) && len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
			// the shell's prompt stands on a line of its own; a program gets the data as it is
			data = append(slices.Clip(data), '\n')
		}
		_, err = c.Stdout.Write(data)
	}
	return err
}

// showAnswers prints several answers for programs, as one list.
func (c *Call) showAnswers(answers []json.RawMessage) error {
	var failed error
	for _, answer := range answers {
		e, _, err := event.Parse(answer)
		if err != nil {
			return err
		}
		if fault, is, err := event.ErrorOf(e); err == nil && is {
			failed = errors.Join(failed, functionFailed(fault, event.ExecutionOf(e)))
		}
	}
	return cmp.Or(c.Print(answers, nil), failed)
}

// functionFailed is what the person reads whose call failed.
func functionFailed(fault event.Error, execution string) error {
	message := fault.Message
	if fault.Type != "" {
		message += " (" + fault.Type + ")"
	}
	if execution != "" {
		message += "\nexecution " + execution
	}
	if fault.Trace != "" {
		message += "\n" + strings.TrimRight(fault.Trace, "\n")
	}
	kind := landfall.Internal
	for _, k := range landfall.Kinds() {
		if k.String() == fault.Type {
			kind = k
		}
	}
	return landfall.Errorf("function invoke", kind, "%s", message)
}
