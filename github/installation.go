package github

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
)

// Installation is the App on an account.
type Installation struct {
	ID           int64
	Account      string
	Repositories string // all or selected
	URL          string // where it is changed
	Suspended    time.Time
	Missing      []Permission // those of Permissions that the account did not give it
}

// Installations asks GitHub where an App is installed. Forbidden, with a sentence, when GitHub does not accept it;
// Unavailable when it does not answer.
func (t *Tokens) Installations(ctx context.Context, app App) ([]Installation, error) {
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	all := []Installation{}
	for page := 1; page != 0; {
		var got []struct {
			ID      int64 `json:"id"`
			Account struct {
				Login string `json:"login"`
				Slug  string `json:"slug"` // of an enterprise, which has no login
			} `json:"account"`
			Selection   string            `json:"repository_selection"`
			URL         string            `json:"html_url"`
			Permissions map[string]string `json:"permissions"`
			Suspended   *time.Time        `json:"suspended_at"`
		}
		response, err := t.do(limited, http.MethodGet, "app/installations?per_page=100&page="+strconv.Itoa(page), nil, &got)
		if err != nil {
			return nil, appRefusal(app, response, err)
		}
		for _, i := range got {
			one := Installation{ID: i.ID, Account: cmp.Or(i.Account.Login, i.Account.Slug), Repositories: i.Selection,
				URL: i.URL}
			if i.Suspended != nil {
				one.Suspended = *i.Suspended
			}
			for _, p := range Permissions() {
				if granted := i.Permissions[p.Name]; granted != p.Level && granted != "write" {
					one.Missing = append(one.Missing, p)
				}
			}
			all = append(all, one)
		}
		page = response.NextPage
	}
	return all, nil
}

// appRefusal returns what it means that GitHub refused a request of the App about itself.
func appRefusal(app App, response *gogithub.Response, err error) error {
	refusal := refusalOf(app, "", need{}, response, err)
	if response != nil && landfall.Is(refusal, landfall.Forbidden) &&
		(response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusNotFound) {
		return refusal
	}
	return landfall.Wrapf("github.Installations", landfall.Unavailable, err, unanswered)
}
