package page

import (
	"io"
	"net/http"
	"strings"
)

// Writer is the http.ResponseWriter through which an answer goes, and notes what goes out.
type Writer struct {
	http.ResponseWriter

	Status  int    // 0: nothing went out
	Bytes   int64  // of the body
	Private bool   // what goes out is for one person
	Varies  string // the header of the request that says who gets this answer; empty: there is none
	Chosen  bool   // what goes out depends on a choice that only the visitor's own browser knows of
	Cut     bool   // it breaks off, and must look so
}

// begin notes that an answer goes out.
func (w *Writer) begin(status int) {
	if w.Status == 0 {
		w.Status = status
		if w.Varies != "" {
			makeUncached(w.Header())
			w.Header()["Vary"] = append(w.Header().Values("Vary"), w.Varies)
		}
		if w.Private {
			makePrivate(w.Header())
		}
		if w.Chosen {
			makeUnshared(w.Header())
		}
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.Bytes += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom: the server's own has a buffer that it uses again.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) {
	w.begin(http.StatusOK)
	n, err := io.Copy(w.ResponseWriter, r)
	w.Bytes += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// makePrivate sets the headers by which what is for one person stays with them: no cache between keeps it, and pages of
// other hosts do not get at it.
func makePrivate(h http.Header) {
	makeUncached(h)
	h["Vary"] = append(h.Values("Vary"), "Cookie", "Authorization")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// makeUncached sets the headers by which no cache between keeps an answer, and the client's own one asks each time.
func makeUncached(h http.Header) {
	if !strings.Contains(strings.ToLower(h.Get("Cache-Control")), "no-store") {
		h.Set("Cache-Control", "private, no-cache")
	}
	dropOrders(h)
}

// makeUnshared sets the headers by which no cache between gives one visitor's answer to another one, who may have got
// another release. What never changes at its address, as files whose names have a hash of their content, stays in the
// visitor's own cache; all else is asked for each time, since the visitor may get the other release by then.
func makeUnshared(h http.Header) {
	dropOrders(h)
	kept := "no-cache"
	age, immutable := "", false
	for directive := range strings.SplitSeq(strings.ToLower(strings.Join(h.Values("Cache-Control"), ",")), ",") {
		switch directive = strings.TrimSpace(directive); {
		case directive == "no-store":
			h.Set("Cache-Control", "private, no-store")
			return
		case directive == "immutable":
			immutable = true
		case strings.HasPrefix(directive, "max-age="):
			age = directive
		}
	}
	if immutable && age != "" {
		kept = age + ", immutable"
	}
	h.Set("Cache-Control", "private, "+kept)
}

// dropOrders deletes the headers that caches between obey before Cache-Control.
func dropOrders(h http.Header) {
	for name := range h {
		if name == "Surrogate-Control" || name == "Edge-Control" || strings.HasSuffix(name, "Cdn-Cache-Control") {
			delete(h, name)
		}
	}
}
