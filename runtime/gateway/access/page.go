package access

import (
	"net/http"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway/page"
)

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
		"Open the address in a browser, or send a token that may read the app, in the header Authorization after the word "+
			"Bearer.")
}

func pageElsewhere() page.Page {
	return page.New(http.StatusForbidden, "Sent by another site",
		"Only pages of this host may ask this in the name of whoever is signed in.")
}

func pageNoSession() page.Page {
	return page.New(http.StatusBadRequest, "The sign-in did not work",
		"It took longer than a minute, was used already, or began in another browser or one that keeps no cookies. Open "+
			"the page again.")
}

func pageNotAllowed(access landfall.Access) page.Page {
	if access == landfall.AccessSignedIn {
		return page.New(http.StatusForbidden, "Not for you",
			"Whoever is signed in, or whose token this is, may not read this app.")
	}
	return page.New(http.StatusForbidden, "Not allowed", "Whoever asks may not call this function.")
}

func pageUnknownCaller() page.Page {
	return page.New(http.StatusServiceUnavailable, "Not known right now",
		"Who may call this function cannot be read. Try again in a moment.")
}
