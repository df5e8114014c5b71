package store

import (
	"context"
	"encoding/json"
	"time"

	"landfall.dev/landfall"
)

const pushColumns = `id, app, source, ref, before_sha, after_sha, forced, actor, message, accepted, apply,
	pull_request, delivery, trace, beside`

func scanPush(row scanner) (landfall.Push, error) {
	var p landfall.Push
	var accepted int64
	var apply, pull string
	err := row.Scan(&p.ID, &p.App, &p.Source, &p.Ref, &p.Before, &p.After, &p.Forced, &p.Actor, &p.Message, &accepted,
		&apply, &pull, &p.Delivery, &p.Trace, &p.ConcurrentHead)
	if err != nil {
		return p, err
	}
	p.Accepted = timeOf(accepted)
	if apply != "" {
		if err := json.Unmarshal([]byte(apply), &p.Apply); err != nil {
			return p, err
		}
	}
	if pull != "" {
		return p, json.Unmarshal([]byte(pull), &p.PullRequest)
	}
	return p, nil
}

// CreatePush stores a push and returns it with its ID.
func (tx *Tx) CreatePush(ctx context.Context, p landfall.Push) (landfall.Push, error) {
	const op landfall.Op = "store.CreatePush"
	id, err := tx.next(ctx, "pushes")
	if err != nil {
		return p, err
	}
	p.ID = id
	apply, err := optionalJSON(p.Apply)
	if err != nil {
		return p, err
	}
	pull, err := optionalJSON(p.PullRequest)
	if err != nil {
		return p, err
	}
	return p, tx.exec(ctx, op, `INSERT INTO pushes (`+pushColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		p.ID, p.App, p.Source, p.Ref, p.Before, p.After, p.Forced, p.Actor, p.Message, micros(p.Accepted), apply, pull,
		p.Delivery, p.Trace, p.ConcurrentHead)
}

// optionalJSON returns v as JSON, and the empty string for nil.
func optionalJSON[T any](v *T) (string, error) {
	if v == nil {
		return "", nil
	}
	data, err := json.Marshal(v)
	return string(data), err
}

// Push returns a push by id.
func (q queries) Push(ctx context.Context, id int64) (landfall.Push, error) {
	return one(ctx, q, "store.Push", scanPush, `SELECT `+pushColumns+` FROM pushes WHERE id = $1`, id)
}

// NextPush returns the newest push of a reference that started from sha, which came after it. NotFound when there is
// none.
func (q queries) NextPush(ctx context.Context, app string, ref landfall.RefName,
	sha landfall.CommitSHA) (landfall.Push, error) {
	return one(ctx, q, "store.NextPush", scanPush, `SELECT `+pushColumns+` FROM pushes
		WHERE app = $1 AND ref = $2 AND before_sha = $3 ORDER BY id DESC LIMIT 1`, app, ref, sha)
}

// PushTo returns the newest push that left a reference at sha and has a lower ID than the given one. NotFound when
// there is none.
func (q queries) PushTo(ctx context.Context, app string, ref landfall.RefName, sha landfall.CommitSHA,
	before int64) (landfall.Push, error) {
	return one(ctx, q, "store.PushTo", scanPush, `SELECT `+pushColumns+` FROM pushes
		WHERE app = $1 AND ref = $2 AND after_sha = $3 AND id < $4 ORDER BY id DESC LIMIT 1`, app, ref, sha, before)
}

// EndsAt reports whether a reference ends at sha according to the known pushes: it came there once more than it left,
// and no such push was reported twice. When all its pushes are known, the reference is there. A push that a pull
// request reported has no start.
func (q queries) EndsAt(ctx context.Context, app string, ref landfall.RefName, sha landfall.CommitSHA) (bool, error) {
	return one(ctx, q, "store.Ends", scanValue[bool], `SELECT COUNT(*) = COUNT(DISTINCT before_sha || '>' || after_sha)
			AND 1 = COALESCE(SUM(CASE WHEN after_sha = $3 THEN 1 ELSE -1 END), 0)
		FROM pushes WHERE app = $1 AND ref = $2 AND (before_sha = $3 OR after_sha = $3) AND pull_request = ''`, app, ref, sha)
}

// Head is the newest push of a reference.
type Head struct {
	Ref  landfall.RefName
	Push int64
	SHA  landfall.CommitSHA // zero when the reference was deleted
}

func scanHead(row scanner) (Head, error) {
	var h Head
	err := row.Scan(&h.Ref, &h.Push, &h.SHA)
	return h, err
}

// Head returns the head of a reference. NotFound when it was never pushed to.
func (q queries) Head(ctx context.Context, app string, ref landfall.RefName) (Head, error) {
	return one(ctx, q, "store.Head", scanHead, `SELECT ref, push, sha FROM heads WHERE app = $1 AND ref = $2`, app, ref)
}

// Heads returns all heads of an app, deleted references included, and without those of pull requests of forks: they are
// no references of the app's own.
func (q queries) Heads(ctx context.Context, app string) ([]Head, error) {
	return list(ctx, q, "store.Heads", scanHead, `SELECT ref, push, sha FROM heads
		WHERE app = $1 AND ref NOT LIKE 'refs/pull/%' ORDER BY ref`, app)
}

// HasHeads reports whether anything was ever pushed to an app, deleted references included.
func (q queries) HasHeads(ctx context.Context, app string) (bool, error) {
	n, err := one(ctx, q, "store.HasHeads", scanValue[int64],
		`SELECT COUNT(*) FROM (SELECT 1 FROM heads WHERE app = $1 LIMIT 1) AS found`, app)
	return n > 0, err
}

