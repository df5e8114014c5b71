package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
)

// pageOf returns the page for an address that leads to no release that can be served.
func pageOf(o registry.Outcome) page.Page {
	switch o {
	case registry.Found, registry.UnknownApp:
	case registry.DeletedApp:
		return page.New(http.StatusGone, "This app was deleted",
			"Nothing is served here any more. Its name stays reserved, so no other app will appear at this address.")
	case registry.UnreadApp:
		return page.New(http.StatusServiceUnavailable, "This app cannot be served now",
			"What is stored of it cannot be read. It is tried again every few seconds; the operator's log says more.")
	case registry.NoLive:
		return page.New(http.StatusNotFound, "Nothing is live yet",
			"The app exists, but no release is live. Push to its production branch, or make a release live by hand.")
	case registry.UnknownRelease:
		return page.New(http.StatusNotFound, "No such release",
			"The app has no release, tag or commit of that name. The name may be mistyped, the tag removed, or the push "+
				"still on its way. The live release is at the app's own address.")
	case registry.AmbiguousCommit:
		return page.New(http.StatusNotFound, "Several commits begin like this",
			"More than one commit of the app begins with these digits. Use more digits of the commit, up to all 40.")
	case registry.ExpiredRelease:
		return page.New(http.StatusGone, "This release has expired",
			"Only the newest releases stay accessible, and those that a tag holds. The live release is at the app's own "+
				"address; whoever deploys the app can make this one accessible again.")
	}
	return pageUnknownHost()
}

func pageUnknownHost() page.Page {
	return page.New(http.StatusNotFound, "No such app", "No app is served at this address. The name may be mistyped.")
}

func pageStarting() page.Page {
	return page.New(http.StatusServiceUnavailable, "Starting", "The server does not know its releases yet. Try again in a moment.")
}

func pageUnsure() page.Page {
	return page.New(http.StatusServiceUnavailable, "Not known right now",
		"No release that is accessible has this address, and the list of earlier ones cannot be read. Try again in a moment.")
}

func pageOtherMethods() page.Page {
	return page.New(http.StatusMethodNotAllowed, "Not by this method", "Other methods are answered at this address. The header Allow names them.")
}

func pageNoFunctions() page.Page {
	return page.New(http.StatusServiceUnavailable, "Functions do not run here",
		"This server runs no functions, or nothing that could confine them. Its operator's log says more.")
}

func pageNoVersion() page.Page {
	return page.New(http.StatusBadGateway, "The function is gone", "The version that this route names is not there any more.")
}

func pageNoTrigger() page.Page {
	return page.New(http.StatusNotFound, "No such trigger",
		"The release has no trigger of this name. The address is /r/NAMESPACE/APP/TRIGGER, and "+
			"/r/NAMESPACE/APP:RELEASE/TRIGGER for another release than the live one.")
}

func pageNoToken() page.Page {
	return page.New(http.StatusUnauthorized, "A token is needed",
		"Send a token that may invoke the app's functions, in the header Authorization after the word Bearer.")
}

func pageWrongToken() page.Page {
	return page.New(http.StatusUnauthorized, "The token is not known",
		"The header Authorization has a token that this server does not know, or not any more.")
}

func pageNotSignedIn() page.Page {
	return page.New(http.StatusUnauthorized, "Only for those who signed in",
		"Open the address in a browser, or send a token that may read the app, in the header Authorization after the word Bearer.")
}

func pageElsewhere() page.Page {
	return page.New(http.StatusForbidden, "Sent by another site", "Only pages of this host may ask this in the name of whoever is signed in.")
}

func pageNoSession() page.Page {
	return page.New(http.StatusBadRequest, "The sign-in did not work",
		"It took longer than a minute, was used already, or began in another browser or one that keeps no cookies. Open the page again.")
}

func pageNotAllowed(access landfall.Access) page.Page {
	if access == landfall.AccessSignedIn {
		return page.New(http.StatusForbidden, "Not for you", "Whoever is signed in, or whose token this is, may not read this app.")
	}
	return page.New(http.StatusForbidden, "Not allowed", "Whoever asks may not call this function.")
}

func pageUnknownCaller() page.Page {
	return page.New(http.StatusServiceUnavailable, "Not known right now", "Who may call this function cannot be read. Try again in a moment.")
}

func pageTooLarge(most int64) page.Page {
	return page.New(http.StatusRequestEntityTooLarge, "The request is too large", fmt.Sprintf("The limit %q is %d.", limitRequest, most))
}

func pageBodies() page.Page {
	return page.New(http.StatusServiceUnavailable, "Too many large requests",
		fmt.Sprintf("The limit %q is reached. Try again in a moment.", limitRequests))
}

func pageSlow(patience time.Duration) page.Page {
	return page.New(http.StatusRequestTimeout, "The request did not arrive", fmt.Sprintf("Its body has %s to arrive, and did not end by then.", patience))
}

func pageIdle(patience time.Duration) page.Page {
	return page.New(http.StatusRequestTimeout, "The request did not arrive", fmt.Sprintf("Nothing of its body came for %s.", patience))
}

func pageHalf() page.Page {
	return page.New(http.StatusBadRequest, "The request did not arrive", "Its body broke off, or is no body.")
}

// pageMismatch returns the page for data that a function's contract refuses.
func pageMismatch(wrong *contract.MismatchError) page.Page {
	p := page.New(http.StatusBadRequest, "The data does not fit", "The function takes other data: "+sentence(wrong.Error()))
	for _, one := range wrong.Problems {
		p.Errors = append(p.Errors, page.Problem{Detail: one.Message, Pointer: (&url.URL{Fragment: one.Pointer}).String()})
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

// pageOfReason returns the page for a function that gave no answer.
func pageOfReason(reason runner.Reason) page.Page {
	switch reason {
	case runner.Busy:
		return page.New(http.StatusServiceUnavailable, "Busy", "As many requests as may be are being answered. Try again in a moment.")
	case runner.Timeout:
		return page.New(http.StatusGatewayTimeout, "The function took too long", "It did not answer within its timeout.")
	case runner.Memory:
		return page.New(http.StatusBadGateway, "The function ran out of memory", "It was ended before it answered.")
	case runner.Protocol:
		return page.New(http.StatusBadGateway, "The function's answer cannot be read", "What it wrote is no event, or none that HTTP can answer with.")
	case runner.TooLarge:
		return page.New(http.StatusBadGateway, "The function's answer is too large",
			fmt.Sprintf("The limit is %q, or %q for its headers.", limitAnswer, limitHeaders))
	case runner.Lost:
		return page.New(http.StatusBadGateway, "The function was lost", "The connection to what ran it broke. It may have run.")
	case runner.Exit:
	}
	return page.New(http.StatusBadGateway, "The function ended", "It ended before it answered.")
}

// sentence returns what a function said as a sentence, after which another one may stand.
func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}
