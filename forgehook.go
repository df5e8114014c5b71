package landfall

import "time"

// ForgeHook is a webhook as a forge has it.
type ForgeHook struct {
	ID       int64 // 0: it is not there yet
	URL      string
	Events   []string
	JSON     bool // payloads come as JSON, not as a form
	Verified bool // deliveries go only to a server with a good certificate
	Signed   bool // it has a secret; the forge does not say which
	Active   bool
	Tag      string // names this state of it at the forge
}

// ForgeDelivery is an attempt of a forge at delivering an event.
type ForgeDelivery struct {
	ID         int64 // of the attempt
	Delivery   string
	Event      string
	Action     string
	Repository int64
	At         time.Time
	Status     int // of the answer
}

// Failed reports whether the event was not taken.
func (d ForgeDelivery) Failed() bool { return d.Status < 200 || d.Status > 399 }

// HookState is what is known of the webhook of an app at its forge.
type HookState struct {
	App        string
	Repository GitHubRepository // without an id
	ID         int64            // the forge's number of it; 0: there is none yet
	Made       bool             // it was made for the app; otherwise a person made it
	Secret     Digest           // of the secret that it was given; empty: we gave it none
	Tag        string           // of its state when it was seen last
	Looked     time.Time        // when it was last as it has to be; zero: never
	Since      time.Time        // what was delivered before needs nothing any more
	Problem    string           // what is wrong with it now, for people
	Mended     string           // what was wrong with it, and was mended last
	MendedAt   time.Time
}
