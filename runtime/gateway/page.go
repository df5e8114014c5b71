package gateway

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
)

// page is an answer of the gateway itself. Nothing of the request stands in it.
type page struct {
	Type   string `json:"type"` // RFC 9457
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"` // what the reader can do about it

	Execution string    `json:"execution,omitempty"` // of the function that gave no better answer
	Errors    []problem `json:"errors,omitempty"`    // what is wrong with the request's data
}

// problem is one thing that is wrong with the data of a request, as in the example of RFC 9457.
type problem struct {
	Detail  string `json:"detail"`
	Pointer string `json:"pointer"` // a JSON pointer as a fragment: "#/name"
}

func newPage(status int, title, detail string) page {
	return page{Type: "about:blank", Title: title, Status: status, Detail: detail}
}

// pageOf returns the page for an address that leads to no release that can be served.
func pageOf(o registry.Outcome) page {
	switch o {
	case registry.Found, registry.UnknownApp:
	case registry.DeletedApp:
		return newPage(http.StatusGone, "This app was deleted",
			"Nothing is served here any more. Its name stays reserved, so no other app will appear at this address.")
	case registry.UnreadApp:
		return newPage(http.StatusServiceUnavailable, "This app cannot be served now",
			"What is stored of it cannot be read. It is tried again every few seconds; the operator's log says more.")
	case registry.NoLive:
		return newPage(http.StatusNotFound, "Nothing is live yet",
			"The app exists, but no release is live. Push to its production branch, or make a release live by hand.")
	case registry.UnknownRelease:
		return newPage(http.StatusNotFound, "No such release",
			"The app has no release, tag or commit of that name. The name may be mistyped, the tag removed, or the push "+
				"still on its way. The live release is at the app's own address.")
	case registry.AmbiguousCommit:
		return newPage(http.StatusNotFound, "Several commits begin like this",
			"More than one commit of the app begins with these digits. Use more digits of the commit, up to all 40.")
	case registry.ExpiredRelease:
		return newPage(http.StatusGone, "This release has expired",
			"Only the newest releases stay accessible, and those that a tag holds. The live release is at the app's own "+
				"address; whoever deploys the app can make this one accessible again.")
	}
	return pageUnknownHost()
}

func pageUnknownHost() page {
	return newPage(http.StatusNotFound, "No such app", "No app is served at this address. The name may be mistyped.")
}

func pageNoFile() page {
	return newPage(http.StatusNotFound, "No such page", "The release has no route and no file at this path.")
}

func pageMethod() page {
	return newPage(http.StatusMethodNotAllowed, "Only GET and HEAD", "No route of the release takes another method here, and its files can only be read.")
}

func pagePrecondition() page {
	return newPage(http.StatusPreconditionFailed, "The file has changed", "It is not the one that If-Match names.")
}

func pageBroken() page {
	return newPage(http.StatusBadGateway, "This file cannot be read",
		"Its storage does not answer, or did not return what was uploaded. Try again in a moment; the operator's log says more.")
}

func pageStarting() page {
	return newPage(http.StatusServiceUnavailable, "Starting", "The server does not know its releases yet. Try again in a moment.")
}

func pageUnsure() page {
	return newPage(http.StatusServiceUnavailable, "Not known right now",
		"No release that is accessible has this address, and the list of earlier ones cannot be read. Try again in a moment.")
}

func pageOtherMethods() page {
	return newPage(http.StatusMethodNotAllowed, "Not by this method", "Other methods are answered at this address. The header Allow names them.")
}

func pageNoFunctions() page {
	return newPage(http.StatusServiceUnavailable, "Functions do not run here",
		"This server runs no functions, or nothing that could confine them. Its operator's log says more.")
}

func pageNoVersion() page {
	return newPage(http.StatusBadGateway, "The function is gone", "The version that this route names is not there any more.")
}

func pageNoTrigger() page {
	return newPage(http.StatusNotFound, "No such trigger",
		"The release has no trigger of this name. The address is /r/NAMESPACE/APP/TRIGGER, and "+
			"/r/NAMESPACE/APP:RELEASE/TRIGGER for another release than the live one.")
}

func pageNoToken() page {
	return newPage(http.StatusUnauthorized, "A token is needed",
		"Send a token that may invoke the app's functions, in the header Authorization after the word Bearer.")
}

func pageWrongToken() page {
	return newPage(http.StatusUnauthorized, "The token is not known",
		"The header Authorization has a token that this server does not know, or not any more.")
}

func pageNotSignedIn() page {
	return newPage(http.StatusUnauthorized, "Only for those who signed in",
		"Open the address in a browser, or send a token that may read the app, in the header Authorization after the word Bearer.")
}

func pageElsewhere() page {
	return newPage(http.StatusForbidden, "Sent by another site", "Only pages of this host may ask this in the name of whoever is signed in.")
}

