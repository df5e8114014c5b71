package webhook

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Repository is a repository in a payload.
type Repository struct {
	ID    int64 // numeric, survives renames
	Owner string
	Name  string
	URLs  []string // its addresses: clone, html, git and ssh
}

// repositoryName matches what GitHub allows in the name of an owner or a repository. Both become parts of the API's
// paths.
var repositoryName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// repositoryPayload is the part that we read of a payload's repository.
type repositoryPayload struct {
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	Owner struct {
		Login string `json:"login"`
		Name  string `json:"name"`
	} `json:"owner"`
	CloneURL string `json:"clone_url"`
	HTMLURL  string `json:"html_url"`
	GitURL   string `json:"git_url"`
	SSHURL   string `json:"ssh_url"`

	DefaultBranch string `json:"default_branch"`
}

// parse returns the repository, or an Invalid error; a nil payload is one.
func (p *repositoryPayload) parse(event string) (Repository, error) {
	if p == nil || p.ID <= 0 {
		return Repository{}, invalid(event, "repository.id", nil)
	}
	r := Repository{ID: p.ID, Owner: cmp.Or(p.Owner.Login, p.Owner.Name), Name: p.Name}
	if !isName(r.Owner) {
		return Repository{}, invalid(event, "repository.owner", nil)
	}
	if !isName(r.Name) {
		return Repository{}, invalid(event, "repository.name", nil)
	}
	r.URLs = slices.DeleteFunc([]string{p.CloneURL, p.HTMLURL, p.GitURL, p.SSHURL},
		func(address string) bool { return address == "" })
	return r, nil
}

// NamesAt returns the owner and the name of the repository at an address, in any form, if its host is this one. GitHub
// does not tell the cases of letters apart.
func NamesAt(address, host string) (owner, name string, ok bool) {
	rest, ok := strings.CutPrefix(normalAddress(address), strings.ToLower(host)+"/")
	owner, name, both := strings.Cut(rest, "/")
	return owner, name, ok && both && isName(owner) && isName(name)
}

func isName(s string) bool { return repositoryName.MatchString(s) && strings.Trim(s, ".") != "" }

// Matches reports whether address is one of the repository's, in any form: over https, http, ssh or git, in the form
// git@host:owner/name, with or without a user, a usual port, ".git" or a slash at the end, in any case of letters. An
// address that does not end in the repository's owner and name never matches, whatever a payload says.
func (r Repository) Matches(address string) bool {
	wanted := normalAddress(address)
	return strings.HasSuffix(wanted, strings.ToLower("/"+r.Owner+"/"+r.Name)) &&
		slices.ContainsFunc(r.URLs, func(u string) bool { return normalAddress(u) == wanted })
}

// normalAddress returns the part of a repository's address that identifies it, "host:port/owner/name", or "" for a text
// that is no address of a remote repository.
func normalAddress(address string) string {
	if host, path, ok := strings.Cut(address, ":"); ok && !strings.ContainsAny(host, "/") &&
		!strings.HasPrefix(path, "//") {
		address = "ssh://" + host + "/" + strings.TrimPrefix(path, "/")
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	usual := map[string]string{"https": "443", "http": "80", "ssh": "22", "git": "9418"}
	port, ok := usual[u.Scheme]
	path := strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
	if !ok || path == "" {
		return ""
	}
	host := u.Hostname()
	if u.Port() != "" && u.Port() != port {
		host += ":" + u.Port()
	}
	return strings.ToLower(host + "/" + path)
}
