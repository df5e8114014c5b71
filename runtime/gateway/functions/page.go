package functions

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway/page"
)

// Names of limits, as pages say them.
const (
	limitRequest  = "request bytes"
	limitRequests = "bytes of all requests"
	limitAnswer   = "answer bytes"
	limitHeaders  = "answer header bytes"
)

func pageNoFunctions() page.Page {
	return page.New(http.StatusServiceUnavailable, "Functions do not run here",
		"This server runs no functions, or nothing that could confine them. Its operator's log says more.")
}

func pageNoVersion() page.Page {
	return page.New(http.StatusBadGateway, "The function is gone",
		"The version that this route names is not there any more.")
}

func pageTag(tag string) page.Page {
	return page.New(http.StatusConflict, "The trigger calls several functions",
		fmt.Sprintf("It names the function tag %q, and nobody gets the answers of all. Its schedule fires it; so does an "+
			"event that is sent to /fire with the address of the trigger as its source.", tag))
}

func pageTooLarge(most int64) page.Page {
	return page.New(http.StatusRequestEntityTooLarge, "The request is too large",
		fmt.Sprintf("The limit %q is %d.", limitRequest, most))
}

func pageBodies() page.Page {
	return page.New(http.StatusServiceUnavailable, "Too many large requests",
		fmt.Sprintf("The limit %q is reached. Try again in a moment.", limitRequests))
}

func pageSlow(patience time.Duration) page.Page {
	return page.New(http.StatusRequestTimeout, "The request did not arrive",
		fmt.Sprintf("Its body has %s to arrive, and did not end by then.", patience))
}

func pageIdle(patience time.Duration) page.Page {
	return page.New(http.StatusRequestTimeout, "The request did not arrive",
		fmt.Sprintf("Nothing of its body came for %s.", patience))
}

func pageHalf() page.Page {
	return page.New(http.StatusBadRequest, "The request did not arrive", "Its body broke off, or is no body.")
}

// pageMismatch returns the page for data that a function's contract refuses.
func pageMismatch(wrong *contract.MismatchError) page.Page {
	p := page.New(http.StatusBadRequest, "The data does not fit",
		"The function takes other data: "+sentence(wrong.Error()))
	for _, one := range wrong.Problems {
		p.Errors = append(p.Errors, page.Problem{Detail: one.Message, Pointer: (&url.URL{Fragment: one.Pointer}).String()})
		if one.Pointer == "" {
			p.Errors[len(p.Errors)-1].Pointer = "#"
		}
	}
	return p
}

// pageOfReason returns the page for a function that gave no answer.
func pageOfReason(reason function.Reason) page.Page {
	switch reason {
	case function.ReasonBusy:
		return page.New(http.StatusServiceUnavailable, "Busy",
			"As many requests as may be are being answered. Try again in a moment.")
	case function.ReasonTimeout:
		return page.New(http.StatusGatewayTimeout, "The function took too long", "It did not answer within its timeout.")
	case function.ReasonMemory:
		return page.New(http.StatusBadGateway, "The function ran out of memory", "It was ended before it answered.")
	case function.ReasonProtocol:
		return page.New(http.StatusBadGateway, "The function's answer cannot be read",
			"What it wrote is no event, or none that HTTP can answer with.")
	case function.ReasonTooLarge:
		return page.New(http.StatusBadGateway, "The function's answer is too large",
			fmt.Sprintf("The limit is %q, or %q for its headers.", limitAnswer, limitHeaders))
	case function.ReasonLost:
		return page.New(http.StatusBadGateway, "The function was lost",
			"The connection to what ran it broke. It may have run.")
	case function.ReasonExit:
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
