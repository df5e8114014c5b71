// Command openapi writes the OpenAPI document of the REST API to the file that it is given; with -3.0, in version 3.0.
package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"

	"landfall.dev/landfall/api"
)

func main() {
	document := api.Document
	if os.Args[1] == "-3.0" {
		document = api.Document30
	}
	if err := run(document, os.Args[len(os.Args)-1]); err != nil {
		slog.Error("the OpenAPI document was not written", "error", err)
		os.Exit(1)
	}
}

func run(write func() ([]byte, error), file string) error {
	document, err := write()
	if err != nil {
		return err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, document, "", "  "); err != nil {
		return err
	}
	pretty.WriteByte('\n')
	return os.WriteFile(file, pretty.Bytes(), 0o600)
}
