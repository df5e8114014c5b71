package webhook

import (
	"cmp"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"os"
	"time"

	"landfall.dev/landfall"
)

// checkHead refuses requests that can be refused without their body. It returns whether the payload is a form's field,
// and the signature.
func checkHead(r *http.Request) (form bool, signature []byte, err error) {
	if r.Method != http.MethodPost {
		return false, nil, unread(http.StatusMethodNotAllowed, "webhooks are received by POST", nil)
	}
	contentType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	form = contentType == "application/x-www-form-urlencoded"
	if err != nil || (contentType != "application/json" && !form) {
		return false, nil, unread(http.StatusUnsupportedMediaType,
			"the content type must be application/json or application/x-www-form-urlencoded", err)
	}
	signature, wrong := signatureOf(r.Header)
	if wrong != "" {
		return false, nil, unread(http.StatusUnauthorized, wrong, nil)
	}
	if r.ContentLength > MaxBody {
		return false, nil, tooLarge()
	}
	return form, signature, nil
}

func tooLarge() error {
	return unread(http.StatusRequestEntityTooLarge, "a payload has at most 25 MiB", nil)
}

// read reads the raw body into the buffer.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, buffer *bodyBuffer) error {
	// The deadline belongs to the connection: it uses the machine's clock, and must not outlast the body. A writer
	// without deadlines has no connection.
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(cmp.Or(h.BodyTimeout, BodyTimeout)))
	err := buffer.fill(http.MaxBytesReader(w, r.Body, MaxBody))
	_ = connection.SetReadDeadline(time.Time{})

	_, large := errors.AsType[*http.MaxBytesError](err)
	_, refused := errors.AsType[*refusal](err)
	switch {
	case err == nil || refused:
		return err
	case large:
		return tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return unread(http.StatusRequestTimeout, "the body did not arrive in time", err)
	default:
		return unread(http.StatusBadRequest, "the body could not be read to its end", err)
	}
}

// payloadOf returns the JSON in a verified body.
func payloadOf(body []byte, form bool) ([]byte, error) {
	if !form {
		return body, nil
	}
	values, err := url.ParseQuery(string(body))
	if err != nil || !values.Has("payload") {
		return nil, &landfall.Error{
			Op: "webhook.Parse", Kind: landfall.Invalid, Message: `the form has no field "payload"`, Err: err,
		}
	}
	return []byte(values.Get("payload")), nil
}
