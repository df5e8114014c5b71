// Package webhook receives GitHub's webhooks: it checks the signature, makes a Push from the event, and accepts each
// delivery once.
package webhook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"landfall.dev/landfall"
)

// Path is where Handler is served: Path itself for the installation's secret, and Path/HOOK for a hook that was made
// for one repository.
const Path = "/webhooks/github"

// These headers name a delivery; like all headers, they are not signed.
const (
	headerDelivery = "X-Github-Delivery"
	headerEvent    = "X-Github-Event"
)

// Limits.
const (
	MaxBody       = 25 << 20         // bytes of one request's body, GitHub's own limit
	DefaultBudget = 256 << 20        // bytes of all bodies together
	BodyTimeout   = 10 * time.Second // GitHub gives up after the same time
)

// Store keeps deliveries.
type Store interface {
	// Secrets returns the secrets of a hook, each of which counts unless it is empty; "" stands for the installation's
	// own hook. NotFound when there is no such hook.
	Secrets(ctx context.Context, hook string) ([]string, error)

	// Accept stores the delivery and its consequences in one transaction. It acts only on apps for which the delivery's
	// hook was made and whose repository the event names: by its ID once that is bound, else by Repository.Matches; the
	// first such delivery binds the ID. Without such an app, only the delivery is stored. It returns the stored
	// delivery, with its runs, and with a decision that says when nothing was done. When hook and delivery ID are
	// stored already, it changes nothing and returns the stored delivery and true. Unauthorized when the hook has
	// another secret now than the event's, or does not exist any more: then nothing is stored.
	Accept(ctx context.Context, intake Event) (stored landfall.Delivery, repeat bool, err error)
}

// Handler answers POST requests at Path. It parses nothing of a request before it has verified the SHA-256 signature of
// the raw body. It answers 202 for a stored delivery; 200 for a repeat, with the addresses of the first answer; 400 for
// a malformed payload with a good signature; 401, 404, 405, 408, 413, 415; and 503 when the store fails or too many
// bodies are being received. With any of these except 202 nothing was stored. All fields must be set before the first
// request.
type Handler struct {
	Store  Store
	Now    func() time.Time
	Logger *slog.Logger

	DeliveryURL func(delivery landfall.Delivery) string // where a delivery is shown
	RunURL      func(run string) string                 // where a run is shown

	// Count is called for every delivery with its event, as the sender names it, and the decision. It may be nil.
	Count func(event string, decision Decision)

	Budget      int64         // bytes of all bodies together; 0: DefaultBudget
	BodyTimeout time.Duration // how long a body may take to arrive; 0: BodyTimeout

	memory  budget
	secrets sync.Map // the last good one of each hook; Accept compares it with the stored ones
}

// Decision says what happened to a delivery.
type Decision string

// The decisions.
const (
	Accepted  Decision = "accepted"  // it has runs
	Recorded  Decision = "recorded"  // there was nothing to run
	Unmatched Decision = "unmatched" // no app has its repository
	Repeated  Decision = "repeat"    // it was stored before
	Refused   Decision = "refused"   // nothing was stored
)

// decisionOf returns the decision for a stored delivery.
func decisionOf(delivery landfall.Delivery, repeat bool) Decision {
	switch {
	case repeat:
		return Repeated
	case delivery.Unmatched:
		return Unmatched
	case len(delivery.Runs) == 0:
		return Recorded
	}
	return Accepted
}

func (h *Handler) count(r *http.Request, decision Decision) {
	if h.Count != nil {
		h.Count(r.Header.Get(headerEvent), decision)
	}
}

var (
	deliveryID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)
	eventName  = regexp.MustCompile(`^[a-z0-9_]{1,100}$`)
)

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hook, ok := hookOf(r.URL.Path)
	if !ok {
		refuse(w, &refusal{status: http.StatusNotFound, detail: "webhooks are received at " + Path, unread: true})
		return
	}
	log := func(level slog.Level, message string, more ...slog.Attr) {
		h.Logger.LogAttrs(r.Context(), level, message, append([]slog.Attr{
			slog.String("hook", short(hook)), slog.String("delivery", short(r.Header.Get(headerDelivery))),
			slog.String("event", short(r.Header.Get(headerEvent))), slog.String("from", r.RemoteAddr),
		}, more...)...)
	}
	delivery, repeat, err := h.receive(w, r, hook)
	if no, refused := errors.AsType[*refusal](err); refused {
		level := slog.LevelWarn
		if no.status == http.StatusServiceUnavailable {
			level = slog.LevelError
		}
		log(level, "webhook refused", slog.Int("status", no.status), slog.String("reason", no.detail),
			slog.Any("cause", no.cause))
		h.count(r, Refused)
		refuse(w, no)
		return
	}
	log(slog.LevelInfo, "webhook accepted", slog.Bool("repeat", repeat), slog.String("decision", delivery.Decision))
	h.count(r, decisionOf(delivery, repeat))
	h.accepted(w, delivery, repeat)
}

// hookOf returns the hook in a path.
func hookOf(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, Path)
	if !ok || rest == "" {
		return "", ok
	}
	hook, ok := strings.CutPrefix(rest, "/")
	return hook, ok && hook != "" && !strings.Contains(hook, "/")
}

// receive does everything between a request and its answer. Its error is a *refusal.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request, hook string) (landfall.Delivery, bool, error) {
	none := landfall.Delivery{}
	form, signature, err := checkHead(r)
	if err != nil {
		return none, false, err
	}
	hold := &bodyBuffer{budget: &h.memory, limit: cmp.Or(h.Budget, DefaultBudget)}
	defer hold.release()
	if err := h.read(w, r, hold); err != nil {
		return none, false, err
	}
	delivery := landfall.Delivery{Hook: hook, ID: r.Header.Get(headerDelivery), Event: r.Header.Get(headerEvent),
		Received: h.Now()}
	stored, repeat, err := h.accept(r.Context(), delivery, hold, form, signature)
	if landfall.Is(err, landfall.Unauthorized) { // the cached secret is old
		h.secrets.Delete(hook)
		stored, repeat, err = h.accept(r.Context(), delivery, hold, form, signature)
	}
	if _, refused := errors.AsType[*refusal](err); err != nil && !refused {
		err = storeDown(err)
	}
	return stored, repeat, err
}

// accept verifies, parses and stores a delivery whose body is in the buffer.
func (h *Handler) accept(
	ctx context.Context, delivery landfall.Delivery, buffer *bodyBuffer, form bool, signature []byte,
) (landfall.Delivery, bool, error) {
	body, secret, err := h.verify(ctx, delivery.Hook, buffer, signature)
	if err != nil {
		return landfall.Delivery{}, false, err
	}
	if !deliveryID.MatchString(delivery.ID) || !eventName.MatchString(delivery.Event) {
		return landfall.Delivery{}, false, &refusal{
			status: http.StatusBadRequest, detail: "X-GitHub-Delivery and X-GitHub-Event must name the delivery and its event",
		}
	}
	payload, err := payloadOf(body, form)
	if err != nil {
		return landfall.Delivery{}, false, malformed(err)
	}
	delivery.Digest = landfall.DigestOf(body)
	intake, err := EventOf(delivery, payload)
	if err != nil {
		return landfall.Delivery{}, false, malformed(err)
	}
	intake.Secret = secret
	return h.Store.Accept(ctx, intake)
}

// short cuts a stranger's text to a length for a log line.
func short(s string) string { return s[:min(len(s), 100)] }
