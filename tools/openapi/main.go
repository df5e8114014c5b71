// Command openapi writes the OpenAPI document of the REST API to the file that it is given.
package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"

	"landfall.dev/landfall/api"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		slog.Error("the OpenAPI document was not written", "error", err)
		os.Exit(1)
	}
}

func run(file string) error {
	document, err := api.Document()
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
