package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// keyHeader names a request that makes something, so that it can be sent again and nothing is made twice.
const keyHeader = "Idempotency-Key"

const (
	keptKeys    = 24 * time.Hour
	longestKey  = 255
	mostKeys    = 10_000   // of a token
	mostKept    = 16 << 10 // bytes of an answer
	keepingTime = 5 * time.Second
)

const makingKey = "making"

// making says that an operation makes something, and takes a key. What its handler makes has the id of newID, or of
// identityOf: run again, it finds that. It lies below the operation's path, where at says with fields of the answer in
// braces.
func (o operation) making(at string) operation {
	o.makes = at
	return o
}

var fieldInBraces = regexp.MustCompile(`\{[a-z.]+\}`)

// addressOf returns where the thing is that a request has made; empty when its answer does not say so.
func addressOf(request url.URL, at string, answer []byte) string {
	var fields map[string]any
	_ = json.Unmarshal(answer, &fields) // then it has none
	whole := true
	below := fieldInBraces.ReplaceAllStringFunc(at, func(field string) string {
		var value any = fields
		for name := range strings.SplitSeq(strings.Trim(field, "{}"), ".") {
			within, _ := value.(map[string]any)
			value = within[name]
		}
		whole = whole && value != nil
		return url.PathEscape(fmt.Sprint(value))
	})
	if !whole {
		return ""
	}
	address := strings.TrimSuffix(request.EscapedPath(), "/") + "/" + below
	if request.RawQuery != "" && !strings.Contains(below, "?") {
		address += "?" + request.RawQuery
	}
	return address
}

// takesKey adds the key to what the document says of an operation.
func takesKey(op *huma.Operation) {
	longest := longestKey
	op.Parameters = append(op.Parameters, &huma.Param{Name: keyHeader, In: "header",
		Description: "Names this request for a day: sent again with the same key and token, it gets the same answer, and " +
			"nothing is made twice.",
		Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &longest}})
}

// identity is what a request with a key makes.
type identity struct {
	id    string
	again bool      // an earlier request with the key may have made it
	since time.Time // when the key was first sent
}

type identityKey struct{}

// identityOf returns the id of what a request with a key makes; empty without a key.
func identityOf(ctx context.Context) string {
	i, _ := ctx.Value(identityKey{}).(identity)
	return i.id
}

// mayBeMade reports whether an earlier request with the same key may have made what this one asks for.
func mayBeMade(ctx context.Context) bool {
	i, _ := ctx.Value(identityKey{}).(identity)
	return i.again
}

// isOurs reports whether what has a name was made by an earlier request with the same key: by this token's holder, and
// not before the key was sent.
func isOurs(ctx context.Context, actor string, made time.Time) bool {
	i, _ := ctx.Value(identityKey{}).(identity)
	return i.again && actor == caller(ctx).Name && !made.Before(i.since)
}

// newID returns the id of what a request makes: that of its key, if it has one, else a new one.
func newID(ctx context.Context) string {
	if id := identityOf(ctx); id != "" {
		return id
	}
	return uuid.NewString()
}

// made returns what an earlier request with the same key made, of which nobody heard, and whether there is such a
// thing.
func made[T any](ctx context.Context, find func(ctx context.Context, id string) (T, error)) (found T, there bool,
	err error) {
	if !mayBeMade(ctx) {
		return found, false, nil
	}
	found, err = find(ctx, identityOf(ctx))
	return found, err == nil, landfall.Ignore(err, landfall.NotFound)
}

