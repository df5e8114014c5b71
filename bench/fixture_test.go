package bench_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// fixtures is where data folders are kept that take longer to make than what is measured in them.
const fixtures = module + "/build/bench"

// fixture returns a copy, the caller's own, of a data folder that fill makes once for each build of the program.
func fixture(b *testing.B, name string, fill func(folder string)) string {
	b.Helper()
	text, err := os.ReadFile(program(b))
	if err != nil {
		b.Fatal(err)
	}
	digest := sha256.Sum256(text)
	kept := filepath.Join(fixtures, name+"-"+hex.EncodeToString(digest[:6]))
	if _, err := os.Stat(kept); err != nil {
		old, err := filepath.Glob(filepath.Join(fixtures, name+"-*"))
		if err != nil {
			b.Fatal(err)
		}
		for _, folder := range old {
			if err := os.RemoveAll(folder); err != nil {
				b.Fatal(err)
			}
		}
		fresh := filepath.Join(newFolder(b), "data")
		fill(fresh)
		if err := os.MkdirAll(fixtures, 0o755); err != nil {
			b.Fatal(err)
		}
		run(b, "", "cp", "--archive", "--reflink=auto", fresh, kept+".new")
		if err := os.Rename(kept+".new", kept); err != nil {
			b.Fatal(err)
		}
	}
	own := filepath.Join(newFolder(b), "data")
	run(b, "", "cp", "--archive", "--reflink=auto", kept, own)
	return own
}
