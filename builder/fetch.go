package builder

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder/pack"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// maxPacks is how many packs a mirror may have before Fetch joins them.
const maxPacks = 50

// Fetch brings the commit that ref names, or named, into r's mirror and opens the mirror. It transfers only what is
// new. It always asks an external repository, with r's own credentials, even when the mirror has the commit, because
// apps do not share the right to read. It may be repeated. Kinds: NotFound (the commit is gone, the repository is empty
// or does not exist), Unauthorized, Forbidden (an address that may not be dialed), Invalid (an address, a limit),
// Unavailable, Canceled.
func (m *Mirrors) Fetch(ctx context.Context, r Remote, ref landfall.RefName,
	commit landfall.CommitSHA) (*Mirror, error) {
	return m.FetchSince(ctx, r, ref, commit, time.Now())
}

// FetchSince is Fetch for a commit that was pushed before a time. When the repository has been asked with the same
// credentials since then, and the mirror has the commit, it is not asked again: a push to a repository of many apps is
// fetched once.
func (m *Mirrors) FetchSince(ctx context.Context, r Remote, ref landfall.RefName, commit landfall.CommitSHA,
	since time.Time) (*Mirror, error) {
	const op = landfall.Op("builder.fetch")
	name, err := objectName(op, commit)
	if err != nil {
		return nil, err
	}
	mirror := m.open(r)
	if r.Local == "" {
		err = m.fetch(ctx, op, mirror, name, since)
	}
	if err == nil {
		err = mirror.checkCommit(op, ref, name)
	}
	if err != nil {
		_ = mirror.Close()
		return nil, err
	}
	return mirror, nil
}

// fetch fetches what is new, under the mirror's lock.
func (m *Mirrors) fetch(ctx context.Context, op landfall.Op, mirror *Mirror, commit plumbing.Hash,
	since time.Time) error {
	release, err := mirror.lock.acquire(ctx)
	if err != nil {
		return contextError(op, mirror.remote, err)
	}
	defer release()
	if last := mirror.lock.asked; last.remote == mirror.remote && !last.at.Before(since) && mirror.contains(commit) {
		return nil
	}
	begin := time.Now()
	c, err := m.call(ctx, op, mirror.remote)
	if err != nil {
		return err
	}
	defer c.close()
	if err := mirror.prepare(); err != nil {
		return mirror.readError(op, err)
	}
	refs, err := mirror.references()
	if err != nil {
		return mirror.readError(op, err)
	}
	if err := m.fetchPack(ctx, op, mirror, c, refs, c.wants(mirror, commit)); err != nil {
		return err
	}
	// The reference is gone or has moved. Many servers still send a commit by its name.
	if !mirror.contains(commit) && c.allowsCommitWants() {
		err := m.fetchPack(ctx, op, mirror, c, refs, []plumbing.Hash{commit})
		if err != nil && !c.isRefusal(err) {
			return err
		}
	}
	if err := mirror.setReferences(c.refs); err != nil {
		return mirror.readError(op, err)
	}
	mirror.lock.asked = asked{mirror.remote, begin}
	return mirror.join(ctx, op)
}

// session is a conversation with a remote, by https or by ssh.
type session interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	UploadPack(ctx context.Context, request *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	io.Closer
}

// call is one conversation with a remote, after it has advertised its references.
type call struct {
	x          *exchange
	session    session
	advertised *packp.AdvRefs
	refs       map[landfall.RefName]plumbing.Hash // branches and tags, by names that git allows
}

func (c *call) close() { _ = c.session.Close() }

// session prepares a conversation with a remote.
func (m *Mirrors) session(op landfall.Op, r Remote) (*exchange, session, error) {
	if err := m.dialer().CheckRepository(r.URL); err != nil {
		return nil, nil, err
	}
	x := &exchange{dialer: m.dialer(), remote: r, limit: m.Limits.WithDefaults().ReceivedBytes}
	if IsSSH(r.URL) {
		address, err := parseSSH(r.URL)
		return x, &sshSession{x: x, address: address}, err
	}
	unreadable := func(err error) error {
		return landfall.Wrapf(op, landfall.Invalid, err, "the repository's address cannot be read")
	}
	var err error
	if x.origin, err = url.Parse(r.URL); err != nil {
		return nil, nil, unreadable(err)
	}
	m.once.Do(func() { m.transport = m.dialer().Transport() })
	x.base = m.transport
	endpoint, err := transport.NewEndpoint(r.URL)
	if err != nil {
		return nil, nil, unreadable(err)
	}
	s, err := githttp.NewClient(&http.Client{Transport: x}).NewUploadPackSession(endpoint, nil)
	if err != nil {
		return nil, nil, &landfall.Error{Op: op, Err: err}
	}
	return x, s, nil
}

