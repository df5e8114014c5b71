package spec_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall/spec"
)

// A filter that makes no sense is refused where it stands.
func TestFilterPosition(t *testing.T) {
	t.Parallel()
	_, err := spec.Parse([]spec.Source{{Name: "specs/queue.yaml", Data: []byte(`apiVersion: fission.io/v1
kind: MessageQueueTrigger
metadata: {name: bill}
spec:
  functionref: {name: bill}
  topic: orders
  filters:
    - exact: {type: order}
    - not:
        any: []
`)}}, spec.Limits{})
	if err == nil {
		t.Fatal("it was taken")
	}
	// N-028
	if want := "specs/queue.yaml:10: MessageQueueTrigger bill: filters[1].not.any: there is nothing in it"; !strings.Contains(err.Error(), want) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
