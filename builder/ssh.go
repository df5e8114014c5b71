package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/outbound"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
)

// sshAddress is where a repository is read by ssh.
type sshAddress struct {
	user, host, port string
	path             string // as the host's program for git gets it
}

// IsSSH reports whether a clone address is one for ssh: ssh://git@HOST/PATH or git@HOST:PATH.
func IsSSH(address string) bool {
	if strings.HasPrefix(address, "ssh://") {
		return true
	}
	host, _, ok := strings.Cut(address, ":")
	return ok && !strings.Contains(address, "://") && !strings.Contains(host, "/") && strings.ContainsAny(host, "@.")
}

// These are what a user, and a path, of an address for ssh can be. The path reaches a shell of the host, in quotes, so
// it can have nothing that ends them.
var (
	sshUser = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	sshPath = regexp.MustCompile(`^[A-Za-z0-9._~/][A-Za-z0-9._~/+@%=,-]*$`)
)

// parseSSH reads an address for which IsSSH is true.
func parseSSH(address string) (a sshAddress, err error) {
	const op landfall.Op = "builder.check-url"
	const form = "it is ssh://git@HOST/PATH or git@HOST:PATH"
	refuse := func(reason string) (sshAddress, error) {
		return a, &landfall.Error{Op: op, Kind: landfall.Invalid, Message: "the address " + reason}
	}
	text := address
	if !strings.HasPrefix(text, "ssh://") {
		authority, path, _ := strings.Cut(text, ":")
		a.path = path
		text = "ssh://" + authority
	}
	u, err := url.Parse(text)
	if err != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(text, "#") {
		return refuse("cannot be read: " + form)
	}
	if _, has := u.User.Password(); has {
		return refuse("has a password in it: leave it out; a repository is read by ssh with a deploy key")
	}
	a.user, a.host, a.port = cmp.Or(u.User.Username(), "git"), outbound.CanonicalHost(u.Hostname()), cmp.Or(u.Port(), "22")
	if a.path == "" {
		a.path = u.Path
	}
	if strings.HasPrefix(a.path, "/~") {
		a.path = a.path[1:] // which is in a user's folder
	}
	switch {
	case a.host == "" || strings.HasPrefix(a.host, "-"):
		return refuse("names no host: " + form)
	case !sshUser.MatchString(a.user):
		return refuse("has a user that cannot be one: " + form)
	case !sshPath.MatchString(a.path) || strings.Trim(a.path, "/") == "":
		return refuse("has a path that cannot be read by ssh: " + form)
	}
	return a, nil
}

// CheckRepository returns an Invalid error unless address can be the clone address of a repository: what CheckURL
// allows, or one for ssh whose host is not obviously refused.
func (d *Dialer) CheckRepository(address string) error {
	if !IsSSH(address) || strings.HasPrefix(address, "-") || len(address) > maxAddress {
		return d.CheckURL(address)
	}
	a, err := parseSSH(address)
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(a.host); err == nil && !d.allows(a.host, a.port) && outbound.IsPrivate(ip) {
		return forbidden(a.host)
	}
	return nil
}

// HasKnownHost reports whether an address is for ssh, and the keys of its host are built in.
func HasKnownHost(address string) bool {
	a, err := parseSSH(address)
	return IsSSH(address) && err == nil && publishedKeys(a.host) != nil
}

// dialSSH connects to a host for ssh, by the rules for all addresses from outside.
func (d *Dialer) dialSSH(ctx context.Context, address string) (net.Conn, error) {
	if by := d.Proxy.For("https", address); by != nil {
		return d.Proxy.Tunnel(ctx, by, address, d.resolver(), d.check)
	}
	return d.DialContext(ctx, "tcp", address)
}

// sshSession reads a repository by ssh. Each answer to UploadPack needs a connection of its own, except the first.
type sshSession struct {
	x       *exchange
	address sshAddress
	now     *sshCall // open, and nothing was asked for yet; nil: there is none
	last    *sshCall // whose pack is being read
}