// call asks a remote for its references. An empty repository has none.
func (m *Mirrors) call(ctx context.Context, op landfall.Op, r Remote) (*call, error) {
	x, session, err := m.session(op, r)
	if err != nil {
		return nil, err
	}
	c := &call{x: x, session: session, refs: make(map[landfall.RefName]plumbing.Hash)}
	c.advertised, err = session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		c.advertised = packp.NewAdvRefs()
		return c, nil
	}
	if err != nil {
		c.close()
		return nil, fetchError(ctx, op, r, x, err)
	}
	for s, hash := range c.advertised.References {
		name, err := landfall.ParseRefName(s)
		_, branch := name.Branch()
		_, tag := name.Tag()
		if err == nil && (branch || tag) {
			c.refs[name] = hash
		}
	}
	return c, nil
}

// wants returns the remote's references that the mirror does not have.
func (c *call) wants(mirror *Mirror, commit plumbing.Hash) []plumbing.Hash {
	var wants []plumbing.Hash
	seen := make(map[plumbing.Hash]bool)
	for _, hash := range c.refs {
		if !seen[hash] && !mirror.contains(hash) {
			wants = append(wants, hash)
		}
		seen[hash] = true
	}
	// Another reference (refs/pull/…) may name the commit: then the server sends it like any other.
	for _, hash := range c.advertised.References {
		if hash == commit && !seen[hash] && !mirror.contains(hash) {
			wants = append(wants, hash)
			break
		}
	}
	return wants
}

// allowsCommitWants reports whether the server sends commits that no reference names.
func (c *call) allowsCommitWants() bool {
	return c.advertised.Capabilities.Supports(capability.AllowReachableSHA1InWant) ||
		c.advertised.Capabilities.Supports(capability.AllowTipSHA1InWant) ||
		c.advertised.Capabilities.Supports("allow-any-sha1-in-want")
}

// isRefusal reports whether err is the server's answer that it does not send the commit.
func (c *call) isRefusal(err error) bool {
	answer, refusal := c.x.outcome()
	_, network := errors.AsType[net.Error](err)
	return refusal == nil && !network && answer < http.StatusInternalServerError && landfall.Is(err, landfall.Unavailable)
}

// fetchPack fetches wants and everything that they need, without what the mirror has.
func (m *Mirrors) fetchPack(
	ctx context.Context, op landfall.Op, mirror *Mirror, c *call, have map[landfall.RefName]plumbing.Hash,
	wants []plumbing.Hash,
) error {
	if len(wants) == 0 {
		return nil
	}
	request := packp.NewUploadPackRequestFromCapabilities(c.advertised.Capabilities)
	if c.advertised.Capabilities.Supports(capability.NoProgress) {
		if err := request.Capabilities.Set(capability.NoProgress); err != nil {
			return mirror.readError(op, err)
		}
	}
	request.Wants = wants
	request.Haves = mirror.haves(c.refs, have, nearAncestors)
	response, err := c.session.UploadPack(ctx, request)
	if err == nil && len(response.ACKs) == 0 { // the whole history was rewritten, or the mirror is empty
		if far := mirror.haves(c.refs, have, farAncestors); len(far) > len(request.Haves) {
			_ = response.Close()
			request.Haves = far
			response, err = c.session.UploadPack(ctx, request)
		}
	}
	if err != nil {
		return fetchError(ctx, op, mirror.remote, c.x, err)
	}
	defer func() { _ = response.Close() }()
	var data io.Reader = response
	switch {
	case request.Capabilities.Supports(capability.Sideband64k):
		data = sideband.NewDemuxer(sideband.Sideband64k, response)
	case request.Capabilities.Supports(capability.Sideband):
		data = sideband.NewDemuxer(sideband.Sideband, response)
	}
	limits := pack.Limits{Objects: mirror.limits.Objects, Object: mirror.limits.maxObject()}
	if err := pack.Receive(ctx, mirror.dir, data, limits); err != nil {
		return fetchError(ctx, op, mirror.remote, c.x, err)
	}
	return mirror.refresh()
}

