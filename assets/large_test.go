package assets_test

import (
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
)

// chunks notes the longest read.
type chunks struct {
	io.Reader

	longest int
}

func (c *chunks) Read(p []byte) (int, error) {
	c.longest = max(c.longest, len(p))
	return c.Reader.Read(p)
}

// A video of 64 MiB goes from the repository to the store.
func TestLargeFile(t *testing.T) {
	t.Parallel()
	const size, allowed = 64 << 20, 1 << 20
	content := func() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), size) }
	hash := sha256.New()
	if _, err := io.Copy(hash, content()); err != nil {
		t.Fatal(err)
	}
	source := &chunks{Reader: content()}
	read := func(context.Context, landfall.File) (io.ReadCloser, error) { return io.NopCloser(source), nil }
	file := landfall.File{Path: "video.mp4", Size: size, Digest: landfall.DigestFromSum(hash.Sum(nil))}
	units, _, err := assets.Select([]assets.Rule{{Src: "video.mp4", Path: "/"}}, []landfall.File{file})
	if err != nil {
		t.Fatal(err)
	}
	plan := assets.Plan(units[0], rootPrefix("firstuid"))
	manifest, result, err := assets.Uploader{Store: openStore(t), Read: read}.Upload(t.Context(), plan)
	// L-034: a large file is stored by one upload without a token, whole.
	if err != nil || result.Bytes != size {
		t.Fatalf("got %+v, %v, want %d bytes", result, err, size)
	}
	if stored, ok := manifest.Lookup("/video.mp4"); !ok || stored.Digest != file.Digest {
		t.Errorf("got digest %s, want %s", stored.Digest, file.Digest)
	}
	// L-034: and it is streamed, a small part in memory at a time.
	if source.longest > allowed {
		t.Errorf("%d bytes were read at once, want at most %d", source.longest, allowed)
	}
}
