package client

import "landfall.dev/landfall"

// Canary is a canary as the API shows it.
type Canary struct {
	landfall.Canary

	Interval string                `json:"interval" doc:"between two steps, such as 2m0s"`
	Older    CanarySide            `json:"old"`
	Newer    CanarySide            `json:"new"`
	History  []landfall.CanaryStep `json:"history,omitempty" doc:"newest first; where one canary is shown"`
}

// CanarySide is one side of a canary, with what was counted since the last step, or until the end.
type CanarySide struct {
	landfall.CanarySide
	landfall.CanaryFigures
}

// NewCanary is what a person says of a canary: function, alias and version, or trigger, newfunction and oldfunction.
type NewCanary struct {
	Name        string `json:"name"`
	Function    string `json:"function,omitempty" doc:"of the alias"`
	Alias       string `json:"alias,omitempty"`
	Version     string `json:"version,omitempty" doc:"that the alias is to lead to: uid, number, label or latest"`
	Trigger     string `json:"trigger,omitempty" doc:"an HTTP trigger with weights"`
	Newer       string `json:"newfunction,omitempty" doc:"as the trigger names it"`
	Older       string `json:"oldfunction,omitempty" doc:"as the trigger names it"`
	Step        *int   `json:"step,omitempty" doc:"percent that the new version gets more at each step; absent: 20"`
	Interval    string `json:"interval,omitempty" doc:"between two steps: 30s, 2m, 1h; absent: 2m"`
	Threshold   *int   `json:"threshold,omitempty" doc:"percent of failures that the new version may have; absent: 10"`
	MinRequests *int64 `json:"min_requests,omitempty" doc:"with fewer requests to the new version nothing is decided; absent: 1"`
}
