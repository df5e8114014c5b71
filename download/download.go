// Package download gets one file from an address outside, by the rules by which repositories are cloned.
package download

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
)

const op = landfall.Op("download.Get")

// patience is how long one file may take.
const patience = 5 * time.Minute

// File is a file at an address.
type File struct {
	URL      string
	Digest   landfall.Digest // that it must have; empty: whatever it has
	MaxBytes int64
}

// String returns the address for people, without what stands behind its "?": that may be a password.
func (f File) String() string {
	shown, _, _ := strings.Cut(f.URL, "?")
	return landfall.Printable(shown)
}

// Get writes the bytes of a file as they are sent. The dialer decides about its address, and about each one to which it
// leads. Forbidden for an address of the installation's own network; Invalid for one that cannot be fetched from, or
// does not have the file, and for a file that is larger than it may be or has another digest; Unavailable when the
// other side cannot be reached, breaks off or is too slow: then another try may succeed. The messages name the address.
// Of a file that is refused, a part may be written.
func Get(ctx context.Context, dialer *builder.Dialer, f File, to io.Writer) error {
	if err := checkAddress(dialer, f.URL); err != nil {
		return f.broken(ctx, err)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(limited, http.MethodGet, f.URL, nil)
	if err != nil {
		return f.fail(landfall.Invalid, nil, "its address cannot be read")
	}
	request.Header.Set("Accept-Encoding", "identity") // else what is packed would come unpacked
	transport := dialer.Transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		const most = 10
		if len(via) >= most {
			return &landfall.Error{Op: op, Kind: landfall.Invalid, Message: "it leads to more than 10 others"}
		}
		r.Header.Del("Referer") // it is the address before, which may hold a password
		return checkAddress(dialer, r.URL.String())
	}}
	response, err := client.Do(request)
	if err != nil {
		return f.broken(ctx, err)
	}
	defer response.Body.Close()
	if err := f.answered(response); err != nil {
		return err
	}
	return f.write(ctx, response.Body, to)
}

// checkAddress fails unless something may be fetched from an address.
func checkAddress(dialer *builder.Dialer, address string) error {
	without, _, _ := strings.Cut(address, "?")
	return dialer.CheckURL(without)
}

// answered fails unless the other side sends the file.
func (f File) answered(response *http.Response) error {
	kind := landfall.Invalid
	if response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests ||
		response.StatusCode == http.StatusRequestTimeout {
		kind = landfall.Unavailable
	}
	answer := fmt.Sprintf("it answers %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	switch {
	case response.StatusCode == http.StatusOK:
		return nil
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden:
		answer += ": no password is sent, so the file must be there for everybody"
	case kind == landfall.Invalid:
		answer += ": correct the address, or put the file there"
	}
	return f.fail(kind, nil, "%s", answer)
}

// write writes the file, and checks what it is.
func (f File) write(ctx context.Context, from io.Reader, to io.Writer) error {
	hash, body := sha256.New(), &source{Reader: from}
	n, err := io.Copy(io.MultiWriter(to, hash), io.LimitReader(body, f.MaxBytes+1))
	switch digest := landfall.DigestFromSum(hash.Sum(nil)); {
	case body.err != nil:
		return f.broken(ctx, body.err)
	case err != nil:
		return err
	case n > f.MaxBytes:
		return f.fail(landfall.Invalid, nil, "it has more than %d bytes (setting LANDFALL_MAX_FILE_BYTES)", f.MaxBytes)
	case f.Digest != "" && digest != f.Digest:
		return landfall.Errorf(op, landfall.Invalid, "%s has the digest %s, not %s: if it is to be so, say that digest; "+
			"else bring back the file", f, digest, f.Digest)
	}
	return nil
}

// source remembers why it could not be read.
type source struct {
	io.Reader

	err error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// broken is the error when the other side could not be talked to.
func (f File) broken(ctx context.Context, err error) error {
	address := f.URL
	if asked, is := errors.AsType[*url.Error](err); is { // its text has the whole address
		address, err = asked.URL, asked.Err
	}
	host := f.String()
	if u, wrong := url.Parse(address); wrong == nil {
		host = u.Host
	}
	_, badCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, network := errors.AsType[net.Error](err)
	_, named := errors.AsType[*landfall.Error](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return &landfall.Error{Op: op, Kind: landfall.Canceled, Err: ctx.Err()}
	case named:
		return f.fail(landfall.KindOf(err), err, "%s", landfall.MessageOf(err))
	case errors.Is(err, context.DeadlineExceeded):
		return f.fail(landfall.Unavailable, err, "it takes too long")
	case badCertificate:
		return f.fail(landfall.Unavailable, err, "the certificate of %s cannot be verified", host)
	case network:
		return f.fail(landfall.Unavailable, err, "%s cannot be reached", host)
	}
	return f.fail(landfall.Unavailable, err, "the answer of %s is not whole", host)
}

func (f File) fail(kind landfall.Kind, cause error, format string, values ...any) error {
	return &landfall.Error{Op: op, Kind: kind, Err: cause,
		Message: fmt.Sprintf("%s cannot be fetched: ", f) + fmt.Sprintf(format, values...)}
}
