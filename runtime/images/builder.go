package images

import (
	"archive/tar"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"landfall.dev/landfall"
)

// Function is a version of a function, as an image is made of it.
type Function struct {
	*landfall.Function
	Commit landfall.CommitSHA // whose apply made the version
}

// Reference names the image within a registry by what never means another one: NAMESPACE/NAME:UID.
func Reference(f *landfall.Function) string {
	return fmt.Sprintf("%s/%s:%s", f.Namespace, f.Name, f.Version)
}

// Content is what an image has.
type Content struct {
	Folder string   // the files, on this machine
	At     string   // where they lie in the image: a path without a slash before it; empty: they are its root
	Apart  string   // a folder below Folder that is a layer of its own, because many functions have it; empty: none
	Args   []string // the command that runs the function
	Env    []string // NAME=VALUE
	Dir    string   // where the command starts
}

// user is who a function is, here and in the sandbox.
const user = "65534:65534"

// Builder makes images and keeps them. Its methods may be called at the same time.
type Builder struct {
	dir     string
	limit   int64
	unpack  func(ctx context.Context, f *landfall.Function) (Content, func(), error)
	flights singleflight.Group
	turns   chan struct{} // as many images are made at a time
	made    *lru.Cache[string, *image]
	failed  *lru.Cache[string, time.Time] // when an image could not be made last

	mu    sync.Mutex
	kept  map[landfall.Digest]*keptLayer
	used  int64 // bytes
	clock int64 // counts uses
}

// keptLayer is a file in the builder's folder.
type keptLayer struct {
	size int64
	used int64 // by the builder's clock
}

// image is what is remembered of an image: all but its layers.
type image struct {
	digest, configDigest landfall.Digest
	manifest, config     []byte
	layers               []landfall.Digest
}

// has reports whether a digest is of the image or of a part of it.
func (i *image) has(d landfall.Digest) bool {
	return d == i.digest || d == i.configDigest || slices.Contains(i.layers, d)
}

// New returns a builder that keeps layers in dir, which it empties first, and removes what was not used for longest
// when they have more bytes than the limit. unpack returns what an image of a function has, which stays until the
// function that it returns is called.
func New(dir string, limit int64, unpack func(ctx context.Context, f *landfall.Function) (Content, func(),
	error)) (*Builder, error) {
	const (
		private  = 0o700
		atOnce   = 2
		remember = 4096 // images; each has a few kilobytes
	)
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.MkdirAll(dir, private)
	}
	if err != nil {
		return nil, landfall.Wrapf("images.New", landfall.Internal, err, "the folder of images cannot be made anew")
	}
	made, _ := lru.New[string, *image](remember) // its only error is a size below one
	failed, _ := lru.New[string, time.Time](remember)
	return &Builder{
		dir: dir, limit: limit, unpack: unpack, turns: make(chan struct{}, atOnce), made: made, failed: failed,
		kept: map[landfall.Digest]*keptLayer{},
	}, nil
}

// known returns an image that was made before; nil when it is not remembered.
func (b *Builder) known(f *landfall.Function) *image {
	made, _ := b.made.Get(Reference(f))
	return made
}

// failing reports whether a function's image could not be made just now.
func (b *Builder) failing(f *landfall.Function) bool {
	const again = time.Minute
	at, failed := b.failed.Get(Reference(f))
	return failed && time.Since(at) < again
}

// image returns the image of a function. However many ask for one that is not remembered, it is made once.
func (b *Builder) image(ctx context.Context, f Function) (*image, error) {
	if made := b.known(f.Function); made != nil {
		return made, nil
	}
	return b.make(ctx, f)
}

// layer opens a layer of an image of a function. One that is not kept any more is made again.
func (b *Builder) layer(ctx context.Context, f Function, d landfall.Digest) (*os.File, error) {
	file, err := b.open(d)
	if !os.IsNotExist(err) {
		return file, err
	}
	if _, err := b.make(ctx, f); err != nil {
		return nil, err
	}
	return b.open(d)
}

// make makes an image. Who asked for it first may go away; others wait for it, too.
func (b *Builder) make(ctx context.Context, f Function) (*image, error) {
	const patience = 10 * time.Minute
	flight := b.flights.DoChan(Reference(f.Function), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		select {
		case b.turns <- struct{}{}:
			defer func() { <-b.turns }()
		case <-ctx.Done():
			return nil, landfall.Errorf("images.make", landfall.Unavailable, "too many images are asked for; try again later")
		}
		made, err := b.build(ctx, f)
		if err == nil {
			b.made.Add(Reference(f.Function), made)
		} else {
			b.failed.Add(Reference(f.Function), time.Now())
		}
		return made, err
	})
	select {
	case <-ctx.Done():
		return nil, &landfall.Error{Op: "images.make", Kind: landfall.Canceled, Err: context.Cause(ctx)}
	case result := <-flight:
		made, _ := result.Val.(*image)
		return made, result.Err
	}
}