// once answers a request with a key as the first one with that key was answered, if there was one. A request is claimed
// before it is carried out, and what it makes has an id that follows from the claim: when the server is killed in
// between, the next request with the key finds what was made, or makes it. An answer that says that nothing was changed
// is not kept.
func (a *api) once(h huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		key := ctx.Header(keyHeader)
		at, _ := ctx.Operation().Metadata[makingKey].(string)
		makes := at != ""
		if key == "" || !makes && (ctx.Method() != http.MethodPost || takesOwnKey(ctx.Operation())) {
			next(ctx)
			return
		}
		refuse := func(p *problem) {
			ctx.SetHeader("Content-Type", p.ContentType(""))
			ctx.SetStatus(p.Status)
			_ = h.Marshal(ctx.BodyWriter(), "application/json", p)
		}
		if !makes {
			refuse(toHTTP(landfall.Errorf("api", landfall.Invalid,
				"this request takes no %s; the description of each operation says whether it does", keyHeader)))
			return
		}
		if len(key) > longestKey {
			refuse(toHTTP(landfall.Errorf("api", landfall.Invalid, "the %s has %d bytes; it has at most %d", keyHeader,
				len(key), longestKey)))
			return
		}
		k := &keyed{below: ctx, header: http.Header{}}
		claim, err := a.claim(k, landfall.DigestOf([]byte(key)))
		if err != nil {
			refuse(toHTTP(err))
			return
		}
		flight := claim.Token + claim.Key
		if _, busy := a.answering.LoadOrStore(flight, true); busy {
			ctx.SetHeader("Retry-After", "1")
			refuse(toHTTP(landfall.Errorf("api", landfall.Conflict, "a request with this %s is being carried out", keyHeader)))
			return
		}
		defer a.answering.Delete(flight)
		known, err := a.claimed(ctx.Context(), claim)
		switch {
		case err != nil:
			refuse(toHTTP(err))
		case known.Request != claim.Request:
			p := toHTTP(landfall.Errorf("api", landfall.Invalid,
				"another request had this %s: a key names one request, for a day", keyHeader))
			p.Status, p.Title = http.StatusUnprocessableEntity, http.StatusText(http.StatusUnprocessableEntity)
			refuse(p)
		case known.Status > 0:
			if err := a.replay(ctx, known); err != nil {
				refuse(toHTTP(err))
			}
		default:
			id := uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s %s %d", known.Token, known.Key,
				known.Created.UnixMicro())).String()
			k.ctx = context.WithValue(ctx.Context(), identityKey{},
				identity{id, !known.Created.Equal(claim.Created), known.Created})
			next(k)
			a.keep(k, known, at)
			k.send()
		}
	}
}

// takesOwnKey reports whether an operation has a key of its own meaning.
func takesOwnKey(op *huma.Operation) bool {
	for _, p := range op.Parameters {
		if p.In == "header" && p.Name == keyHeader {
			return true
		}
	}
	return false
}

// claim returns a request as it is claimed. It reads the body, which k has from then on.
func (a *api) claim(k *keyed, key landfall.Digest) (store.KeyedRequest, error) {
	op, address := k.Operation(), k.URL()
	if op.BodyReadTimeout > 0 {
		_ = k.SetReadDeadline(time.Now().Add(op.BodyReadTimeout)) // of a writer that has a connection
	}
	// one that is too long is refused later
	body, err := io.ReadAll(io.LimitReader(k.below.BodyReader(), op.MaxBodyBytes+1))
	if err != nil {
		return store.KeyedRequest{}, landfall.Wrapf("api", landfall.Invalid, err, "the body did not arrive")
	}
	_ = k.below.SetReadDeadline(time.Time{}) // it would end the request's context while the server works
	k.body = bytes.NewReader(body)
	said := fmt.Appendf(nil, "%s %s\n", k.Method(), address.RequestURI())
	return store.KeyedRequest{Token: caller(k.below.Context()).Hash, Key: key,
		Request: landfall.DigestOf(append(said, body...)), Created: a.Now().UTC().Truncate(time.Microsecond)}, nil
}

// claimed stores a claim, unless the key has one, and returns the one that it has.
func (a *api) claimed(ctx context.Context, claim store.KeyedRequest) (known store.KeyedRequest, err error) {
	err = a.DB.Update(ctx, func(tx *store.Tx) (err error) {
		known, err = tx.ClaimKey(ctx, claim, claim.Created.Add(-keptKeys), mostKeys)
		return err
	})
	return known, err
}

// answerOwner is whom the answer of a request is sealed for.
func answerOwner(r store.KeyedRequest) secret.Owner {
	return secret.Owner{Name: "answer of " + string(r.Key)}
}

