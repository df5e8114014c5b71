package gateway

import (
	"net/http"

	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
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
	return page.New(http.StatusServiceUnavailable, "Starting",
		"The server does not know its releases yet. Try again in a moment.")
}

func pageUnsure() page.Page {
	return page.New(http.StatusServiceUnavailable, "Not known right now",
		"No release that is accessible has this address, and the list of earlier ones cannot be read. Try again in a moment.")
}

func pageOtherMethods() page.Page {
	return page.New(http.StatusMethodNotAllowed, "Not by this method",
		"Other methods are answered at this address. The header Allow names them.")
}

func pageNoHook() page.Page {
	return page.New(http.StatusNotFound, "No such webhook",
		"No webhook has this address, or its function is gone. landfall webhook list shows the addresses.")
}

func pageNoTrigger() page.Page {
	return page.New(http.StatusNotFound, "No such trigger",
		"The release has no trigger of this name. The address is /r/NAMESPACE/APP/TRIGGER, and "+
			"/r/NAMESPACE/APP:RELEASE/TRIGGER for another release than the live one.")
}
