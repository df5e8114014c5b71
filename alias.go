package landfall

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Alias is a name, within one function, for one of its versions, or for two of them with weights.
type Alias struct {
	Name   string       `json:"name"`
	Shares []AliasShare `json:"shares"` // one or two; their percents sum to 100
	Sticky Sticky       `json:"sticky,omitempty" doc:"by what a client is known, which stays on one version"`
	Moved  time.Time    `json:"moved"`
	// where the spec of production declares it, such as specs/app.yaml:12; empty: a person made it
	Declared string `json:"declared,omitempty"`
}

// AliasShare is a version that gets some of the calls of an alias.
type AliasShare struct {
	UID     UID   `json:"version"`
	Number  int64 `json:"number"`
	Percent int   `json:"percent"`
}

// ByNumber returns the shares in an order that stays when weights move.
func (a Alias) ByNumber() []AliasShare {
	return slices.SortedFunc(slices.Values(a.Shares), func(x, y AliasShare) int { return cmp.Compare(x.Number, y.Number) })
}

// String returns where the alias points: a version, or two with their percents.
func (a Alias) String() string {
	if len(a.Shares) == 1 {
		return string(a.Shares[0].UID)
	}
	texts := make([]string, 0, len(a.Shares))
	for _, s := range a.Shares {
		texts = append(texts, fmt.Sprintf("%s %d%%", s.UID, s.Percent))
	}
	return strings.Join(texts, ", ")
}
