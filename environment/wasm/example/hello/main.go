// Command hello greets who asks: GET /hello?name=Ada. Build it with GOOS=wasip1 GOARCH=wasm go build -o hello.wasm ./hello
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
)

func main() {
	events := bufio.NewReader(os.Stdin)
	for {
		line, err := events.ReadBytes('\n')
		if len(line) > 0 {
			answer(line)
		}
		if err != nil {
			return
		}
	}
}

// answer writes the answer to the event of a line.
func answer(line []byte) {
	var event struct{ Protocol string }
	var request struct {
		URL string `json:"request_url"`
	}
	if err := json.Unmarshal(line, &event); err != nil {
		panic(err)
	}
	if err := json.Unmarshal([]byte(event.Protocol), &request); err != nil {
		panic(err)
	}
	asked, err := url.Parse(request.URL)
	if err != nil {
		panic(err)
	}
	name := asked.Query().Get("name")
	if name == "" {
		name = "world"
	}
	fmt.Fprintln(os.Stderr, "greeting", name)
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"specversion": "1.0", "id": "1", "type": "greeting", "source": "/example/hello",
		"datacontenttype": "text/plain", "data": "Hello, " + name + "!\n",
		"protocol": `{"status_code": 200, "headers": {"Content-Type": ["text/plain"]}}`,
	})
}
