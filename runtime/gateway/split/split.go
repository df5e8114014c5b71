// Package split chooses for each visitor of an app which of two releases they get while a canary of one runs, and
// counts how both do.
package split

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"landfall.dev/landfall/runtime/gateway/access"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

// The cookie of the choice. No function gets it or sets it, as all of Landfall's own.
const (
	cookieName = access.CookiePrefix + "-canary"
	cookieAge  = 30 * 24 * time.Hour
)

// choice is what the cookie holds: a visitor, who is a random number, and the weight by which they were asked last. The
// canary has those whose number, modulo 100, is below that weight. So a canary that grows keeps its visitors, and what
// a visitor gets is the same at every gateway, whichever weight that gateway knows of.
type choice struct {
	visitor uint64
	weight  byte
}

const (
	macSize    = 16
	choiceSize = 8 + 1 // a visitor and a weight
	percent    = 100
)

func (c choice) canary() bool { return c.visitor%percent < uint64(c.weight) }

// Choose reports whether a visitor gets the canary, and has the answer set the cookie when that was decided now.
//
// It is decided where a page begins, so no page is made of two releases: what a page loads comes from where the page
// came from. That is the live release when a page that was open before asks for something without a cookie.
func Choose(h http.Header, r *http.Request, c *registry.Canary) (canary bool) {
	chosen, known := read(r, c.Key)
	switch {
	case !known && !mayBegin(r):
		return false
	case !known:
		chosen.visitor = random()
	case int(chosen.weight) >= c.Weight || !begins(r):
		return chosen.canary()
	}
	chosen.weight = byte(min(max(c.Weight, 0), percent))
	cookie := http.Cookie{
		Name: cookieName, Value: chosen.signed(c.Key), Path: "/", MaxAge: int(cookieAge.Seconds()), Secure: true,
		HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	h.Add("Set-Cookie", cookie.String())
	return chosen.canary()
}

// mayBegin reports whether a request may be for a page, and is not certainly for something that a page loads.
func mayBegin(r *http.Request) bool {
	to := r.Header.Get("Sec-Fetch-Dest")
	return to == "" || to == "document"
}

// begins reports whether a request only reads, and is for a page; programs that say nothing have none.
func begins(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Dest") == "" {
		accept, said := r.Header["Accept"]
		return page.Reads(r) && (!said || strings.Contains(strings.Join(accept, ","), "text/html"))
	}
	return page.Reads(r) && mayBegin(r)
}

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint64(b[:])
}

// signed returns the value of the cookie.
func (c choice) signed(key string) string {
	data := make([]byte, 0, choiceSize+macSize)
	data = append(binary.BigEndian.AppendUint64(data, c.visitor), c.weight)
	return base64.RawURLEncoding.EncodeToString(append(data, mac(key, data)...))
}

// read returns the choice that a request has, unless there is none that was signed with the key.
func read(r *http.Request, key string) (c choice, known bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return c, false
	}
	data, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(data) != choiceSize+macSize ||
		!hmac.Equal(mac(key, data[:choiceSize]), data[choiceSize:]) {
		return c, false
	}
	return choice{binary.BigEndian.Uint64(data), data[choiceSize-1]}, true
}

func mac(key string, data []byte) []byte {
	h := hmac.New(sha256.New, []byte(key))
	h.Write(data)
	return h.Sum(nil)[:macSize]
}
