package github

import (
	"context"
	"errors"
	"net/http"
	"time"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
)

// Made is a GitHub App that GitHub made, with its secrets.
type Made struct {
	ID            int64
	Slug, Name    string
	Owner         string // login
	URL           string // of its page
	Key           string // PEM
	WebhookSecret string
	ClientID      string
	ClientSecret  string
}

// askLimit is how long GitHub has to answer somebody who waits.
const askLimit = 20 * time.Second

// Convert gets a new App for the code that GitHub gave the person who made it, from the API at baseURL. NotFound when
// the code does not count any more; Unavailable when GitHub does not answer as it should.
func Convert(ctx context.Context, baseURL string, client *http.Client, code string) (Made, error) {
	const op landfall.Op = "github.Convert"
	bare, err := NewClient(baseURL, "", client)
	if err != nil {
		return Made{}, err
	}
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	made, _, err := bare.Apps.CompleteAppManifest(limited, code)
	if answer, refused := errors.AsType[*gogithub.ErrorResponse](err); refused &&
		answer.Response.StatusCode == http.StatusNotFound {
		return Made{}, landfall.Wrapf(op, landfall.NotFound, err,
			"GitHub does not know the code any more, which counts once and for an hour: begin again (landfall github connect)")
	}
	if err != nil {
		return Made{}, landfall.Wrapf(op, landfall.Unavailable, err, unanswered)
	}
	return Made{
		ID: made.GetID(), Slug: made.GetSlug(), Name: made.GetName(), Owner: made.GetOwner().GetLogin(),
		URL: made.GetHTMLURL(), Key: made.GetPEM(), WebhookSecret: made.GetWebhookSecret(), ClientID: made.GetClientID(),
		ClientSecret: made.GetClientSecret(),
	}, nil
}

const unanswered = "GitHub did not answer as it should: try again later"