// sshCall is one run of the host's program for git.
type sshCall struct {
	client     *ssh.Client
	session    *ssh.Session
	stop       func() bool
	in         io.WriteCloser
	out        io.Reader
	said       strings.Builder // the beginning of what it says to people
	advertised *packp.AdvRefs
}

func (c *sshCall) close() {
	if c != nil {
		c.stop()
		_ = c.client.Close()
	}
}

// idle is how long a host for ssh may send nothing, as long as one for https may take to answer.
const idle = 2 * time.Minute

// idleConn is a connection that ends when nothing comes for too long.
type idleConn struct{ net.Conn }

func (c idleConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(idle)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// dial connects and proves, both ways, who speaks.
func (s *sshSession) dial(ctx context.Context) (client *ssh.Client, stop func() bool, err error) {
	const op landfall.Op = "builder.fetch"
	r := s.x.remote
	if r.Key == "" {
		return nil, nil, landfall.Errorf(op, landfall.Unauthorized,
			"%s is read with a deploy key, and there is none: landfall app key APP --rotate makes one", r.URL)
	}
	signer, err := signerOf(r.Key)
	if err != nil {
		return nil, nil, err
	}
	pinned, err := s.pinnedKeys()
	if err != nil {
		return nil, nil, err
	}
	known, refusal := false, error(nil)
	config := &ssh.ClientConfig{
		User: s.address.user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyAlgorithms: algorithms(pinned),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			known = slices.ContainsFunc(pinned, func(p ssh.PublicKey) bool { return slices.Equal(p.Marshal(), key.Marshal()) })
			if !known {
				refusal = otherKey(s.address.host, ssh.FingerprintSHA256(key))
				return refusal
			}
			return nil
		},
	}
	at := net.JoinHostPort(s.address.host, s.address.port)
	conn, err := s.x.dialer.dialSSH(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	proven, channels, requests, err := ssh.NewClientConn(idleConn{conn}, at, config)
	if err == nil {
		return ssh.NewClient(proven, channels, requests), stop, nil
	}
	stop()
	_ = conn.Close()
	_, other := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case refusal != nil:
		err = refusal
	case other:
		err = otherKey(s.address.host, "of another type")
	case known && !network && !errors.Is(err, io.EOF):
		err = landfall.Wrapf(op, landfall.Unauthorized, err, "%s does not take the deploy key: add the public key, which "+
			"landfall app key APP prints, to the repository there", s.address.host)
	}
	return nil, nil, err
}

func otherKey(host, found string) error {
	return landfall.Errorf("builder.fetch", landfall.Forbidden,
		"%s has another host key (%s) than the one that is pinned, so nothing was sent to it: somebody may have come in "+
			"between; if the host says that it changed its key, pin the new one (landfall app key APP --host-key-file FILE)",
		host, found)
}