// ForgetHeads forgets where the references of an app are, as if it was never pushed to. Releases and runs stay.
func (tx *Tx) ForgetHeads(ctx context.Context, app string) error {
	return tx.exec(ctx, "store.ForgetHeads", `DELETE FROM heads WHERE app = $1`, app)
}

// SetHead makes a push the head of its reference.
func (tx *Tx) SetHead(ctx context.Context, p landfall.Push) error {
	return tx.exec(ctx, "store.SetHead", `INSERT INTO heads (app, ref, push, sha) VALUES ($1, $2, $3, $4)
		ON CONFLICT (app, ref) DO UPDATE SET push = excluded.push, sha = excluded.sha`, p.App, p.Ref, p.ID, p.After)
}

// SeenRefs returns where the references of an app's repository were at the first look, and whether there was one.
func (q queries) SeenRefs(ctx context.Context, app string) (map[landfall.RefName]landfall.CommitSHA, bool, error) {
	const op = "store.SeenRefs"
	rows, err := list(ctx, q, op, scanHead, `SELECT ref, 0, sha FROM seen_refs WHERE app = $1`, app)
	if err != nil {
		return nil, false, err
	}
	seen := make(map[landfall.RefName]landfall.CommitSHA, len(rows))
	for _, row := range rows {
		seen[row.Ref] = row.SHA
	}
	_, looked := seen[""]
	delete(seen, "")
	return seen, looked, nil
}

// AddSeenRefs records where the references of an app's repository are at the first look.
func (tx *Tx) AddSeenRefs(ctx context.Context, app string, refs map[landfall.RefName]landfall.CommitSHA) error {
	const op = "store.AddSeenRefs"
	const query = `INSERT INTO seen_refs (app, ref, sha) VALUES ($1, $2, $3) ON CONFLICT (app, ref) DO NOTHING`
	for ref, sha := range refs {
		if err := tx.exec(ctx, op, query, app, ref, sha); err != nil {
			return err
		}
	}
	return tx.exec(ctx, op, query, app, "", "")
}

// PullRequest is a pull request of an app's repository.
type PullRequest struct {
	Number  int
	Base    string
	HeadRef landfall.RefName
	HeadSHA landfall.CommitSHA
	Fork    bool
	Open    bool
}

// Ref returns the reference whose pushes belong to the pull request.
func (p PullRequest) Ref() landfall.RefName {
	if p.Fork {
		return landfall.PullRef(p.Number)
	}
	return p.HeadRef
}

// ForkNumber returns what Run.Fork is in the runs of the pull request.
func (p PullRequest) ForkNumber() int {
	if p.Fork {
		return p.Number
	}
	return 0
}

const pullColumns = `number, base, head_ref, head_sha, fork, open`

func scanPull(row scanner) (PullRequest, error) {
	var p PullRequest
	err := row.Scan(&p.Number, &p.Base, &p.HeadRef, &p.HeadSHA, &p.Fork, &p.Open)
	return p, err
}

// PutPullRequest stores what is known of a pull request.
func (tx *Tx) PutPullRequest(ctx context.Context, app string, p PullRequest, at time.Time) error {
	return tx.exec(ctx, "store.PutPullRequest", `INSERT INTO pull_requests (app, `+pullColumns+`, updated)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (app, number) DO UPDATE SET base = excluded.base, head_ref = excluded.head_ref,
			head_sha = excluded.head_sha, fork = excluded.fork, open = excluded.open, updated = excluded.updated`,
		app, p.Number, p.Base, p.HeadRef, p.HeadSHA, p.Fork, p.Open, micros(at))
}

// OpenPullRequests returns the open pull requests whose head is the given reference of the app's own repository.
func (q queries) OpenPullRequests(ctx context.Context, app string, ref landfall.RefName) ([]PullRequest, error) {
	return list(ctx, q, "store.OpenPullRequests", scanPull, `SELECT `+pullColumns+` FROM pull_requests
		WHERE app = $1 AND head_ref = $2 AND open = 1 AND fork = 0 ORDER BY number`, app, ref)
}

// AllOpenPullRequests returns the pull requests of an app that are open as far as is known.
func (q queries) AllOpenPullRequests(ctx context.Context, app string) ([]PullRequest, error) {
	return list(ctx, q, "store.AllOpenPullRequests", scanPull, `SELECT `+pullColumns+` FROM pull_requests
		WHERE app = $1 AND open = 1 ORDER BY number`, app)
}

// Unplaced returns the pushes of a reference that wait for their place in the order and whose run is not over, newest
// first.
func (q queries) Unplaced(ctx context.Context, app string, ref landfall.RefName) ([]landfall.Push, error) {
	return list(ctx, q, "store.Unplaced", scanPush, `SELECT `+pushColumns+` FROM pushes p
		WHERE app = $1 AND ref = $2 AND beside <> 0 AND EXISTS (SELECT 1 FROM run_refs rr JOIN runs r ON r.id = rr.run
			WHERE rr.push = p.id AND rr.withdrawn = 0 AND r.finished = 0) ORDER BY id DESC`, app, ref)
}

// SetConcurrentHead records the head beside which a push could not be ordered, so the push waits for its place. 0 means
// that it has its place.
func (tx *Tx) SetConcurrentHead(ctx context.Context, push, beside int64) error {
	return tx.exec(ctx, "store.SetBeside", `UPDATE pushes SET beside = $2 WHERE id = $1`, push, beside)
}