func (b *Builder) build(ctx context.Context, f Function) (*image, error) {
	content, done, err := b.unpack(ctx, f.Function)
	if err != nil {
		return nil, err
	}
	defer done()
	made := &image{}
	var layers []v1.Layer
	for _, t := range trees(content) {
		digest, size, err := t.write(b.dir)
		if err != nil {
			return nil, landfall.Wrapf("images.build", landfall.Internal, err, "a layer of an image cannot be written")
		}
		b.keep(digest, size)
		hash, err := v1.NewHash(string(digest))
		if err != nil {
			return nil, err
		}
		made.layers = append(made.layers, digest)
		layers = append(layers, layer{hash: hash, size: size, open: func() (io.ReadCloser, error) { return b.open(digest) }})
	}
	assembled, err := assemble(layers, config(f, content))
	if err != nil {
		return nil, landfall.Wrapf("images.build", landfall.Internal, err, "an image cannot be made")
	}
	if made.config, err = assembled.RawConfigFile(); err != nil {
		return nil, err
	}
	b.trim(made.layers)
	made.manifest, err = assembled.RawManifest()
	made.digest, made.configDigest = landfall.DigestOf(made.manifest), landfall.DigestOf(made.config)
	return made, err
}

// trees returns the layers: what many functions have, and the function's own.
func trees(c Content) []tree {
	apart := func(name string) bool {
		return c.Apart != "" && (name == c.Apart || strings.HasPrefix(name, c.Apart+"/"))
	}
	own := tree{from: c.Folder, at: c.At, has: func(name string) bool { return !apart(name) }}
	if c.At != "" { // the image has nothing but the function
		own.extra = []tar.Header{folder("tmp", temporaryMode)}
	}
	if c.Apart == "" {
		return []tree{own}
	}
	return []tree{{from: c.Folder, at: c.At, has: func(name string) bool { return name == "." || apart(name) }}, own}
}

// config is the configuration of a container. The app's is no part of it: it may be secret, and is no part of a
// function's version.
func config(f Function, c Content) v1.Config {
	return v1.Config{
		User: user, Env: c.Env, Entrypoint: c.Args, WorkingDir: c.Dir,
		Labels: map[string]string{
			"org.opencontainers.image.title":    f.Namespace + "/" + f.Name,
			"org.opencontainers.image.version":  string(f.Version),
			"org.opencontainers.image.revision": string(f.Commit),
			"dev.landfall.number":               strconv.FormatInt(f.Number, 10),
		},
	}
}

// assemble returns an OCI image.
func assemble(layers []v1.Layer, config v1.Config) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created, file.Config = "linux", runtime.GOARCH,
		v1.Time{Time: time.Unix(0, 0).UTC()}, config
	return mutate.ConfigFile(image, file)
}

// open opens a layer that is kept.
func (b *Builder) open(d landfall.Digest) (*os.File, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if kept, ok := b.kept[d]; ok {
		b.clock++
		kept.used = b.clock
	}
	return os.Open(b.path(d))
}

func (b *Builder) path(d landfall.Digest) string { return filepath.Join(b.dir, d.Hex()) }

// keep counts a layer that was written.
func (b *Builder) keep(d landfall.Digest, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.kept[d]; !ok {
		b.kept[d] = &keptLayer{size: size}
		b.used += size
	}
	b.clock++
	b.kept[d].used = b.clock
}

// trim removes the layers that were not used for longest, but not those of the image that was made last, until all
// together have no more bytes than the limit. Who reads one reads on.
func (b *Builder) trim(last []landfall.Digest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	oldestFirst := slices.SortedFunc(maps.Keys(b.kept), func(x, y landfall.Digest) int {
		return cmp.Compare(b.kept[x].used, b.kept[y].used)
	})
	for _, d := range oldestFirst {
		if b.used <= b.limit {
			return
		}
		if !slices.Contains(last, d) && os.Remove(b.path(d)) == nil {
			b.used -= b.kept[d].size
			delete(b.kept, d)
		}
	}
}