// join joins the packs when there are too many. A failure does not fail the run: the next fetch tries again.
func (m *Mirror) join(ctx context.Context, op landfall.Op) error {
	o, err := m.current(nil)
	if err != nil {
		return m.readError(op, err)
	}
	if o.Packs() <= maxPacks {
		return nil
	}
	return m.readError(op, pack.Join(ctx, m.dir, m.lock.remove))
}

// checkCommit returns an error unless the mirror has the commit, or a tag of it.
func (m *Mirror) checkCommit(op landfall.Op, ref landfall.RefName, name plumbing.Hash) error {
	_, err := m.peel(op, landfall.CommitSHA(name.String()))
	if err == nil || landfall.KindOf(err) != landfall.NotFound {
		return err
	}
	refs, missing := m.references()
	if missing != nil {
		return m.readError(op, missing)
	}
	if len(refs) == 0 {
		return &landfall.Error{Op: op, Kind: landfall.NotFound, Err: err,
			Message: m.remote.name() + " is empty: push a commit first"}
	}
	return landfall.Wrapf(op, landfall.NotFound, err,
		"commit %s of %s is not in %s any more: the branch was rewritten or deleted; push again",
		landfall.CommitSHA(name.String()).Short(), shortRef(ref), m.remote.name())
}

func shortRef(ref landfall.RefName) string {
	if branch, ok := ref.Branch(); ok {
		return branch
	}
	if tag, ok := ref.Tag(); ok {
		return tag
	}
	return string(ref)
}

// Heads returns the branches and tags of r (for a tag the commit to which it finally leads) and the branch that its
// HEAD names, empty when it names none. An empty repository has no branches, which is no error. Kinds: see Fetch.
func (m *Mirrors) Heads(ctx context.Context, r Remote) (map[landfall.RefName]landfall.CommitSHA,
	landfall.RefName, error) {
	const op = landfall.Op("builder.heads")
	heads := make(map[landfall.RefName]landfall.CommitSHA)
	if r.Local != "" {
		return m.localHeads(op, r, heads)
	}
	c, err := m.call(ctx, op, r)
	if err != nil {
		return nil, "", err
	}
	defer c.close()
	for name, hash := range c.refs {
		if peeled, ok := c.advertised.Peeled[string(name)]; ok {
			hash = peeled
		}
		heads[name] = landfall.CommitSHA(hash.String())
	}
	for _, pair := range c.advertised.Capabilities.Get(capability.SymRef) {
		if target, ok := strings.CutPrefix(pair, "HEAD:"); ok {
			if head, err := landfall.ParseRefName(target); err == nil {
				return heads, head, nil
			}
		}
	}
	return heads, "", nil
}

func (m *Mirrors) localHeads(
	op landfall.Op, r Remote, heads map[landfall.RefName]landfall.CommitSHA,
) (map[landfall.RefName]landfall.CommitSHA, landfall.RefName, error) {
	mirror := m.open(r)
	defer func() { _ = mirror.Close() }()
	refs, err := mirror.references()
	if err != nil {
		return nil, "", mirror.readError(op, err)
	}
	for name, hash := range refs {
		peeled, err := mirror.peel(op, landfall.CommitSHA(hash.String()))
		if err != nil && landfall.KindOf(err) != landfall.Invalid {
			return nil, "", err
		}
		if err == nil { // a reference that leads to no commit cannot be released
			heads[name] = landfall.CommitSHA(peeled.String())
		}
	}
	head, err := mirror.storage.Reference(plumbing.HEAD)
	if err != nil {
		return nil, "", mirror.readError(op, err)
	}
	return heads, landfall.RefName(head.Target()), nil
}
