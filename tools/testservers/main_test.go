package main

import "testing"

// What it runs finds the servers, and its exit code is the command's.
func TestRun(t *testing.T) {
	t.Parallel()
	code, err := run([]string{"sh", "-c",
		`test -n "$LANDFALL_TEST_POSTGRES_PORT" && test -d "$LANDFALL_TEST_S3_DATA" && exit 7`})
	if err != nil || code != 7 {
		t.Errorf("got %d, %v; want the command's 7", code, err)
	}
	if code, err := run(nil); err == nil || code != 2 {
		t.Errorf("without a command: %d, %v", code, err)
	}
}
