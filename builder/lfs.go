package builder

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
)

// pointer matches a pointer of Git LFS as its programs write it. One with extensions is none: nobody here has them.
var pointer = regexp.MustCompile(`^version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize (0|[1-9][0-9]{0,17})\n?$`)

// attributesFile is where a repository says which files are Git LFS's.
const attributesFile = ".gitattributes"

// usesLFS reports whether one of the attribute files that apply says that files are Git LFS's.
func (w *walk) usesLFS(ctx context.Context) (bool, error) {
	for _, hash := range w.attributes {
		r, _, err := w.objects.Blob(ctx, hash)
		if err != nil {
			return false, err
		}
		text, err := io.ReadAll(io.LimitReader(r, mib))
		if err := errors.Join(err, r.Close()); err != nil {
			return false, err
		}
		if strings.Contains(string(text), "filter=lfs") {
			return true, nil
		}
	}
	return false, nil
}

// resolvePointers lists the files of Git LFS as what they stand for.
func (w *walk) resolvePointers(ctx context.Context) error {
	uses, err := w.usesLFS(ctx)
	if err != nil || !uses {
		return err
	}
	for i, f := range w.files {
		if !MayBePointer(f) || f.Mode != landfall.Regular && f.Mode != landfall.Executable {
			continue
		}
		r, _, err := w.objects.Blob(ctx, plumbing.NewHash(f.Blob))
		if err != nil {
			return err
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		if found := pointer.FindSubmatch(text); found != nil {
			before := f.Size
			f.LFS, f.Digest = true, landfall.Digest("sha256:"+string(found[1]))
			f.Size, _ = strconv.ParseInt(string(found[2]), 10, 64) // 18 digits
			w.files[i] = f
			w.bytes += f.Size - before
			if f.Size > w.limits.FileBytes {
				return overLimit(w.op, fmt.Sprintf("%q has %d bytes", f.Path, f.Size), bytes(w.limits.FileBytes),
					"LANDFALL_MAX_FILE_BYTES")
			}
			if w.bytes > w.limits.CommitBytes {
				return w.tooLarge()
			}
		}
	}
	return nil
}

// lfsPath is where the bytes of a file of Git LFS are kept.
func (m *Mirror) lfsPath(file landfall.File) string {
	return filepath.Join(m.dir, "lfs", file.Digest.Hex())
}

// readLFS opens the bytes of a file of Git LFS. They are fetched when they are not here.
func (m *Mirror) readLFS(ctx context.Context, file landfall.File) (io.ReadCloser, error) {
	f, err := os.Open(m.lfsPath(file))
	if errors.Is(err, fs.ErrNotExist) {
		if err := m.FetchLFS(ctx, []landfall.File{file}); err != nil {
			return nil, err
		}
		f, err = os.Open(m.lfsPath(file))
	}
	if err != nil {
		return nil, &landfall.Error{Op: opLFS, Err: err}
	}
	return &reader{Reader: f, Closer: f, ended: ctx.Err, m: m}, nil
}

const (
	opLFS    = landfall.Op("builder.lfs")
	lfsMedia = "application/vnd.git-lfs+json"

	lfsBatch     = 100 // objects that are asked for at once
	lfsDownloads = 4   // at once
)

// FetchLFS fetches the bytes of those of the files that are Git LFS's and are not here, from the repository's own host.
// What the repository itself says of servers (.lfsconfig) does not count. Each error names a file. Kinds: see Fetch;
// Invalid for the built-in repository, which keeps none.
func (m *Mirror) FetchLFS(ctx context.Context, files []landfall.File) error {
	missing := map[string]landfall.File{} // by oid
	modules := map[*Mirror][]landfall.File{}
	for _, f := range files {
		if f.LFS && f.Module != "" {
			inside, f, err := m.module(f)
			if err != nil {
				return err
			}
			modules[inside] = append(modules[inside], f)
			continue
		}
		if _, err := os.Stat(m.lfsPath(f)); f.LFS && errors.Is(err, fs.ErrNotExist) {
			missing[f.Digest.Hex()] = f
		}
	}
	for inside, files := range modules {
		if err := inside.FetchLFS(ctx, files); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	some := make([]landfall.File, 0, len(missing))
	for _, f := range missing {
		some = append(some, f)
	}
	slices.SortFunc(some, func(a, b landfall.File) int { return strings.Compare(a.Path, b.Path) })
	if m.remote.Local != "" {
		return lfsError(landfall.Invalid, nil, some[0], "the built-in remote keeps no such files: commit the file itself "+
			"(git lfs migrate export), exclude it, or let the app read its repository at a forge")
	}
	c, err := m.remotes.lfsClient(ctx, m.remote)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(m.dir, "lfs"), 0o700); err != nil {
		return &landfall.Error{Op: opLFS, Err: err}
	}
	for batch := range slices.Chunk(some, lfsBatch) {
		objects, err := c.ask(ctx, batch)
		if err != nil {
			return err
		}
		downloads, ctx := errgroup.WithContext(ctx)
		downloads.SetLimit(lfsDownloads)
		for _, f := range batch {
			downloads.Go(func() error { return c.download(ctx, f, objects[f.Digest.Hex()], m.lfsPath(f)) })
		}
		if err := downloads.Wait(); err != nil {
			return err
		}
	}
	return m.pruneLFS(missing)
}

// pruneLFS removes the bytes that were fetched first, where there are more than two commits may have.
func (m *Mirror) pruneLFS(needed map[string]landfall.File) error {
	entries, err := os.ReadDir(filepath.Join(m.dir, "lfs"))
	var all []fs.FileInfo
	var size int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			all, size = append(all, info), size+info.Size()
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, old := range all {
		if size <= 2*m.limits.CommitBytes {
			break
		}
		if _, now := needed[old.Name()]; !now {
			err = errors.Join(err, os.Remove(filepath.Join(m.dir, "lfs", old.Name())))
			size -= old.Size()
		}
	}
	if err != nil {
		return &landfall.Error{Op: opLFS, Err: err}
	}
	return nil
}

// lfsError is an error about a file of Git LFS.
func lfsError(kind landfall.Kind, cause error, file landfall.File, why string) error {
	return &landfall.Error{Op: opLFS, Kind: kind, Err: cause,
		Message: quote(file.Path) + " is a file of Git LFS, and " + why}
}

// lfsClient speaks the batch API of Git LFS with one repository's server.
type lfsClient struct {
	x      *exchange
	client *http.Client
	url    string
	header map[string]string // for url's host
}

// lfsClient finds the server of a repository: below its address or, by ssh, where its host says.
func (m *Mirrors) lfsClient(ctx context.Context, r Remote) (*lfsClient, error) {
	x, session, err := m.session(opLFS, r)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	m.once.Do(func() { m.transport = m.dialer().Transport() })
	x.base, x.keepsHeader = m.transport, true
	c := &lfsClient{x: x, client: &http.Client{Transport: x, CheckRedirect: staysWithHost}}
	if by, ok := session.(*sshSession); ok {
		return c, by.lfsServer(ctx, c)
	}
	c.url = strings.TrimSuffix(strings.TrimSuffix(r.URL, "/"), ".git") + ".git/info/lfs"
	return c, nil
}

// staysWithHost follows a redirect without what was sent for another host only.
func staysWithHost(r *http.Request, via []*http.Request) error {
	const most = 5
	if len(via) > most {
		return errors.New("too many redirects")
	}
	if first := via[0].URL; first.Scheme != r.URL.Scheme || !strings.EqualFold(first.Host, r.URL.Host) {
		for name := range r.Header {
			r.Header.Del(name)
		}
	}
	return nil
}

// lfsAction is how one object is downloaded.
type lfsAction struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

// lfsRefusal says why there is no action.
type lfsRefusal struct {
	Code int `json:"code"`
}

type lfsObject struct {
	OID     string               `json:"oid"`
	Size    int64                `json:"size"`
	Actions map[string]lfsAction `json:"actions,omitempty"`
	Error   *lfsRefusal          `json:"error,omitempty"`
}

// ask asks where the files' bytes are.
func (c *lfsClient) ask(ctx context.Context, files []landfall.File) (map[string]lfsObject, error) {
	asked := struct {
		Operation string      `json:"operation"`
		Transfers []string    `json:"transfers"`
		Objects   []lfsObject `json:"objects"`
	}{Operation: "download", Transfers: []string{"basic"}}
	for _, f := range files {
		asked.Objects = append(asked.Objects, lfsObject{OID: f.Digest.Hex(), Size: f.Size})
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, &landfall.Error{Op: opLFS, Err: err}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/objects/batch", strings.NewReader(string(body)))
	if err != nil {
		return nil, &landfall.Error{Op: opLFS, Err: err}
	}
	r.Header.Set("Content-Type", lfsMedia)
	r.Header.Set("Accept", lfsMedia)
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	res, err := c.client.Do(r)
	if err != nil {
		return nil, c.failed(ctx, files[0], err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, c.refused(files[0], res.StatusCode)
	}
	var answer struct {
		Objects []lfsObject `json:"objects"`
	}
	const most = 8 * mib
	if err := json.NewDecoder(io.LimitReader(res.Body, most)).Decode(&answer); err != nil {
		return nil, c.failed(ctx, files[0], err)
	}
	found := make(map[string]lfsObject, len(answer.Objects))
	for _, o := range answer.Objects {
		found[o.OID] = o
	}
	return found, nil
}

// download stores the bytes of one file at the path, once they are what its pointer says.
func (c *lfsClient) download(ctx context.Context, file landfall.File, object lfsObject, path string) (err error) {
	action, ok := object.Actions["download"]
	if !ok || object.Error != nil {
		if object.Error != nil && object.Error.Code != http.StatusNotFound {
			return c.refused(file, object.Error.Code)
		}
		return lfsError(landfall.NotFound, nil, file, host(c.x.remote)+" does not have its bytes: push them "+
			"(git lfs push --all origin), and push again")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, action.Href, nil)
	if err != nil {
		return lfsError(landfall.Unavailable, err, file, host(c.x.remote)+" names an address for it that cannot be read")
	}
	for name, value := range action.Header {
		r.Header.Set(name, value)
	}
	res, err := c.client.Do(r)
	if err != nil {
		return c.failed(ctx, file, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return c.refused(file, res.StatusCode)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "tmp_")
	if err != nil {
		return &landfall.Error{Op: opLFS, Err: err}
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, hash), io.LimitReader(res.Body, file.Size+1))
	if closed := errors.Join(f.Sync(), f.Close()); err == nil && closed != nil {
		return &landfall.Error{Op: opLFS, Err: closed}
	}
	if err != nil {
		return c.failed(ctx, file, err)
	}
	if n != file.Size || landfall.DigestFromSum(hash.Sum(nil)) != file.Digest {
		return lfsError(landfall.Unavailable, nil, file, host(c.x.remote)+" gave other bytes than its pointer names")
	}
	return os.Rename(f.Name(), path)
}

// failed is the error of a request that got no answer, or no whole one.
func (c *lfsClient) failed(ctx context.Context, file landfall.File, err error) error {
	if ctx.Err() != nil {
		return contextError(opLFS, c.x.remote, ctx.Err())
	}
	if isDiskFull(err) {
		return lfsError(landfall.Unavailable, err, file, diskFull)
	}
	if _, refusal := c.x.outcome(); refusal != nil {
		return lfsError(landfall.KindOf(refusal), err, file, landfall.MessageOf(refusal))
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the address, which may be signed
	}
	return lfsError(landfall.Unavailable, err, file, "its bytes cannot be fetched from "+host(c.x.remote))
}

// refused is the error for an answer that is not the bytes.
func (c *lfsClient) refused(file landfall.File, status int) error {
	of := host(c.x.remote)
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return lfsError(landfall.Unauthorized, nil, file, fmt.Sprintf("%s answers %d for it: the credential of the app may "+
			"not read it, or the account has used up its budget for Git LFS; %s", of, status, token(c.x.remote)))
	case status == http.StatusNotFound:
		return lfsError(landfall.Invalid, nil, file, of+" keeps no such files of the repository, or the credential of the "+
			"app may not read them: commit the file itself (git lfs migrate export), or exclude it")
	case status >= http.StatusInternalServerError || status == http.StatusTooManyRequests:
		return lfsError(landfall.Unavailable, nil, file, fmt.Sprintf("%s answers %d for it", of, status))
	}
	return lfsError(landfall.Invalid, nil, file, fmt.Sprintf("%s answers %d for it: commit the file itself, or exclude it",
		of, status))
}

// lfsServer asks the host where the server for Git LFS is.
func (s *sshSession) lfsServer(ctx context.Context, c *lfsClient) error {
	client, stop, err := s.dial(ctx)
	if err != nil {
		return fetchError(ctx, opLFS, s.x.remote, s.x, err)
	}
	defer func() {
		stop()
		_ = client.Close()
	}()
	session, err := client.NewSession()
	if err != nil {
		return fetchError(ctx, opLFS, s.x.remote, s.x, err)
	}
	var answer strings.Builder
	const most = 64 * kib
	session.Stdout = &limitedWriter{&answer, most}
	err = session.Run("git-lfs-authenticate '" + s.address.path + "' download")
	var server lfsAction
	if err == nil {
		err = json.Unmarshal([]byte(answer.String()), &server)
	}
	if err != nil || server.Href == "" {
		return landfall.Wrapf(opLFS, landfall.Invalid, err, "%s has files of Git LFS, and %s does not say by ssh where it "+
			"keeps them: commit the files themselves (git lfs migrate export), or exclude them", s.x.remote.URL, s.address.host)
	}
	c.url, c.header = strings.TrimSuffix(server.Href, "/"), server.Header
	return nil
}
