package mux

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"landfall.dev/landfall"
)

// response is gin's writer with what that keeps from the writer below it.
type response struct {
	gin.ResponseWriter

	below http.ResponseWriter
}

// answered lets handlers write as net/http does.
func answered(c *gin.Context) {
	if w, ok := c.Writer.(interface{ Unwrap() http.ResponseWriter }); ok {
		c.Writer = response{c.Writer, w.Unwrap()}
	}
}

// Unwrap is for http.ResponseController.
func (w response) Unwrap() http.ResponseWriter { return w.below }

// WriteHeader implements http.ResponseWriter. A status that informs goes out at once, and another one follows.
func (w response) WriteHeader(status int) {
	if status >= http.StatusContinue && status < http.StatusOK && status != http.StatusSwitchingProtocols {
		w.below.WriteHeader(status)
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// FlushError is for http.ResponseController: gin's Flush keeps the error for itself.
func (w response) FlushError() error {
	w.WriteHeaderNow()
	return http.NewResponseController(w.below).Flush()
}

// ReadFrom implements io.ReaderFrom: large files go from the disk to the network without a copy.
func (w response) ReadFrom(r io.Reader) (int64, error) {
	w.WriteHeaderNow()
	return io.Copy(w.below, r)
}

// requestID is the header that names a request, in its answer and in the log.
const requestID = "X-Request-ID"

type idKey struct{}

// identified gives each request an id. What is asked within the process has that of the request which it is asked for.
func identified(c *gin.Context) {
	ctx := c.Request.Context()
	id, known := ctx.Value(idKey{}).(string)
	if !known {
		id = rand.Text()
		c.Request = c.Request.WithContext(context.WithValue(ctx, idKey{}, id))
	}
	c.Header(requestID, id)
}

// Logger returns a logger whose lines name the request that their context is of.
func Logger(logger *slog.Logger) *slog.Logger { return slog.New(handler{logger.Handler()}) }

type handler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, line slog.Record) error {
	if id, known := ctx.Value(idKey{}).(string); known {
		line.AddAttrs(slog.String("request", id))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }

// logged writes a line for each request, for whoever looks for a fault.
func logged(logger *slog.Logger) gin.HandlerFunc {
	return func(c *gin.Context) {
		began := time.Now()
		c.Next()
		logger.DebugContext(c.Request.Context(), "request", "method", c.Request.Method, "path", c.Request.URL.Path, "status",
			c.Writer.Status(), "took", time.Since(began), "from", c.Request.RemoteAddr)
	}
}

// recovered answers with a problem (RFC 9457) where a handler panics, and logs where that was. An answer that has begun
// ends there.
func recovered(logger *slog.Logger) gin.HandlerFunc {
	return func(c *gin.Context) {
		defer func() {
			fault := recover()
			if fault == nil {
				return
			}
			if fault == http.ErrAbortHandler { //nolint:errorlint // it is what was panicked with
				panic(fault) //nolint:forbidigo // net/http cuts the answer off
			}
			logger.ErrorContext(c.Request.Context(), "a request met a fault of the program",
				"method", c.Request.Method, "path", c.Request.URL.Path, "fault", fmt.Sprint(fault), "stack", string(debug.Stack()))
			if c.Writer.Written() {
				panic(http.ErrAbortHandler) //nolint:forbidigo // net/http cuts the answer off
			}
			const status = http.StatusInternalServerError
			id, _ := c.Request.Context().Value(idKey{}).(string)
			h := c.Writer.Header()
			for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Disposition", "Etag"} {
				h.Del(name)
			}
			h.Set("Cache-Control", "no-store")
			h.Set("Content-Type", "application/problem+json")
			c.Status(status)
			_ = json.NewEncoder(c.Writer).Encode(struct { // the client may be gone
				Title  string `json:"title"`
				Status int    `json:"status"`
				Detail string `json:"detail"`
				Kind   string `json:"kind"`
			}{http.StatusText(status), status, "the log of the server says what failed, at the request " + id,
				landfall.Internal.String()})
			c.Abort()
		}()
		c.Next()
	}
}
