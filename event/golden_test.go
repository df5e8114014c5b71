package event_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// request reads a request as it travels.
func request(t testing.TB, raw []byte) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// shown returns what a request was understood as: its form and each event in both shapes, or why it is refused.
func shown(t *testing.T, raw []byte) string {
	t.Helper()
	events, form, err := event.Read(request(t, raw), event.Limits{})
	if err != nil {
		return fmt.Sprintf("%s: %s\n", landfall.KindOf(err), landfall.MessageOf(err))
	}
	names := map[event.Form]string{event.Structured: "structured", event.Binary: "binary", event.Batch: "batch",
		event.Draft: "draft"}
	out := names[form] + "\n"
	for _, e := range events {
		for _, shape := range []event.Form{event.Structured, event.Draft} {
			line, err := event.Append(nil, shape, e)
			if err != nil {
				t.Fatal(err)
			}
			out += string(line) + "\n"
		}
	}
	return out
}

// Every request in testdata is understood, or refused, as the file beside it says.
func TestRequests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d requests, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, golden := shown(t, raw), strings.TrimSuffix(file, ".http")+".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			diff, refused := cmp.Diff(string(want), got), strings.HasPrefix(filepath.Base(file), "refused_")
			// E-002, E-016, E-086: events of 1.0 and of the document's model are read with all their fields
			if diff != "" && !refused {
				t.Errorf("it is read in another way (-want +got):\n%s", diff)
			}
			// N-021: what is no event, of an unknown version or without source is refused with the field's name
			if diff != "" && refused {
				t.Errorf("it is refused in another way (-want +got):\n%s", diff)
			}
		})
	}
}
