package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
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

// invocation is what `function invoke` sends.
type invocation struct {
	data, eventType, contentType string
	whole                        bool // data is the event
}

func (c *cli) functionInvoke() *cobra.Command {
	var in invocation
	var namespace string
	cmd := c.get("invoke NAME", "Give an event to a version of a function, and print the data of its answer",
		"landfall function invoke hello --data '{\"name\": \"Ada\"}'\nlandfall function invoke hello:3 --data @order.json --type order.placed\n"+
			"landfall function invoke hello:live --event --data @event.json -o json",
		func(ctx context.Context, cl *client.Client, words operands) error {
			ref, err := landfall.ParseReference(words["name"])
			if err != nil {
				return err
			}
			if ref.Namespace == "" {
				ref.Namespace = namespace
			}
			body, err := in.event()
			if err != nil {
				return err
			}
			answer, err := cl.Call(ctx, ref, body)
			if err != nil {
				return err
			}
			return c.showAnswer(answer)
		})
	cmd.Flags().StringVar(&in.data, "data", "", "data of the event: text, @FILE, or - for standard input")
	cmd.Flags().StringVar(&in.eventType, "type", "dev.landfall.invoke", "type of the event")
	cmd.Flags().StringVar(&in.contentType, "content-type", "", "content type of the data (default: application/json if it is JSON, else text/plain)")
	cmd.Flags().BoolVar(&in.whole, "event", false, "the data is a whole CloudEvent as JSON")
	return inNamespace(cmd, &namespace)
}

// event returns the event as JSON.
func (in invocation) event() ([]byte, error) {
	data, err := readData(in.data)
	if err != nil || in.whole {
		return data, err
	}
	e := event.New()
	e.SetID(uuid.NewString())
	e.SetSource("/cli")
	e.SetType(in.eventType)
	contentType := in.contentType
	if contentType == "" && len(data) > 0 {
		contentType = "text/plain"
		if json.Valid(data) {
			contentType = "application/json"
		}
	}
	if contentType != "" {
		e.SetDataContentType(contentType)
		e.DataEncoded = data
	}
	return event.Append(nil, event.Structured, e)
}

// readData returns what --data means.
func readData(given string) ([]byte, error) {
	name, isFile := strings.CutPrefix(given, "@")
	var data []byte
	var err error
	switch {
	case given == "-":
		data, err = io.ReadAll(os.Stdin)
	case isFile:
		data, err = os.ReadFile(filepath.Clean(name))
	default:
		return []byte(given), nil
	}
	if err != nil {
		return nil, invalid("--data cannot be read: %v", err)
	}
	return data, nil
}

// showAnswer prints the data of an answer, or the whole of it for programs. An answer that is an error is one.
func (c *cli) showAnswer(answer []byte) error {
	e, _, err := event.Parse(answer)
	if err != nil {
		return err
	}
	if c.output != "" {
		if err := c.print(json.RawMessage(answer), nil); err != nil {
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
		if isTerminal(c.stdout) && len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
			data = append(slices.Clip(data), '\n') // the shell's prompt stands on a line of its own; a program gets the data as it is
		}
		_, err = c.stdout.Write(data)
	}
	return err
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
	return &landfall.Error{Op: "function invoke", Kind: kind, Message: message}
}
