// Command greet answers an event of somebody's arrival with one that greets: {"name": "Ada"}. Build it with
// GOOS=wasip1 GOARCH=wasm go build -o greet.wasm ./greet
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	events := json.NewDecoder(os.Stdin)
	for {
		var event struct{ Data struct{ Name string } }
		err := events.Decode(&event)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "greeting", event.Data.Name)
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
			"specversion": "1.0", "id": "1", "type": "greeting", "source": "/example/greet",
			"datacontenttype": "application/json", "data": map[string]string{"text": "Hello, " + event.Data.Name + "!"},
		})
	}
}