// pinnedKeys returns the keys that the host may have.
func (s *sshSession) pinnedKeys() (keys []ssh.PublicKey, err error) {
	lines := publishedKeys(s.address.host)
	if given := s.x.remote.HostKeys; given != "" {
		lines = strings.Split(given, "\n")
	}
	if len(lines) == 0 {
		return nil, landfall.Errorf("builder.fetch", landfall.Invalid, "the host key of %[1]s is not known: compare what "+
			"ssh-keyscan %[1]s prints with what the host publishes, and pin it (landfall app key APP --host-key-file FILE)",
			s.address.host)
	}
	for _, line := range lines {
		key, err := readHostKey(line)
		if err != nil {
			return nil, &landfall.Error{Op: "builder.fetch", Err: err}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// algorithms returns what the host may prove its keys with, so that it shows one that is pinned.
func algorithms(keys []ssh.PublicKey) (names []string) {
	for _, key := range keys {
		if key.Type() == ssh.KeyAlgoRSA {
			names = append(names, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		names = append(names, key.Type())
	}
	return names
}

// open starts the host's program for git, and reads the references that it has.
func (s *sshSession) open(ctx context.Context) (c *sshCall, err error) {
	client, stop, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	c = &sshCall{client: client, stop: stop, advertised: packp.NewAdvRefs()}
	defer func() {
		if err != nil && !errors.Is(err, transport.ErrEmptyRemoteRepository) {
			c.close()
		}
	}()
	if c.session, err = client.NewSession(); err != nil {
		return nil, err
	}
	const said = 4 * kib
	c.session.Stderr = &limitedWriter{&c.said, said}
	out, err := c.session.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = &meteredBody{ReadCloser: io.NopCloser(out), x: s.x}
	if c.in, err = c.session.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.session.Start(transport.UploadPackServiceName + " '" + s.address.path + "'"); err != nil {
		return nil, err
	}
	err = c.advertised.Decode(c.out)
	if errors.Is(err, packp.ErrEmptyAdvRefs) || err == nil && c.advertised.IsEmpty() {
		return c, transport.ErrEmptyRemoteRepository
	}
	if err != nil {
		return nil, s.refused(c, err)
	}
	transport.FilterUnsupportedCapabilities(c.advertised.Capabilities)
	return c, nil
}

// refused returns the error when a host that took the key gives no repository.
func (s *sshSession) refused(c *sshCall, err error) error {
	_, network := errors.AsType[net.Error](err)
	_, said := errors.AsType[*pktline.ErrorLine](err)
	if _, refusal := s.x.outcome(); refusal != nil || network {
		return err
	}
	_, exited := errors.AsType[*ssh.ExitError](c.session.Wait())
	if !said && !exited {
		return err
	}
	return landfall.Wrapf("builder.fetch", landfall.NotFound, fmt.Errorf("%w: %s", err, c.said.String()),
		"there is no repository at %s, or the deploy key may not read it: check the address, and add the public key, "+
			"which landfall app key APP prints, to the repository there", s.x.remote.URL)
}

// AdvertisedReferencesContext returns the references that the host has.
func (s *sshSession) AdvertisedReferencesContext(ctx context.Context) (refs *packp.AdvRefs, err error) {
	if s.now, err = s.open(ctx); err != nil {
		return nil, err
	}
	return s.now.advertised, nil
}

// UploadPack asks for a pack.
func (s *sshSession) UploadPack(ctx context.Context, request *packp.UploadPackRequest) (*packp.UploadPackResponse,
	error) {
	if s.now == nil {
		var err error
		if s.now, err = s.open(ctx); err != nil {
			return nil, err
		}
	}
	s.last.close()
	s.last, s.now = s.now, nil
	err := errors.Join(request.UploadRequest.Encode(s.last.in), request.UploadHaves.Encode(s.last.in, false),
		pktline.NewEncoder(s.last.in).EncodeString("done\n"), s.last.in.Close())
	if err != nil {
		return nil, err
	}
	response := packp.NewUploadPackResponse(request)
	err = response.Decode(io.NopCloser(s.last.out))
	return response, err
}

// Close closes all connections.
func (s *sshSession) Close() error {
	s.now.close()
	s.last.close()
	return nil
}

// limitedWriter keeps the beginning of what is written.
type limitedWriter struct {
	to   *strings.Builder
	left int
}

func (w *limitedWriter) Write(b []byte) (int, error) {
	n := min(len(b), w.left)
	w.left -= n
	_, _ = w.to.Write(b[:n]) // never fails
	return len(b), nil
}

// KeyPage is the page of the forge at which a deploy key is added to the repository at an address for ssh; empty when
// it is not known.
func KeyPage(address string) string {
	a, err := parseSSH(address)
	if err != nil || publishedKeys(a.host) == nil { // which are GitHub's
		return ""
	}
	return "https://github.com/" + strings.TrimSuffix(strings.Trim(a.path, "/"), ".git") + "/settings/keys/new"
}
