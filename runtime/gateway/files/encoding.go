package files

import (
	"compress/gzip"
	"io"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
)

// encoding is a content coding as HTTP names it; empty: the bytes as they are.
type encoding string

const (
	identity encoding = ""
	br       encoding = "br"
	gz       encoding = "gzip"
)

// Sizes between which a compressed form is worth making.
const (
	minCompressed = 1 << 10
	maxCompressed = 16 << 20
)

// level is a good ratio at a speed that the first visitor does not notice, for both codings.
const level = 6

// negotiate returns the coding that the client of an Accept-Encoding header likes best; of equals the smallest.
func negotiate(accept string) encoding {
	if accept == "" {
		return identity
	}
	const unnamed = -1.0
	brQ, gzQ, identityQ, anyQ := unnamed, unnamed, unnamed, unnamed
	for item := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(item, ";")
		q := quality(params)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case string(br):
			brQ = q
		case string(gz), "x-gzip":
			gzQ = q
		case "identity":
			identityQ = q
		case "*":
			anyQ = q
		}
	}
	if brQ == unnamed {
		brQ = anyQ
	}
	if gzQ == unnamed {
		gzQ = anyQ
	}
	switch {
	case brQ > 0 && brQ >= gzQ && brQ >= identityQ:
		return br
	case gzQ > 0 && gzQ >= identityQ:
		return gz
	}
	return identity
}

// quality returns the q of the parameters of one item; 1 when there is none, 0 when it is nonsense.
func quality(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, ok := strings.Cut(strings.TrimSpace(param), "=")
		if !ok || !strings.EqualFold(name, "q") {
			continue
		}
		q, err := strconv.ParseFloat(value, 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}

// compressible reports whether files of the content type become smaller; pictures, sound, video, archives and WOFF are
// compressed already.
func compressible(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml") {
		return true
	}
	switch media {
	case "application/javascript", "application/json", "application/xml", "application/yaml", "application/wasm",
		"application/vnd.ms-fontobject", "font/ttf", "font/otf", "image/bmp", "image/x-icon", "image/vnd.microsoft.icon":
		return true
	}
	return false
}

// compress writes src to dst in the coding e, which is br or gz.
func compress(dst io.Writer, src io.Reader, e encoding) error {
	var w io.WriteCloser = brotli.NewWriterLevel(dst, level)
	if e == gz {
		var err error
		if w, err = gzip.NewWriterLevel(dst, level); err != nil {
			return err
		}
	}
	if _, err := io.Copy(w, src); err != nil {
		return err
	}
	return w.Close()
}
