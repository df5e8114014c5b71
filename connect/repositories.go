package connect

import (
	"context"
	"net/url"
	"regexp"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/github"
	"landfall.dev/landfall/webhook"
)

var ownerAndName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}$`)

// IsName reports whether a repository is named as OWNER/NAME, and not by its clone address.
func IsName(repository string) bool { return ownerAndName.MatchString(repository) }

// maxRepositories is how many repositories are looked through at most.
const maxRepositories = 3000

// Repositories asks GitHub what the installations of the App see. NotFound when none is connected; Forbidden, with a
// sentence, when GitHub does not accept it; Unavailable when it does not answer.
func (c *Connection) Repositories(ctx context.Context) (github.Listing, error) {
	app, err := c.app(ctx)
	if err != nil {
		return github.Listing{}, err
	}
	return c.tokens.Repositories(ctx, app, maxRepositories)
}

// Repository asks GitHub which repository a name (owner/name) leads to, once the App may fetch it, and returns that
// with its clone address. It may be an old name. NotFound when no App is connected; Forbidden, with a sentence, when
// the App may not fetch it; Unavailable when GitHub does not answer.
func (c *Connection) Repository(ctx context.Context, name string) (is landfall.GitHubRepository, address string,
	err error) {
	if address, err = c.Address(ctx, name); err == nil {
		is, err = c.tokens.Repository(ctx, name)
	}
	if err == nil && !strings.EqualFold(is.Owner+"/"+is.Name, name) {
		address, err = c.Address(ctx, is.Owner+"/"+is.Name)
	}
	return is, address, err
}

// Named returns the repository that an address in any form names on the server of an App, in lower case; empty when it
// names none there.
func Named(app landfall.GitHubApp, address string) string {
	page, err := url.Parse(app.URL)
	if err != nil {
		return ""
	}
	owner, name, ok := webhook.NamesAt(address, page.Host)
	if !ok {
		return ""
	}
	return owner + "/" + name
}
