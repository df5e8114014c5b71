package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/secret"
)

// RegistryHandler is the registry for the processes that run functions: it tells who knows the secret of the roles
// all that is needed to run one, at invoke.Path, where others are told what they may know.
type RegistryHandler struct {
	// Find returns the function that a reference means, as it runs in a group version, or, for none, where its name finds
	// it. NotFound, with a sentence, when there is none.
	Find func(ctx context.Context, ref landfall.Reference, group landfall.UID) (*landfall.Function, error)

	Live   func() []*landfall.Function // those of live releases
	Secret secret.Text
	Next   http.Handler // answers all others; nil: they are refused
}

// ServeHTTP implements http.Handler.
func (h *RegistryHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case knows(r, h.Secret) && r.Method == http.MethodGet:
		w.Header().Set("Cache-Control", "no-store")
		h.tell(w, r)
	case h.Next != nil:
		h.Next.ServeHTTP(w, r)
	default:
		unauthorized(w)
	}
}

// tell answers with one function, or with all of live releases.
func (h *RegistryHandler) tell(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == invoke.Path {
		write(w, append([]*landfall.Function{}, h.Live()...)) // none is a list as well
		return
	}
	name, err := parseName(r.URL.RequestURI())
	var f *landfall.Function
	if err == nil {
		f, err = h.Find(r.Context(), name.Reference, name.Group)
	}
	if err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(invoke.StatusOf(err))
		_, _ = w.Write(encodeFault(err)) // the caller may be gone
		return
	}
	write(w, f)
}

func write(w http.ResponseWriter, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the caller may be gone
}

// The bounds of a Registry.
const (
	known       = 1000             // functions that are remembered
	lookupLimit = 10 * time.Second // for an answer
	maxMetadata = 64 << 20         // bytes of one
)

// Registry is the registry of functions in another process. What it said of a function is kept, under the function's
// ID: whatever has that ID is the same. Its fields are set before the first call. It is safe for concurrent use.
type Registry struct {
	URL    *url.URL // of the process
	Secret secret.Text
	Client *http.Client // nil: one of its own

	once  sync.Once
	cache *lru.Cache[string, *landfall.Function]
	asked singleflight.Group
}

func (c *Registry) open() {
	c.once.Do(func() {
		c.cache, _ = lru.New[string, *landfall.Function](known) // it fails for a size below one
		if c.Client == nil {
			c.Client = &http.Client{
				Timeout: lookupLimit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
				// No proxy of the environment gets the role secret.
				Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: lookupLimit}).DialContext,
					IdleConnTimeout: time.Minute},
			}
		}
	})
}

// Function returns what is needed to run a function. NotFound when there is none, with the registry's words;
// Unavailable when the registry does not answer.
func (c *Registry) Function(ctx context.Context, name Name) (*landfall.Function, error) {
	c.open()
	if name.ID == "" { // its selector may mean another version in a moment
		return c.ask(ctx, name)
	}
	if f, ok := c.cache.Get(name.ID); ok {
		return f, nil
	}
	answer := c.asked.DoChan(name.String(), func() (any, error) {
		f, err := c.ask(context.WithoutCancel(ctx), name) // for all who ask, and within the client's limit
		if err == nil && f.ID == name.ID {
			c.cache.Add(f.ID, f)
		}
		return f, err
	})
	select {
	case <-ctx.Done():
		return nil, landfall.Wrapf("rpc.Function", landfall.Canceled, context.Cause(ctx), "the call was given up")
	case got := <-answer:
		f, _ := got.Val.(*landfall.Function)
		return f, got.Err
	}
}

func (c *Registry) ask(ctx context.Context, name Name) (*landfall.Function, error) {
	f := new(landfall.Function)
	if err := c.get(ctx, name.String(), f); err != nil {
		return nil, err
	}
	return f, nil
}

// Live returns the functions of live releases: those that a runner may make ready before their first call.
func (c *Registry) Live(ctx context.Context) ([]*landfall.Function, error) {
	c.open()
	var all []*landfall.Function
	err := c.get(ctx, invoke.Path, &all)
	return all, err
}

// get asks the registry.
func (c *Registry) get(ctx context.Context, path string, to any) error {
	const op landfall.Op = "rpc.Registry"
	unknown := func(err error) error { return refused("the registry of functions does not answer", err) }
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.URL.String(), "/")+path, nil)
	if err != nil {
		return unknown(err)
	}
	auth.SetBearer(r, c.Secret.Reveal())
	answer, err := c.Client.Do(r)
	if err != nil {
		return unknown(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxMetadata+1))
	switch {
	case err == nil && len(body) > maxMetadata:
		err = errors.New("what it says is too large")
	case err == nil && answer.StatusCode == http.StatusUnauthorized:
		return refused("the registry of functions does not know this server's role secret", nil)
	case err == nil && answer.StatusCode == http.StatusOK:
		err = json.Unmarshal(body, to)
	case err == nil:
		if said := decodeFault(op, body); said != nil {
			return said
		}
		err = errors.New("it answers " + answer.Status)
	}
	if err != nil {
		return unknown(err)
	}
	return nil
}
