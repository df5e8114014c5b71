package files

import (
	"context"
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

// How much is looked at for one file that the live release does not have.
const (
	maxPast      = 500       // releases that were live before
	maxPastFiles = 4_000_000 // files that they list together; half of maxNoted, so that two such apps have room
)

// maxGone is how many releases are remembered whose content was collected.
const maxGone = 10_000

// servePast answers with the file at path of the release that was live last, of those that have it and were live within
// the time that the app says: a page that was loaded before live moved asks for it. Only files that pages load are
// served, to requests of pages. It reports whether it answered. Where the live release has a fallback page for the
// path, the request must say what it loads. While a canary runs, the other one of its two releases comes first: a page
// of it may be open, too.
func (s *Server) servePast(w http.ResponseWriter, r *http.Request, found registry.Resolution, path string,
	fallback bool) bool {
	past := found.Past
	kept := past.KeepFiles > 0 && len(past.Releases) > 0
	if !kept && found.Other == nil || !ofPage(r, fallback) || hidden(path) {
		return false
	}
	listed := 0
	if found.Other != nil && s.serveOf(w, r, found.App, found.Other, path, &listed) {
		return true
	}
	if kept && past.SignedIn {
		known, answered := s.seesPast(w, r, found.App)
		if answered {
			return true
		}
		kept = known
	}
	since := s.now().Add(-past.KeepFiles)
	for _, release := range past.Releases[:min(len(past.Releases), maxPast)] {
		if !kept || listed > maxPastFiles || release.LiveUntil.Before(since) {
			break
		}
		if s.serveOf(w, r, found.App, release, path, &listed) {
			return true
		}
	}
	w.Header().Set(page.ReleaseHeader, string(found.Release.ID))
	return false
}

// serveOf answers with the file that another release has at path, and reports whether it did. It adds how many files
// it looked among.
func (s *Server) serveOf(w http.ResponseWriter, r *http.Request, app string, release *registry.Release, path string,
	listed *int) bool {
	if _, gone := s.gone.get(release); gone {
		return false
	}
	file, list, err := s.manifests.pastFile(r.Context(), release, path)
	*listed += list
	if landfall.Is(err, landfall.NotFound) {
		s.gone.add(release, struct{}{}, 1)
		return false
	}
	if err == nil && (file.Key == "" || routed(r, release, path)) {
		return false
	}
	return s.sendPast(w, r, app, release, answer{status: http.StatusOK, path: path, file: file, past: true}, err)
}

// sendPast answers with a file of a release that was live before, or that it cannot be read. It reports false when the
// file is not there any more.
func (s *Server) sendPast(w http.ResponseWriter, r *http.Request, app string, release *registry.Release, a answer,
	err error) bool {
	w.Header().Set(page.ReleaseHeader, string(release.ID))
	if err == nil {
		err = s.send(w, r, a)
	}
	if landfall.Is(err, landfall.NotFound) {
		return false
	}
	if err != nil {
		s.Fail(w, r, app, err)
	}
	return true
}

// routed reports whether a release answers a request with a function: then the file at its path was never to be had.
func routed(r *http.Request, release *registry.Release, path string) bool {
	if !utf8.ValidString(path) {
		return false // an event has no other text
	}
	route, _ := release.Routes.Find(r.Clone(r.Context())) // it sets values of the request's path
	return route != nil
}

// ofPage reports whether a page may have asked for something that it loads: no browser goes to it as to a page, or
// keeps it as a service worker. Old browsers, and those without https, do not say what they load; said is whether it
// must be said.
func ofPage(r *http.Request, said bool) bool {
	if r.Header.Get("Service-Worker") != "" || r.Header.Get("Sec-Fetch-Mode") == "navigate" {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Dest") {
	case "empty", "script", "style", "font", "image", "audio", "video", "track", "json", "manifest",
		"worker", "sharedworker", "audioworklet", "paintworklet":
		return true
	case "":
		return !said && !strings.Contains(r.Header.Get("Accept"), "text/html")
	}
	return false
}

// hidden reports whether a path is none of a file that pages load, whatever the file's type is: a source map, or a name
// with a dot at its beginning.
func hidden(path string) bool {
	return strings.Contains(path, "/.") || extension(path) == "map"
}

// loadable reports whether a file's type is that of a script, a style, JSON, WebAssembly, a font, an image, sound or
// film: what pages load.
func loadable(file File) bool {
	media, _, _ := strings.Cut(file.Type, ";")
	kind, subtype, _ := strings.Cut(strings.ToLower(strings.TrimSpace(media)), "/")
	switch kind {
	case "image", "font", "audio", "video":
		return true
	case "text":
		return subtype == "javascript" || subtype == "css" || subtype == "vtt"
	case "application":
		return slices.Contains([]string{"javascript", "json", "wasm", "vnd.ms-fontobject", "ogg"}, subtype) ||
			strings.HasSuffix(subtype, "+json")
	}
	return false
}

// pastFile returns the file that a release serves at exactly this path, if it is one that pages load, else one without
// a key; and how many files it looked among. It keeps 4 bytes of each path, so that many releases can be asked at
// little cost.
func (m *manifests) pastFile(ctx context.Context, release *registry.Release, path string) (file File, listed int,
	err error) {
	hash := m.hash(path)
	may := false
	for i := range release.Units {
		unit := &release.Units[i]
		if !covers(unit.Path, path) {
			continue
		}
		noted, err := m.note(ctx, unit.Manifest)
		if err != nil {
			return File{}, listed, err
		}
		listed += len(noted)
		_, found := slices.BinarySearch(noted, hash)
		may = may || found
	}
	if !may {
		return File{}, listed, nil
	}
	file, _, err = m.file(ctx, release, path)
	if !loadable(file) {
		file = File{}
	}
	return file, listed, err
}

// note returns the hashes of the paths of those files of a manifest that pages load, sorted. The manifest itself is not
// kept: of many releases that would be more than there is room for.
func (m *manifests) note(ctx context.Context, key string) ([]uint32, error) {
	if noted, ok := m.noted.get(key); ok {
		return noted, nil
	}
	manifest, ok := m.kept.get(key)
	if !ok {
		var err error
		if manifest, err = m.load(ctx, key, func(*Manifest) {}); err != nil {
			return nil, err
		}
	}
	noted := make([]uint32, 0, len(manifest.Files))
	for path, file := range manifest.Files {
		if loadable(file) && !hidden(path) {
			noted = append(noted, m.hash(path))
		}
	}
	slices.Sort(noted)
	m.noted.add(key, noted, int64(len(noted))+1)
	return noted, nil
}

func (m *manifests) hash(path string) uint32 { return uint32(maphash.String(m.seed, path)) }
