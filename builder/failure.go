package builder

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder/pack"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// readError classifies an error of reading the repository.
func (m *Mirror) readError(op landfall.Op, err error) error {
	if _, ok := errors.AsType[*landfall.Error](err); ok || err == nil {
		return err
	}
	e := &landfall.Error{Op: op, Err: err}
	large, isLarge := errors.AsType[*pack.TooLargeError](err)
	switch {
	case isDiskFull(err):
		e.Kind, e.Message = landfall.Unavailable, diskFull
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return contextError(op, m.remote, err)
	case isLarge:
		return tooLarge(op, m.remote, large)
	case errors.Is(err, pack.ErrNotFound):
		e.Kind, e.Message = landfall.NotFound, "the object is not in "+m.remote.name()+": push again"
	case errors.Is(err, pack.ErrCorrupt):
		e.Kind, e.Message = landfall.Invalid, m.remote.name()+" holds a broken object: git fsck names it"
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Message = landfall.NotFound, m.remote.name()+" is not there"
	}
	return e
}

func tooLarge(op landfall.Op, r Remote, large *pack.TooLargeError) error {
	if large.Objects {
		return overLimit(op, fmt.Sprintf("%s sends %d objects at once", r.name(), large.Figure),
			strconv.FormatInt(large.Limit, 10), "LANDFALL_MAX_OBJECTS")
	}
	if large.Deltas {
		return overLimit(op, fmt.Sprintf("%s holds deltas that take %d bytes to apply", r.name(), large.Figure),
			bytes(large.Limit), "it grows with LANDFALL_MAX_FILE_BYTES")
	}
	return overLimit(op, fmt.Sprintf("%s holds a file or folder of %d bytes", r.name(), large.Figure),
		bytes(large.Limit), "LANDFALL_MAX_FILE_BYTES")
}

// contextError is the error when ctx ended: when we are stopping it is Canceled; a deadline means that the remote is
// slow.
func contextError(op landfall.Op, r Remote, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &landfall.Error{Op: op, Kind: landfall.Unavailable, Err: err, Message: r.name() + " took too long to answer"}
	}
	return &landfall.Error{Op: op, Kind: landfall.Canceled, Err: err}
}

// fetchError classifies an error of talking to a remote.
func fetchError(ctx context.Context, op landfall.Op, r Remote, x *exchange, err error) error {
	err = unwrapTransport(err)
	answer, refusal := x.outcome()
	if ctx.Err() != nil {
		return contextError(op, r, ctx.Err())
	}
	if refusal != nil {
		return refusal
	}
	if e, ok := errors.AsType[*landfall.Error](err); ok { // of the session by ssh, which keeps its errors
		return e
	}
	e := &landfall.Error{Op: op, Kind: landfall.Unavailable, Err: err}
	_, badCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, network := errors.AsType[net.Error](err)
	_, ours := errors.AsType[*fs.PathError](err)
	large, isLarge := errors.AsType[*pack.TooLargeError](err)
	switch {
	case isDiskFull(err):
		e.Message = diskFull
	case ours:
		e.Kind = landfall.Internal
	case isLarge:
		return tooLarge(op, r, large)
	case errors.Is(err, transport.ErrAuthenticationRequired) || errors.Is(err, transport.ErrAuthorizationFailed):
		e.Kind, e.Message = landfall.Unauthorized, credentials(r)
	case errors.Is(err, transport.ErrRepositoryNotFound):
		e.Kind = landfall.NotFound
		e.Message = "there is no repository at " + r.URL + ", or it is private: check the address, and " + token(r)
	case errors.Is(err, pack.ErrCorrupt), errors.Is(err, pack.ErrUnsupported):
		e.Message = r.URL + " sent a pack that is broken"
	case badCertificate:
		e.Message = "the certificate of " + host(r) + " cannot be verified"
	case network:
		e.Message = host(r) + " cannot be reached"
	case answer >= http.StatusInternalServerError || answer == http.StatusTooManyRequests:
		e.Message = fmt.Sprintf("%s answered %d", host(r), answer)
	case answer >= http.StatusMultipleChoices:
		e.Kind, e.Message = landfall.Invalid, fmt.Sprintf("%s answered %d: check the repository's address", host(r), answer)
	default:
		e.Message = r.URL + " did not answer as a git repository does"
	}
	return e
}

const diskFull = "this installation has no disk space left for the repository"

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func credentials(r Remote) string {
	if r.Password == "" {
		return r.URL + " asks for credentials: " + token(r)
	}
	return r.URL + " refused the stored token: " + token(r)
}

func token(r Remote) string {
	if r.Password == "" {
		return "store a token that may read it: landfall app set APP --repo-token-file FILE"
	}
	return "store a token that is valid and may read it: landfall app set APP --repo-token-file FILE"
}

func host(r Remote) string {
	if a, err := parseSSH(r.URL); err == nil && IsSSH(r.URL) {
		return a.host
	}
	if u, err := url.Parse(r.URL); err == nil && u.Host != "" {
		return u.Host
	}
	return r.URL
}

// unwrapTransport opens the errors of go-git that have no Unwrap.
func unwrapTransport(err error) error {
	if e, ok := errors.AsType[*plumbing.UnexpectedError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*plumbing.PermanentError](err); ok {
		return e.Err
	}
	return err
}