func pageNoVisit() page {
	return newPage(http.StatusBadRequest, "The sign-in did not work",
		"It took longer than a minute, was used already, or began in another browser or one that keeps no cookies. Open the page again.")
}

func pageNotAllowed(access landfall.Access) page {
	if access == landfall.AccessSignedIn {
		return newPage(http.StatusForbidden, "Not for you", "Whoever is signed in, or whose token this is, may not read this app.")
	}
	return newPage(http.StatusForbidden, "Not allowed", "Whoever asks may not call this function.")
}

func pageUnknownCaller() page {
	return newPage(http.StatusServiceUnavailable, "Not known right now", "Who may call this function cannot be read. Try again in a moment.")
}

// pageMismatch returns the page for data that a function's contract refuses.
func pageMismatch(wrong *contract.MismatchError) page {
	p := newPage(http.StatusBadRequest, "The data does not fit", "The function takes other data: "+sentence(wrong.Error()))
	for _, one := range wrong.Problems {
		p.Errors = append(p.Errors, problem{one.Message, (&url.URL{Fragment: one.Pointer}).String()})
		if one.Pointer == "" {
			p.Errors[len(p.Errors)-1].Pointer = "#"
		}
	}
	return p
}

// Names of limits, as pages say them.
const (
	limitRequest  = "request bytes"
	limitRequests = "bytes of all requests"
	limitAnswer   = "answer bytes"
	limitHeaders  = "answer header bytes"
)

func pageTooLarge(most int64) page {
	return newPage(http.StatusRequestEntityTooLarge, "The request is too large", fmt.Sprintf("The limit %q is %d.", limitRequest, most))
}

func pageBodies() page {
	return newPage(http.StatusServiceUnavailable, "Too many large requests",
		fmt.Sprintf("The limit %q is reached. Try again in a moment.", limitRequests))
}

func pageSlow(patience time.Duration) page {
	return newPage(http.StatusRequestTimeout, "The request did not arrive", fmt.Sprintf("Its body has %s to arrive, and did not end by then.", patience))
}

func pageIdle(patience time.Duration) page {
	return newPage(http.StatusRequestTimeout, "The request did not arrive", fmt.Sprintf("Nothing of its body came for %s.", patience))
}

func pageHalf() page {
	return newPage(http.StatusBadRequest, "The request did not arrive", "Its body broke off, or is no body.")
}

// pageOfReason returns the page for a function that gave no answer.
func pageOfReason(reason runner.Reason) page {
	switch reason {
	case runner.Busy:
		return newPage(http.StatusServiceUnavailable, "Busy", "As many requests as may be are being answered. Try again in a moment.")
	case runner.Timeout:
		return newPage(http.StatusGatewayTimeout, "The function took too long", "It did not answer within its timeout.")
	case runner.Memory:
		return newPage(http.StatusBadGateway, "The function ran out of memory", "It was ended before it answered.")
	case runner.Protocol:
		return newPage(http.StatusBadGateway, "The function's answer cannot be read", "What it wrote is no event, or none that HTTP can answer with.")
	case runner.TooLarge:
		return newPage(http.StatusBadGateway, "The function's answer is too large",
			fmt.Sprintf("The limit is %q, or %q for its headers.", limitAnswer, limitHeaders))
	case runner.Lost:
		return newPage(http.StatusBadGateway, "The function was lost", "The connection to what ran it broke. It may have run.")
	case runner.Exit:
	}
	return newPage(http.StatusBadGateway, "The function ended", "It ended before it answered.")
}

const pageHTML = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>%[2]s</title>
<style>
body{font:1.1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:20vh auto 0;padding:0 1.5rem;color:#222;background:#fff}
small{color:#767676}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}}
</style>
<small>%[1]d</small>
<h1>%[2]s</h1>
<p>%[3]s</p>
</html>
`

// sentence returns what a function said as a sentence, after which another one may stand.
func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

// writePage answers with p as the client reads it best: HTML, problem details or plain text. Nobody keeps it.
func writePage(w http.ResponseWriter, r *http.Request, p page) {
	h := w.Header()
	if p.Execution = h.Get(ExecutionHeader); p.Execution != "" {
		p.Detail += " More stands in the log of execution " + p.Execution + "."
	}
	media, text := render(p, r.Header.Get("Accept"))
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", uncached)
	h.Set("Vary", "Accept")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(text)) // the status is out; a client that went away needs no answer
	}
}

// writeProblem is writePage for what programs are answered more often than people: without a wish it is problem details.
func writeProblem(w http.ResponseWriter, r *http.Request, p page) {
	accept := r.Header.Get("Accept")
	if !strings.Contains(accept, "text/html") && !strings.Contains(accept, "text/plain") {
		r = r.Clone(r.Context())
		r.Header.Set("Accept", "application/problem+json")
	}
	writePage(w, r, p)
}

// render returns the page's content type and text. Without a wish it is HTML.
func render(p page, accept string) (media, text string) {
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
