package pack_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"landfall.dev/landfall/builder/pack"
)

// apart names the pack that this binary receives when it is started for that alone, so that its memory is that of one
// pack, and reading a blob that it reads then.
const (
	apart   = "LANDFALL_TEST_PACK"
	reading = "LANDFALL_TEST_BLOB"
)

// peak returns how much memory a process takes at most that receives a pack and reads the blob that has a name, if one
// is given, in MiB.
func peak(t *testing.T, data []byte, blob string) int {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pack")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), plain(t), "-test.run", "^TestReceiveApart$")
	// GOGC lets little lie about that nothing needs.
	cmd.Env = append(os.Environ(), apart+"="+file, reading+"="+blob, "GOMAXPROCS=4", "GOGC=20")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, rest, _ := strings.Cut(string(out), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return kib >> 10
}

// plain returns these tests as a program without the race detector, whose own memory is a multiple of the program's.
func plain(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "pack.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return program
}

// TestReceiveApart is what peak starts.
func TestReceiveApart(t *testing.T) {
	t.Parallel()
	path := os.Getenv(apart)
	if path == "" {
		return
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	dir := repository(t)
	if err := pack.Receive(t.Context(), dir, file, pack.Limits{Objects: 1 << 20, Object: 20 << 20}); err != nil {
		t.Fatal(err)
	}
	if name := os.Getenv(reading); name != "" {
		holds(t, dir, []plumbing.Hash{plumbing.NewHash(name)})
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(status))
}

// Families of large objects are made one after the other, however many there are.
func TestLargeFamiliesTakeTheMemoryOfOne(t *testing.T) {
	t.Parallel()
	const inserts = 65 << 10 // of 8 MiB together
	inserted, size := bytes.Repeat(append([]byte{127}, make([]byte, 127)...), inserts), uint64(inserts*127+1)
	whole, f := make([]byte, size), new(forge)
	for i := range 4 {
		whole[0] = byte(i)
		root := len(f.offsets)
		f.add(plumbing.BlobObject, int64(size), nil, whole)
		for j := range 2 {
			f.delta(root, size, size, append(inserted, 1, byte(i<<4+j)))
		}
	}
	if most := peak(t, f.bytes(), ""); most > 130 {
		t.Errorf("four families with objects of 8 MiB took %d MiB of memory at once", most)
	}
}

// What a million objects take is little more than what is known of each.
func TestManyObjectsAreNotCopied(t *testing.T) {
	t.Parallel()
	const count = 1 << 20
	entry := new(forge).add(plumbing.BlobObject, 1, nil, []byte("x")).body.Bytes()
	if most := peak(t, seal(count, bytes.Repeat(entry, count)), ""); most > 100 {
		t.Errorf("%d objects took %d MiB of memory at once", count, most)
	}
}
