package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"landfall.dev/landfall"
)

// Upload sends a file in parts, and returns the name by which a version takes it. A part that fails is tried again from
// where the server has it, for a while. progress hears how many bytes are there; it may be nil.
func (c *Client) Upload(ctx context.Context, file io.ReaderAt, size int64, progress func(sent int64)) (string, error) {
	digest, err := landfall.DigestOfReader(io.NewSectionReader(file, 0, size))
	if err != nil {
		return "", err
	}
	var u Upload
	if err := c.Do(ctx, http.MethodPost, "/uploads", NewUpload{Size: size, Digest: digest}, &u); err != nil {
		return "", err
	}
	const tries, pause = 5, time.Second
	for failed := 0; u.Offset < size; {
		err := c.sendPart(ctx, file, &u)
		if progress != nil {
			progress(u.Offset)
		}
		if err == nil {
			failed = 0
			continue
		}
		failed++
		if failed == tries || landfall.KindOf(err) == landfall.Invalid {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(time.Duration(failed) * pause):
		}
		if now := c.Do(ctx, http.MethodGet, "/uploads/"+u.ID, nil, &u); now != nil &&
			landfall.KindOf(now) != landfall.Unavailable {
			return "", errors.Join(err, now)
		}
	}
	return u.ID, nil
}

// sendPart sends the part of a file that comes next.
func (c *Client) sendPart(ctx context.Context, file io.ReaderAt, u *Upload) error {
	const most = 4 << 20
	part, err := io.ReadAll(io.NewSectionReader(file, u.Offset, min(most, u.Size-u.Offset)))
	if err != nil {
		return err
	}
	headers := http.Header{"Accept": {"application/json"}, "Content-Type": {"application/octet-stream"}}
	path := fmt.Sprintf("/api/v1/uploads/%s?offset=%d", u.ID, u.Offset)
	return c.exchange(ctx, http.MethodPatch, path, part, headers, u)
}

// Import sends an archive, of which a release of an app is made.
func (c *Client) Import(ctx context.Context, app string, archive io.Reader,
	query url.Values) (made Imported, err error) {
	path := "/api/v1/apps/" + url.PathEscape(app) + "/imports?" + query.Encode()
	headers := http.Header{"Accept": {"application/json"}, "Content-Type": {"application/x-tar"}}
	resp, err := c.accepted(ctx, http.MethodPost, path, archive, headers)
	if err != nil {
		return made, err
	}
	defer func() { _ = resp.Body.Close() }()
	err = decode(resp.Body, &made)
	return made, err
}

// Export writes the archive of a release. Unavailable when not all of it came.
func (c *Client) Export(ctx context.Context, app, release string, to io.Writer) (int64, error) {
	path := fmt.Sprintf("/api/v1/apps/%s/releases/%s/export", url.PathEscape(app), url.PathEscape(release))
	resp, err := c.accepted(ctx, http.MethodGet, path, nil, http.Header{"Accept": {"application/x-tar"}})
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	n, err := io.Copy(to, resp.Body)
	if err != nil || resp.ContentLength >= 0 && n != resp.ContentLength {
		err = landfall.Wrapf("client", landfall.Unavailable, errors.Join(err, io.ErrUnexpectedEOF),
			"the archive was broken off after %d bytes: export it again; the log of the server says why", n)
	}
	return n, err
}
