package spec

import (
	"encoding/base64"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"landfall.dev/landfall"
)

// archiveSpec is an archive as a Package document writes it.
type archiveSpec struct {
	Type     string `json:"type"`
	URL      string `json:"url"`
	Literal  string `json:"literal"`
	Checksum struct {
		Type string `json:"type"`
		Sum  string `json:"sum"`
	} `json:"checksum"`
}

func (a archiveSpec) isEmpty() bool { return a.URL == "" && a.Literal == "" }

// archiveScheme begins the URL of an archive that an ArchiveUploadSpec defines.
const archiveScheme = "archive://"

// maxLiteral is how many bytes a literal has at most, as in Fission.
const maxLiteral = 256 << 10

// archive reads where the files of a package come from. What is wrong with it is reported.
func (d *document) archive(n nodes, which, owner string, a archiveSpec) ArchiveRef {
	at := func(field ...string) Position { return n.at(append([]string{"spec", which}, field...)...) }
	problemf := func(pos Position, format string, values ...any) {
		d.problemf(pos, "Package "+owner+": "+which+format, values...)
	}
	known := map[string]bool{"url": a.URL != "", "literal": a.Literal != ""}
	if fits, ok := known[a.Type]; a.Type != "" && a.Type != "oci" && !ok {
		problemf(at("type"), ".type: unknown type %s; %s", quote(a.Type), Suggest(a.Type, known))
	} else if ok && !fits && !a.isEmpty() {
		problemf(at("type"), ".type is %s, and it has none; write one, or another type", a.Type)
	}
	name, isArchive := strings.CutPrefix(a.URL, archiveScheme)
	found := ArchiveRef{Pos: at("url")}
	switch {
	case a.isEmpty():
		return ArchiveRef{}
	case a.URL != "" && a.Literal != "":
		problemf(at("url"), " has both a url and a literal")
		return found
	case isArchive: // the checksum is of the archive that Fission's tools would make
		found.Name = name
		d.reference(at("url"), "Package "+owner, archiveKind, name)
		return found
	case a.URL != "":
		if why := checkArchiveURL(a.URL); why != "" {
			problemf(at("url"), ".url %s", why)
		}
		found.URL = a.URL
	default:
		found.Pos = at("literal")
		var err error
		if found.Literal, err = base64.StdEncoding.DecodeString(a.Literal); err != nil {
			problemf(found.Pos, ".literal is not base64")
		} else if len(found.Literal) > maxLiteral {
			problemf(found.Pos, ".literal has %d bytes; the limit is %d: commit the file, and name it in an %s",
				len(found.Literal), maxLiteral, archiveKind)
		}
	}
	sum := a.Checksum
	if sum.Type != "" && sum.Type != "sha256" {
		problemf(at("checksum", "type"), ".checksum.type is %s; it can be sha256", quote(sum.Type))
	}
	if sum.Sum != "" {
		var err error
		if found.Checksum, err = landfall.ParseDigest("sha256:" + strings.ToLower(sum.Sum)); err != nil {
			problemf(at("checksum", "sum"), ".checksum.sum is %s; it is a SHA-256 in 64 hexadecimal digits", quote(sum.Sum))
		}
	}
	return found
}

// checkArchiveURL returns what is wrong with the address of an archive, or "".
func checkArchiveURL(address string) string {
	u, err := url.Parse(address)
	switch {
	case !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://"):
		return "must begin with archive://, https:// or http://"
	case err != nil || u.Hostname() == "" || u.Fragment != "" || strings.Contains(address, "#"):
		return "cannot be read: it is https://HOST/PATH"
	case u.User != nil:
		return "has a user or a password in it, which everybody sees who sees a version: leave them out"
	}
	return ""
}

// archiveName matches the names that Fission's tools make from file names, including upper case.
var archiveName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

func (d *document) readArchive(n nodes, content map[string]any, right bool) {
	a := Archive{Pos: n.pos(n.node), Include: stringsOf(content["include"]), Exclude: stringsOf(content["exclude"])}
	a.Name, _ = content["name"].(string)
	rootDir, _ := content["rootdir"].(string)
	if len(a.Name) > 253 || !archiveName.MatchString(a.Name) {
		d.problemf(n.at("name"), "an ArchiveUploadSpec needs a name of letters, digits, -, _ and .")
		return
	}
	if !d.declare(n.at("name"), archiveKind, a.Name) || !right {
		return
	}
	if len(a.Include) == 0 {
		d.problemf(n.at("include"), "ArchiveUploadSpec %s includes nothing; list globs under include", a.Name)
	}
	for i := range a.Include {
		a.Lines = append(a.Lines, n.at("include", strconv.Itoa(i)).Line)
	}
	for _, key := range []string{"include", "exclude"} {
		d.globs(n, stringsOf(content[key]), key)
	}
	if rootDir != "" {
		if err := checkPath(rootDir); err != "" {
			d.problemf(n.at("rootdir"), "rootdir %s %s", quote(rootDir), err)
		}
		a.RootDir = path.Clean(rootDir)
	}
	d.spec.Archives = append(d.spec.Archives, a)
}
