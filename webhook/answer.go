package webhook

import (
	"encoding/json"
	"net/http"

	"landfall.dev/landfall"
)

// refusal is an answer other than 200 and 202.
type refusal struct {
	status int
	detail string // for the person who set up the webhook; GitHub shows it beside the delivery
	cause  error  // for the log
	unread bool   // the body was not read, and will not be read
}

// Error implements error.
func (r *refusal) Error() string { return r.detail }

// Unwrap returns the cause.
func (r *refusal) Unwrap() error { return r.cause }

// unread refuses a request without reading what is left of its body.
func unread(status int, detail string, cause error) error {
	return &refusal{status: status, detail: detail, cause: cause, unread: true}
}

// malformed refuses a malformed payload with a good signature.
func malformed(err error) error {
	return &refusal{status: http.StatusBadRequest, detail: landfall.MessageOf(err), cause: err}
}

// storeDown refuses a delivery that could not be stored: the sender can deliver it again.
func storeDown(err error) error {
	return &refusal{
		status: http.StatusServiceUnavailable, detail: "the delivery could not be stored; deliver it again later", cause: err,
	}
}

// refuse writes a refusal as problem details (RFC 9457).
func refuse(w http.ResponseWriter, no *refusal) {
	if no.unread {
		w.Header().Set("Connection", "close")
	}
	if no.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	write(w, no.status, "application/problem+json", struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(no.status), no.status, no.detail})
}

// accepted writes the answer for a stored delivery.
func (h *Handler) accepted(w http.ResponseWriter, delivery landfall.Delivery, repeat bool) {
	status := http.StatusAccepted
	if repeat {
		status = http.StatusOK
	}
	runs := make([]string, len(delivery.Runs))
	for i, run := range delivery.Runs {
		runs[i] = h.RunURL(run)
	}
	write(w, status, "application/json", struct {
		Delivery string   `json:"delivery"`
		Runs     []string `json:"runs"`
		Decision string   `json:"decision"`
	}{h.DeliveryURL(delivery), runs, delivery.Decision})
}

func write(w http.ResponseWriter, status int, contentType string, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}
