package images

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"landfall.dev/landfall"
	"landfall.dev/landfall/wire"
)

// Path is where Handler is served, as the specification says.
const Path = "/v2/"

// Names are what the versions of a function are called.
type Names struct {
	App  string         // the id of the app that owns the function
	UIDs []landfall.UID // of every version, the newest first
	Tags []string       // everything that stands for a version in lists
}

// Handler answers at Path. Its fields are set before the first request.
type Handler struct {
	// Find returns the function that a reference means. NotFound when there is none.
	Find func(ctx context.Context, ref landfall.Reference) (Function, error)

	// Names returns what a function's versions are called. NotFound when there is no such function.
	Names func(ctx context.Context, namespace, name string) (Names, error)

	// Admit returns an error unless the request may read functions of an app: Unauthorized when nobody knows who asks,
	// NotFound when it must not even know of them. Without an app it says whether there is any of which it may.
	Admit func(r *http.Request, app *string) error

	Builder *Builder
	Logger  *slog.Logger
}

// maxUnknown is how many versions one request for a digest looks at that this server made no image of yet.
const maxUnknown = 32

// failure is an answer that says what went wrong, by the codes of the specification.
type failure struct {
	status        int
	code, message string
}

// Error implements error.
func (f *failure) Error() string { return f.message }

// unknown is the same for what is not there and for what the token does not reach.
func unknown(code string) error {
	return &failure{http.StatusNotFound, code,
		"there is no such image, or the token is for another app; images are NAMESPACE/NAME:VERSION"}
}

// The codes for what is not there.
const (
	nameUnknown     = "NAME_UNKNOWN"
	manifestUnknown = "MANIFEST_UNKNOWN"
	blobUnknown     = "BLOB_UNKNOWN"
)

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Docker-Distribution-Api-Version": "registry/2.0", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "sandbox; default-src 'none'", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	if err := h.serve(w, r); err != nil && r.Context().Err() == nil {
		h.fail(w, r, err)
	}
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	if err := h.Admit(r, nil); err != nil {
		return err
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return &failure{http.StatusMethodNotAllowed, "UNSUPPORTED",
			"images are made of functions, and can only be pulled: a push to the git repository makes one"}
	}
	rest := strings.TrimPrefix(r.URL.Path, Path)
	if rest == "" {
		return answer(w, "application/json", []byte("{}"))
	}
	parts := strings.Split(rest, "/")
	const elements = 4
	if len(parts) != elements {
		return unknown(nameUnknown)
	}
	namespace, name, kind, last := parts[0], parts[1], parts[2], parts[3]
	switch {
	case kind == "manifests" && !strings.Contains(last, ":"):
		return h.tag(w, r, landfall.Reference{Namespace: namespace, Name: name, Selector: last})
	case kind == "manifests":
		return h.digest(w, r, namespace, name, last, manifestUnknown)
	case kind == "blobs":
		return h.digest(w, r, namespace, name, last, blobUnknown)
	case kind == "tags" && last == "list":
		return h.tags(w, r, namespace, name)
	case kind == "referrers":
		return h.referrers(w, r, namespace, name, last)
	}
	return unknown(nameUnknown)
}

// tag answers with the manifest of what a tag means now.
func (h *Handler) tag(w http.ResponseWriter, r *http.Request, ref landfall.Reference) error {
	f, err := h.find(r, ref)
	if err != nil {
		return hidden(err, manifestUnknown)
	}
	made, err := h.Builder.image(r.Context(), f)
	if err != nil {
		return err
	}
	return showManifest(w, r, made)
}

// find returns a function that the request may read.
func (h *Handler) find(r *http.Request, ref landfall.Reference) (Function, error) {
	f, err := h.Find(r.Context(), ref)
	if err != nil {
		return Function{}, err
	}
	return f, h.Admit(r, &f.App)
}

// hidden replaces the error for what is not there by one that says nothing of it.
func hidden(err error, code string) error {
	if landfall.Is(err, landfall.NotFound) {
		return unknown(code)
	}
	return err
}

// digest answers with the manifest, the configuration or the layer that has a digest, of a version of this function.
func (h *Handler) digest(w http.ResponseWriter, r *http.Request, namespace, name, text, code string) error {
	d, err := landfall.ParseDigest(text)
	if err != nil {
		return invalidDigest(err)
	}
	f, made, err := h.holding(r, namespace, name, d)
	if err != nil {
		return hidden(err, code)
	}
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	switch {
	case code == manifestUnknown && d == made.digest:
		return showManifest(w, r, made)
	case code == blobUnknown && d == made.configDigest:
		return serveBlob(w, r, d, bytes.NewReader(made.config))
	case code == blobUnknown && slices.Contains(made.layers, d):
		file, err := h.Builder.layer(r.Context(), f, d)
		if os.IsNotExist(err) { // removed for another one
			return landfall.Errorf("images.layer", landfall.Unavailable, "the layer is being made; try again")
		}
		if err != nil {
			return err
		}
		defer file.Close()
		return serveBlob(w, r, d, file)
	}
	return unknown(code)
}

