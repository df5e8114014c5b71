package handmade

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/download"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/unpack"
)

// Content is a file, or an archive of files, that a person sends: exactly one of Upload, URL and Literal says where it
// is.
type Content struct {
	Upload  string
	URL     string // fetched once
	Literal []byte
	Name    string          // of a single file; empty: the last element of the URL's path
	Digest  landfall.Digest // that it must have; empty: whatever it has
}

// check fails with Invalid unless one thing says where the content is.
func (c Content) check() error {
	said := 0
	for _, there := range []bool{c.Upload != "", c.URL != "", len(c.Literal) > 0} {
		if there {
			said++
		}
	}
	if said != 1 {
		return invalid("content is an upload, an address or a literal: say one of them")
	}
	return nil
}

// received is content that is here.
type received struct {
	path string
	name string
	zip  bool
}

// receive brings content into a folder. Invalid when it is not there, is too large, has another digest, or must be an
// archive and is none.
func (m *Maker) receive(ctx context.Context, v Version, c Content, folder string, archive bool) (received, error) {
	r := received{name: c.Name}
	var err error
	switch {
	case c.Upload != "":
		r.path, err = m.Uploads.whole(v.Owner, c.Upload)
	case c.URL != "":
		r.name = cmp.Or(r.name, lastElement(c.URL))
		r.path, err = m.fetch(ctx, v, c, folder)
	default:
		r.path, err = write(folder, strings.NewReader(string(c.Literal)), m.Uploads.MaxBytes)
	}
	if err != nil {
		return r, err
	}
	if c.Digest != "" && c.URL == "" {
		digest, err := digestOf(r.path)
		if err == nil && digest != c.Digest {
			err = invalid("%s has the digest %s, not %s", cmp.Or(r.name, "the literal"), digest, c.Digest)
		}
		if err != nil {
			return r, err
		}
	}
	if archive || strings.HasSuffix(strings.ToLower(r.name), ".zip") {
		r.zip = true
		return r, checkZip(r.path, cmp.Or(r.name, "the archive"))
	}
	if r.name == "" || r.name != path.Base(r.name) || strings.HasPrefix(r.name, ".") ||
		strings.ContainsAny(r.name, "*?[]{}\\\x00\n") {
		return r, invalid("%q cannot be the name of the file", r.name)
	}
	return r, nil
}

// checkZip fails unless a file is a zip archive, with no more files than may be.
func checkZip(name, called string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		_, err = unpack.Open(called, f, info.Size(), artifact.MaxFiles)
	}
	return err
}

func lastElement(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Path == "" || strings.HasSuffix(u.Path, "/") {
		return ""
	}
	return path.Base(u.Path)
}

// begin counts a fetch, of all, of a namespace and of a token, until done. Unavailable when there are as many as may
// be: a slow address would hold a request, and a file of it, for minutes.
func (m *Maker) begin(v Version) (done func(), err error) {
	const most, mostOfNamespace, mostOfToken = 8, 4, 2
	m.counting.Lock()
	defer m.counting.Unlock()
	if m.fetches == nil {
		m.fetches = map[string]int{}
	}
	counted := map[string]int{"": most, "namespace " + v.Namespace: mostOfNamespace,
		"token " + string(v.Caller): mostOfToken}
	for what, most := range counted {
		if m.fetches[what] >= most {
			return nil, landfall.Errorf("handmade.fetch", landfall.Unavailable,
				"too much is being fetched already: try again later, or send the file")
		}
	}
	count := func(by int) {
		for what := range counted {
			if m.fetches[what] += by; m.fetches[what] == 0 {
				delete(m.fetches, what)
			}
		}
	}
	count(1)
	return func() {
		m.counting.Lock()
		defer m.counting.Unlock()
		count(-1)
	}, nil
}

// fetch gets what is at an address, by the rules by which repositories are cloned.
func (m *Maker) fetch(ctx context.Context, v Version, c Content, folder string) (string, error) {
	done, err := m.begin(v)
	if err != nil {
		return "", err
	}
	defer done()
	f, err := os.CreateTemp(folder, "content-*")
	if err != nil {
		return "", err
	}
	from := download.File{URL: c.URL, Digest: c.Digest, MaxBytes: m.Uploads.MaxBytes}
	return f.Name(), errors.Join(download.Get(ctx, m.Dialer, from, f), f.Close())
}

// write writes at most so many bytes into a file of a folder, and returns its path.
func write(folder string, from io.Reader, most int64) (string, error) {
	f, err := os.CreateTemp(folder, "content-*")
	if err != nil {
		return "", err
	}
	n, err := io.Copy(f, io.LimitReader(from, most+1))
	if err = errors.Join(err, f.Close()); err == nil && n > most {
		err = invalid("what is sent has more than %d bytes (LANDFALL_MAX_FILE_BYTES)", most)
	}
	return f.Name(), err
}

// file is the content as a file of a commit.
func (r received) file(name string) (remote.NewFile, error) {
	info, err := os.Stat(r.path)
	if err != nil {
		return remote.NewFile{}, err
	}
	return remote.NewFile{Path: name, Size: info.Size(), Open: func() (io.ReadCloser, error) {
		return os.Open(r.path)
	}}, nil
}

func invalid(format string, args ...any) error {
	return landfall.Errorf("handmade", landfall.Invalid, format, args...)
}
