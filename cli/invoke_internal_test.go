package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/test/testkit"
)

// newTerminal returns the two ends of a terminal: what is written to the second is read from the first.
func newTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(filepath.Join("/dev/pts", fmt.Sprint(number)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// At a terminal an answer ends its line; what reads it from a pipe gets each byte of it, and no other.
func TestAnswersEndTheirLine(t *testing.T) {
	t.Parallel()
	for data, shown := range map[string]string{"hello": "hello\r\n", `hello\n`: "hello\r\n"} {
		answer := []byte(`{"specversion":"1.0","id":"1","source":"/me","type":"t","datacontenttype":"text/plain","data":"` +
			data + `"}`)
		person, program := newTerminal(t)
		if err := (&Call{Stdout: program}).showAnswer(answer); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(program, "$")
		buffer := make([]byte, 100)
		var read []byte
		for !bytes.HasSuffix(read, []byte("$")) {
			n, err := person.Read(buffer)
			if err != nil {
				t.Fatal(err)
			}
			read = append(read, buffer[:n]...)
		}
		testkit.Equal(t, "at a terminal", string(read), shown+"$")
	}
	var piped bytes.Buffer
	answer := `{"specversion":"1.0","id":"1","source":"/me","type":"t","datacontenttype":"text/plain","data":"hello"}`
	if err := (&Call{Stdout: &piped}).showAnswer([]byte(answer)); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "through a pipe", piped.String(), "hello")
}

// Data that was meant as JSON and is none goes as text, and whoever sends it is told.
func TestBrokenJSONIsNoted(t *testing.T) {
	t.Parallel()
	for data, noted := range map[string]bool{`{a: 1}`: true, " [1,": true, `{"a": 1}`: false, "hello": false, "": false} {
		var notes bytes.Buffer
		in := invocation{notes: &notes}
		in.mediaType([]byte(data))
		testkit.Equal(t, "a note of "+data, strings.Contains(notes.String(), "begins as JSON"), noted)
		notes.Reset()
		in.contentType = "text/plain"
		in.mediaType([]byte(data))
		testkit.Equal(t, "a note of "+data+" that is said to be text", notes.String(), "")
	}
}
