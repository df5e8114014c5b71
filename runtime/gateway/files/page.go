package files

import (
	"net/http"

	"landfall.dev/landfall/runtime/gateway/page"
)

func pageMethod() page.Page {
	return page.New(http.StatusMethodNotAllowed, "Only GET and HEAD",
		"No route of the release takes another method here, and its files can only be read.")
}

func pagePrecondition() page.Page {
	return page.New(http.StatusPreconditionFailed, "The file has changed", "It is not the one that If-Match names.")
}

func pageBroken() page.Page {
	return page.New(http.StatusBadGateway, "This file cannot be read",
		"Its storage does not answer, or did not return what was uploaded. Try again in a moment; the operator's log says "+
			"more.")
}

// NoFile returns the page for a path that leads to nothing.
func NoFile() page.Page {
	return page.New(http.StatusNotFound, "No such page", "The release has no route and no file at this path.")
}
