package client

import (
	"time"

	"landfall.dev/landfall"
)

// NewReleaseCanary says which release a share of the visitors of an app's live address is to get, and how the share
// grows.
type NewReleaseCanary struct {
	Release   string `json:"release" doc:"release id, tag, latest, or commit"`
	Weight    int    `json:"weight,omitempty" default:"10" doc:"percent of the visitors that get it at first, from 1 to 99"`
	Step      int    `json:"step,omitempty" default:"20" doc:"percent more at each interval, from 1 to 100"`
	Interval  string `json:"interval,omitempty" default:"5m" doc:"between two steps, such as 5m or 1h30m; from 1s to 720h"`
	Threshold *int   `json:"threshold,omitempty" default:"1" doc:"percent of failures that it may have more than live, from 0 to 100"`
	Reason    string `json:"reason,omitempty" maxLength:"500" doc:"kept in the history"`
}

// ReleaseCanary is a release that a share of the visitors of an app's live address gets whole.
type ReleaseCanary struct {
	App       string                      `json:"app"`
	Release   landfall.UID                `json:"release"`
	Live      landfall.UID                `json:"live" doc:"the release that is live now"`
	State     landfall.ReleaseCanaryState `json:"state" enum:"running,live,returned,stopped,ended"`
	Reason    string                      `json:"reason" doc:"why it is in that state"`
	Weight    int                         `json:"weight" doc:"percent of the visitors that get it"`
	Step      int                         `json:"step"`
	Interval  string                      `json:"interval"`
	Threshold int                         `json:"threshold" doc:"percent of failures that it may have more than live"`
	Held      bool                        `json:"held,omitempty" doc:"live is held: it does not grow until that ends"`
	Actor     string                      `json:"actor"`
	Started   time.Time                   `json:"started"`
	Next      time.Time                   `json:"next,omitzero" doc:"when it goes on, if it had 100 requests by then"`
	Ended     time.Time                   `json:"ended,omitzero"`
	Canary    landfall.CanaryFigures      `json:"canary" doc:"what visitors asked its release for, and how much of it failed"`
	LiveSide  landfall.CanaryFigures      `json:"live_side" doc:"the same of the live release, in the same time"`
	URL       string                      `json:"url" doc:"where its release answers alone"`
	History   []ReleaseCanaryStep         `json:"history" doc:"what happened to it, newest first"`
}

// ReleaseCanaryStep is one thing that happened to a canary of a release, with the figures that decided.
type ReleaseCanaryStep struct {
	At     time.Time                   `json:"at"`
	Weight int                         `json:"weight" doc:"percent of the visitors from then on"`
	State  landfall.ReleaseCanaryState `json:"state" enum:"running,live,returned,stopped,ended"`
	Reason string                      `json:"reason"`
	Actor  string                      `json:"actor,omitempty" doc:"absent when it went by itself"`
	Canary landfall.CanaryFigures      `json:"canary"`
	Live   landfall.CanaryFigures      `json:"live_side"`
}