// holding returns the version of a function whose image has a digest, and that image: one that was made before, else it
// makes those of the newest versions that could be made when they were tried last. NotFound when there is none.
func (h *Handler) holding(r *http.Request, namespace, name string, d landfall.Digest) (Function, *image, error) {
	names, err := h.names(r, namespace, name)
	if err != nil {
		return Function{}, nil, err
	}
	ref := func(uid landfall.UID) landfall.Reference {
		return landfall.Reference{Namespace: namespace, Name: name, Selector: string(uid)}
	}
	var others []landfall.UID
	for _, uid := range names.UIDs {
		version := &landfall.Function{Namespace: namespace, Name: name, Version: uid}
		switch made := h.Builder.known(version); {
		case made != nil && made.has(d):
			f, err := h.find(r, ref(uid))
			return f, made, err
		// nobody has its digest by now, and a digest of nothing would try it again and again
		case made == nil && !h.Builder.failing(version):
			others = append(others, uid)
		}
	}
	for _, uid := range others[:min(len(others), maxUnknown)] {
		f, err := h.find(r, ref(uid))
		if err != nil {
			return Function{}, nil, err
		}
		made, err := h.Builder.image(r.Context(), f)
		switch {
		case r.Context().Err() != nil:
			return Function{}, nil, err
		case err == nil && made.has(d): // of another version nothing can be made: it is not this one
			return f, made, nil
		}
	}
	return Function{}, nil, &landfall.Error{Op: "images.holding", Kind: landfall.NotFound}
}

func showManifest(w http.ResponseWriter, r *http.Request, made *image) error {
	w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
	w.Header().Set("Docker-Content-Digest", string(made.digest))
	w.Header().Set("ETag", strconv.Quote(string(made.digest)))
	http.ServeContent(w, wire.NormalizeRange(r, int64(len(made.manifest))), "", time.Time{},
		bytes.NewReader(made.manifest))
	return nil
}

func serveBlob(w http.ResponseWriter, r *http.Request, d landfall.Digest, content io.ReadSeeker) error {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Docker-Content-Digest", string(d))
	w.Header().Set("ETag", strconv.Quote(string(d)))
	size, err := content.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	http.ServeContent(w, wire.NormalizeRange(r, size), "", time.Time{}, content) // which begins at the beginning
	return nil
}

// tagName is what a tag may be. A label that is none is left out of lists; nobody could pull it.
var tagName = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

// tags answers with a page of what a function's versions are called.
func (h *Handler) tags(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	names, err := h.names(r, namespace, name)
	if err != nil {
		return hidden(err, nameUnknown)
	}
	query := r.URL.Query()
	all := slices.DeleteFunc(slices.Clone(names.Tags), func(tag string) bool {
		return !tagName.MatchString(tag) || tag <= query.Get("last")
	})
	slices.Sort(all)
	all = slices.Compact(all)
	if text := query.Get("n"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return &failure{http.StatusBadRequest, "PAGINATION_NUMBER_INVALID", "n is a whole number"}
		}
		if n > 0 && n < len(all) {
			next := url.Values{"n": {text}, "last": {all[n-1]}}
			w.Header().Set("Link", "<"+Path+namespace+"/"+name+"/tags/list?"+next.Encode()+`>; rel="next"`)
		}
		all = all[:min(n, len(all))]
	}
	body, err := json.Marshal(struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}{namespace + "/" + name, append([]string{}, all...)})
	if err != nil {
		return err
	}
	return answer(w, "application/json", body)
}

// referrers answers with the list of what refers to a manifest, which is nothing: there are only images.
func (h *Handler) referrers(w http.ResponseWriter, r *http.Request, namespace, name, digest string) error {
	if _, err := h.names(r, namespace, name); err != nil {
		return hidden(err, nameUnknown)
	}
	if _, err := landfall.ParseDigest(digest); err != nil {
		return invalidDigest(err)
	}
	if r.URL.Query().Has("artifactType") {
		w.Header().Set("Oci-Filters-Applied", "artifactType")
	}
	const schemaVersion = 2
	body, err := json.Marshal(v1.IndexManifest{SchemaVersion: schemaVersion, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{}})
	if err != nil {
		return err
	}
	return answer(w, string(types.OCIImageIndex), body)
}

// names finds the names of a function's images for a request that may read them.
func (h *Handler) names(r *http.Request, namespace, name string) (Names, error) {
	names, err := h.Names(r.Context(), namespace, name)
	if err != nil {
		return names, err
	}
	return names, h.Admit(r, &names.App)
}

func invalidDigest(err error) error {
	return &failure{http.StatusBadRequest, "DIGEST_INVALID", landfall.MessageOf(err)}
}

func answer(w http.ResponseWriter, contentType string, body []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client may be gone
	return nil
}

// fail answers with an error as the specification has it.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	answered, ok := errors.AsType[*failure](err)
	if !ok {
		answered = &failure{http.StatusInternalServerError, "UNKNOWN", landfall.MessageOf(err)}
		switch landfall.KindOf(err) {
		case landfall.Unauthorized:
			answered.status, answered.code = http.StatusUnauthorized, "UNAUTHORIZED"
			w.Header().Set("WWW-Authenticate", `Basic realm="landfall", charset="UTF-8"`)
		case landfall.Forbidden:
			answered.status, answered.code = http.StatusForbidden, "DENIED"
		case landfall.NotFound, landfall.Invalid: // what the function was made of makes no image
			answered.status, answered.code = http.StatusNotFound, manifestUnknown
		case landfall.Unavailable, landfall.Canceled:
			answered.status = http.StatusServiceUnavailable
			w.Header().Set("Retry-After", "1")
		case landfall.Internal, landfall.Conflict:
			h.Logger.ErrorContext(r.Context(), "an image could not be given out", "path", r.URL.Path, "error", err)
		}
	}
	type detail struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	body, err := json.Marshal(struct {
		Errors []detail `json:"errors"`
	}{[]detail{{answered.code, answered.message}}})
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(answered.status)
	_, _ = w.Write(body) // the client may be gone
}
