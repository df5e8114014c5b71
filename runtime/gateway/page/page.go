// Package page has what the gateway answers by itself, pages and redirects, the headers that say what answered, and the
// writer through which every answer goes.
package page

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
)

// Page is an answer of the gateway itself. Nothing of the request stands in it.
type Page struct {
	Type   string `json:"type"` // RFC 9457
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"` // what the reader can do about it

	Execution string    `json:"execution,omitempty"` // of the function that gave no better answer
	Errors    []Problem `json:"errors,omitempty"`    // what is wrong with the request's data
}

// Problem is one thing that is wrong with the data of a request, as in the example of RFC 9457.
type Problem struct {
	Detail  string `json:"detail"`
	Pointer string `json:"pointer"` // a JSON pointer as a fragment: "#/name"
}

// New returns a page for an HTTP status.
func New(status int, title, detail string) Page {
	return Page{Type: "about:blank", Title: title, Status: status, Detail: detail}
}

const pageHTML = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>%[2]s</title>
<style>
body{font:1.1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:20vh auto 0;padding:0 1.5rem;color:#222;` +
	`background:#fff}
small{color:#767676}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}}
</style>
<small>%[1]d</small>
<h1>%[2]s</h1>
<p>%[3]s</p>
</html>
`

// Write answers with p as the client reads it best: HTML, problem details or plain text. Nobody keeps it.
func Write(w http.ResponseWriter, r *http.Request, p Page) {
	h := w.Header()
	if p.Execution = h.Get(ExecutionHeader); p.Execution != "" {
		p.Detail += " More stands in the log of execution " + p.Execution + "."
	}
	media, text := render(p, r.Header.Get("Accept"))
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", Uncached)
	h.Set("Vary", "Accept")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(text)) // the status is out; a client that went away needs no answer
	}
}

// WriteProblem is Write for what programs are answered more often than people: without a wish it is problem details.
func WriteProblem(w http.ResponseWriter, r *http.Request, p Page) {
	accept := r.Header.Get("Accept")
	if !strings.Contains(accept, "text/html") && !strings.Contains(accept, "text/plain") {
		r = r.Clone(r.Context())
		r.Header.Set("Accept", "application/problem+json")
	}
	Write(w, r, p)
}

// render returns the page's content type and text. Without a wish it is HTML.
func render(p Page, accept string) (media, text string) {
	if !strings.Contains(accept, "text/html") {
		if strings.Contains(accept, "json") {
			data, err := json.Marshal(p)
			if err == nil {
				return "application/problem+json", string(data) + "\n"
			}
		}
		if strings.Contains(accept, "text/plain") {
			return "text/plain; charset=utf-8", p.Title + ". " + p.Detail + "\n"
		}
	}
	return "text/html; charset=utf-8", fmt.Sprintf(pageHTML, p.Status, p.Title, html.EscapeString(p.Detail))
}
