package landfall

import "time"

// KeepPayloads is how long what deliveries said is kept, so that they can be judged again.
const KeepPayloads = 3 * 24 * time.Hour

// Delivery is one webhook request as received and verified.
type Delivery struct {
	Hook     string    `json:"hook,omitempty"` // which hook: empty for the installation's own secret
	ID       string    `json:"id"`             // X-GitHub-Delivery; the same on a redelivery
	Event    string    `json:"event"`          // X-GitHub-Event
	Digest   Digest    `json:"digest"`         // of the raw body
	Decision string    `json:"decision"`       // what became of it, for people
	Received time.Time `json:"received"`
	Runs     []string  `json:"runs"` // the runs that it made or joined

	// Asked is how often the forge was asked to deliver it again, since it could not.
	Asked int `json:"asked,omitempty"`

	// Needed says what somebody has to do so that it is acted on; empty when nothing is to be done, and in lists.
	Needed string `json:"needed,omitempty"`

	// Repository is the numeric id of the repository that the event names; 0: it names none.
	Repository int64 `json:"-"`

	// Unmatched says that no app has its repository, that the hook belongs to an app with another repository, or that it
	// could not be accepted. A redelivery is judged again.
	Unmatched bool `json:"-"`
}

// Hook is the address that was made for one repository, with its own secret.
type Hook struct {
	ID     string // random; the last element of the hook's address
	App    string
	Secret string
}
