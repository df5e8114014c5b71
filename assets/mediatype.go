package assets

import (
	"net/http"
	"path"
	"strings"
)

// typesByExtension is our own table: the content type must not depend on files of the machine that uploads.
const typesByExtension = `
.html	text/html; charset=utf-8
.htm	text/html; charset=utf-8
.css	text/css; charset=utf-8
.js	text/javascript; charset=utf-8
.mjs	text/javascript; charset=utf-8
.cjs	text/javascript; charset=utf-8
.txt	text/plain; charset=utf-8
.text	text/plain; charset=utf-8
.log	text/plain; charset=utf-8
.ini	text/plain; charset=utf-8
.conf	text/plain; charset=utf-8
.toml	text/plain; charset=utf-8
.md	text/markdown; charset=utf-8
.markdown	text/markdown; charset=utf-8
.csv	text/csv; charset=utf-8
.vtt	text/vtt; charset=utf-8
.ics	text/calendar; charset=utf-8
.xml	text/xml; charset=utf-8
.xsl	text/xml; charset=utf-8
.yaml	application/yaml
.yml	application/yaml
.json	application/json
.map	application/json
.webmanifest	application/manifest+json
.jsonld	application/ld+json
.geojson	application/geo+json
.rss	application/rss+xml
.atom	application/atom+xml
.xhtml	application/xhtml+xml
.wasm	application/wasm
.pdf	application/pdf
.svg	image/svg+xml
.png	image/png
.jpg	image/jpeg
.jpeg	image/jpeg
.gif	image/gif
.webp	image/webp
.avif	image/avif
.apng	image/apng
.bmp	image/bmp
.tif	image/tiff
.tiff	image/tiff
.ico	image/x-icon
.woff	font/woff
.woff2	font/woff2
.ttf	font/ttf
.otf	font/otf
.eot	application/vnd.ms-fontobject
.mp3	audio/mpeg
.m4a	audio/mp4
.ogg	audio/ogg
.oga	audio/ogg
.opus	audio/ogg
.wav	audio/wav
.flac	audio/flac
.mp4	video/mp4
.m4v	video/mp4
.webm	video/webm
.ogv	video/ogg
.mov	video/quicktime
.zip	application/zip
.gz	application/gzip
.tgz	application/gzip
.tar	application/x-tar
.bin	application/octet-stream
.exe	application/octet-stream
.dat	application/octet-stream
.wad	application/octet-stream
`

// typeByName returns the content type for the extension of a path, and "" when there is none.
func typeByName(name string) string {
	_, after, found := strings.Cut(typesByExtension, "\n"+strings.ToLower(path.Ext(name))+"\t")
	if !found {
		return ""
	}
	contentType, _, _ := strings.Cut(after, "\n")
	return contentType
}

// sniffLength is how many bytes typeBySniffing reads.
const sniffLength = 512

// typeBySniffing returns the content type of a file from its first bytes, when its name gives none.
func typeBySniffing(head []byte) string { return http.DetectContentType(head) }
