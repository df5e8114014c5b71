package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	gogithub "github.com/google/go-github/v60/github"

	"landfall.dev/landfall"
)

// Repository is one that an installation of the App sees.
type Repository struct {
	ID       int64
	Name     string // owner/name
	Private  bool
	Archived bool
}

// Listing is what the installations of an App see.
type Listing struct {
	Repositories []Repository // by name
	More         bool         // there are more than were asked for
	Problems     []string     // a sentence for each installation whose repositories are missing
}

// listNeed is the one request about an installation, and none of its repositories.
func listNeed() need { return need{"GET installation/repositories", "metadata", "read"} }

// Repositories asks GitHub what the installations of an App see, until these are limit repositories: each hundred is a
// request. Forbidden, with a sentence, when GitHub does not accept the App; Unavailable when it does not answer.
func (t *Tokens) Repositories(ctx context.Context, app App, limit int) (all Listing, err error) {
	installations, err := t.Installations(ctx, app)
	if err != nil {
		return all, err
	}
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	for _, i := range installations {
		if i.Suspended.IsZero() {
			err = t.addRepositories(limited, i, limit, &all)
		} else {
			err = landfall.Errorf("github.Repositories", landfall.Forbidden,
				"The installation of the GitHub App %s on %s is suspended: unsuspend it at GitHub.", app.Slug, i.Account)
		}
		switch {
		case landfall.Is(err, landfall.Forbidden):
			all.Problems = append(all.Problems, landfall.MessageOf(err))
		case err != nil:
			return all, err
		}
	}
	slices.SortFunc(all.Repositories, func(a, b Repository) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return all, nil
}

// Repository asks GitHub which repository a name (owner/name) leads to: it may be an old name. Forbidden, with a
// sentence, when the App does not see it; Unavailable when GitHub does not answer.
func (t *Tokens) Repository(ctx context.Context, name string) (landfall.GitHubRepository, error) {
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var got struct {
		ID    int64  `json:"id"`
		Name  string `json:"name"`
		Owner struct {
			Login string `json:"login"`
		} `json:"owner"`
	}
	err := sleep(limited, t.Pace.take(reads, t.Now()))
	if err == nil {
		_, err = t.do(limited, http.MethodGet, "repos/"+name, nil, &got)
	}
	if err != nil && !landfall.Is(err, landfall.Forbidden) {
		err = landfall.Wrapf("github.Repository", landfall.Unavailable, err, unanswered)
	}
	return landfall.GitHubRepository{ID: got.ID, Owner: got.Owner.Login, Name: got.Name}, err
}

// addRepositories adds what an installation sees, until there are upTo.
func (t *Tokens) addRepositories(ctx context.Context, i Installation, upTo int, all *Listing) error {
	k, response, err := t.issueAt(ctx, i.ID, "", listNeed())
	for page := 1; err == nil && page != 0; {
		if len(all.Repositories) >= upTo {
			all.More = true
			return nil
		}
		var got struct {
			Repositories []struct {
				ID       int64  `json:"id"`
				Name     string `json:"full_name"`
				Private  bool   `json:"private"`
				Archived bool   `json:"archived"`
			} `json:"repositories"`
		}
		response, err = t.listPage(ctx, k.token, page, &got)
		if err != nil {
			break
		}
		for _, r := range got.Repositories {
			all.Repositories = append(all.Repositories, Repository(r))
		}
		page = response.NextPage
	}
	if err == nil {
		return nil
	}
	if response != nil && (response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusNotFound) {
		if _, limited := limit(response, err, t.Now()); !limited {
			return landfall.Wrapf("github.Repositories", landfall.Forbidden, err,
				"GitHub does not list the repositories of the installation on %s: look at it there (%s).", i.Account, i.URL)
		}
	}
	return landfall.Wrapf("github.Repositories", landfall.Unavailable, err, unanswered)
}

// listPage asks for a page of the repositories that a token sees.
func (t *Tokens) listPage(ctx context.Context, token Token, page int, into any) (*gogithub.Response, error) {
	if err := sleep(ctx, t.Pace.take(reads, t.Now())); err != nil {
		return nil, err
	}
	r, err := t.client.NewRequest(http.MethodGet,
		fmt.Sprintf("installation/repositories?per_page=%d&page=%d", pageSize, page), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+string(token))
	return t.client.Do(ctx, r, into)
}
