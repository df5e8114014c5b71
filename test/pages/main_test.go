package pages_test

import (
	"os"
	"testing"

	"landfall.dev/landfall/test/browser"
)

func TestMain(m *testing.M) {
	code := m.Run()
	browser.End()
	os.Exit(code)
}
