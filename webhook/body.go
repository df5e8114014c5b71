package webhook

import (
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
		return false, nil, &refusal{
			status: http.StatusMethodNotAllowed, detail: "webhooks are received by POST", unread: true,
		}
	}
	contentType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	form = contentType == "application/x-www-form-urlencoded"
	if err != nil || (contentType != "application/json" && !form) {
		return false, nil, &refusal{
			status: http.StatusUnsupportedMediaType, unread: true, cause: err,
			detail: "the content type must be application/json or application/x-www-form-urlencoded",
		}
	}
	signature, wrong := signatureOf(r.Header)
	if wrong != "" {
		return false, nil, &refusal{status: http.StatusUnauthorized, unread: true, detail: wrong}
	}
	if r.ContentLength > MaxBody {
		return false, nil, tooLarge(true)
	}
	return form, signature, nil
}

func tooLarge(unread bool) error {
	return &refusal{status: http.StatusRequestEntityTooLarge, detail: "a payload has at most 25 MiB", unread: unread}
}

// read reads the raw body into the buffer.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, buffer *bodyBuffer) error {
	timeout := h.BodyTimeout
	if timeout == 0 {
		timeout = BodyTimeout
	}
	// The deadline belongs to the connection: it uses the machine's clock, and must not outlast the body. A writer
	// without deadlines has no connection.
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(timeout))
	err := buffer.fill(http.MaxBytesReader(w, r.Body, MaxBody))
	_ = connection.SetReadDeadline(time.Time{})

	_, large := errors.AsType[*http.MaxBytesError](err)
	_, refused := errors.AsType[*refusal](err)
	switch {
	case err == nil || refused:
		return err
	case large:
		return tooLarge(true)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal{
			status: http.StatusRequestTimeout, detail: "the body did not arrive in time", cause: err, unread: true,
		}
	default:
		return &refusal{
			status: http.StatusBadRequest, detail: "the body could not be read to its end", cause: err, unread: true,
		}
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