// keep stores the answer of a request that was carried out, or gives its key free when nothing was changed. Where it
// cannot, the next request with the key finds what was made. Of a long answer it stores where what was made is: see
// making.
func (a *api) keep(k *keyed, r store.KeyedRequest, at string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), keepingTime)
	defer cancel()
	write := func(tx *store.Tx) error { return tx.ReleaseKey(ctx, r) }
	switch {
	case k.status >= http.StatusInternalServerError:
		return
	case k.status < http.StatusBadRequest && a.Editor.Secrets == nil: // an answer may have a secret
		return
	case k.status < http.StatusBadRequest:
		sealed, err := a.Editor.Secrets.Seal(answerOwner(r), secret.Text(k.answer.String()))
		if err != nil {
			a.Logger.WarnContext(ctx, "the answer of a request with a key is not kept", "error", err)
			return
		}
		r.Status, r.Type, r.Location = k.status, k.header.Get("Content-Type"), k.header.Get("Location")
		if k.answer.Len() <= mostKept {
			r.Answer = base64.StdEncoding.EncodeToString(sealed)
		} else if r.Location == "" {
			r.Location = addressOf(k.URL(), at, k.answer.Bytes())
		}
		write = func(tx *store.Tx) error { return tx.AnswerKey(ctx, r) }
	}
	if err := a.DB.Update(ctx, write); err != nil {
		a.Logger.WarnContext(ctx, "the answer of a request with a key is not kept", "error", err)
	}
}

// replay answers as the first request with a key was answered; where that answer was too long to be kept, with where
// what was made is.
func (a *api) replay(ctx huma.Context, r store.KeyedRequest) error {
	if a.Editor.Secrets == nil {
		return landfall.Errorf("api", landfall.Conflict,
			"an earlier request with this %s was carried out, and this process has not the key to its answer", keyHeader)
	}
	if r.Answer == "" && r.Location != "" {
		ctx.SetHeader("Location", r.Location)
		ctx.SetHeader("Idempotency-Replayed", "true")
		ctx.SetStatus(http.StatusSeeOther)
		return nil
	}
	if r.Answer == "" {
		return landfall.Errorf("api", landfall.Conflict, "an earlier request with this %s was carried out, and nothing was "+
			"done again; its answer was too long to be kept: list what there is", keyHeader)
	}
	sealed, err := base64.StdEncoding.DecodeString(r.Answer)
	if err != nil {
		return err
	}
	text, err := a.Editor.Secrets.Open(answerOwner(r), sealed)
	if err != nil {
		return landfall.Wrapf("api", landfall.Conflict, err,
			"an earlier request with this %s was carried out, but its answer cannot be read any more", keyHeader)
	}
	for name, value := range map[string]string{"Content-Type": r.Type, "Location": r.Location,
		"Idempotency-Replayed": "true", "Content-Length": strconv.Itoa(len(text))} {
		if value != "" {
			ctx.SetHeader(name, value)
		}
	}
	ctx.SetStatus(r.Status)
	_, _ = io.WriteString(ctx.BodyWriter(), text.Reveal()) // the client may be gone
	return nil
}

// below is the context of a request as the server has it.
type below huma.Context

// keyed is the context of a request with a key: it holds the answer.
type keyed struct {
	below

	ctx    context.Context //nolint:containedctx // huma.Context asks for the context
	body   io.Reader
	status int
	header http.Header
	answer bytes.Buffer
}

// Context implements huma.Context.
func (k *keyed) Context() context.Context { return k.ctx }

// BodyReader implements huma.Context.
func (k *keyed) BodyReader() io.Reader { return k.body }

// SetReadDeadline implements huma.Context. The body is here already.
func (k *keyed) SetReadDeadline(time.Time) error { return nil }

// SetStatus implements huma.Context.
func (k *keyed) SetStatus(status int) { k.status = status }

// Status implements huma.Context.
func (k *keyed) Status() int { return k.status }

// SetHeader implements huma.Context.
func (k *keyed) SetHeader(name, value string) { k.header.Set(name, value) }

// AppendHeader implements huma.Context.
func (k *keyed) AppendHeader(name, value string) { k.header.Add(name, value) }

// BodyWriter implements huma.Context.
func (k *keyed) BodyWriter() io.Writer { return &k.answer }

// send gives the client the answer.
func (k *keyed) send() {
	for name, values := range k.header {
		for _, value := range values {
			k.below.AppendHeader(name, value)
		}
	}
	k.below.SetStatus(k.status)
	_, _ = k.answer.WriteTo(k.below.BodyWriter()) // the client may be gone
}

// idOf returns characters that follow from the id of a request with a key and its purpose: as long as what rand.Text
// returns, and of the same letters.
func idOf(id, purpose string) string {
	sum := sha256.Sum256([]byte(purpose + " " + id))
	const length = 26
	return base32.StdEncoding.EncodeToString(sum[:])[:length]
}
