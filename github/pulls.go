package github

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"landfall.dev/landfall"
)

// Pulls asks GitHub for pull requests. Its errors are those of Hooks.
type Pulls struct {
	Requests *Hooks // sends the requests

	mu   sync.Mutex
	kept map[string]pullsPage // by path
}

// pullsPage is a page of a list as GitHub had it last.
type pullsPage struct {
	tag  string
	all  []landfall.ForgePull
	next int // the page that follows; 0: none does
}

// Open returns all open pull requests of a repository. What did not change since it was asked for last is not sent
// again, and GitHub does not count the request for it.
func (p *Pulls) Open(ctx context.Context, of landfall.GitHubRepository) (all []landfall.ForgePull, err error) {
	for number := 1; number != 0; {
		page, err := p.page(ctx, of, number)
		if err != nil {
			return nil, err
		}
		all, number = append(all, page.all...), page.next
	}
	return all, nil
}

// page returns one page of the open pull requests, the oldest first: so most pages stay as they are.
func (p *Pulls) page(ctx context.Context, of landfall.GitHubRepository, number int) (pullsPage, error) {
	owner, name := pathNames(of)
	path := fmt.Sprintf("repos/%s/%s/pulls?state=open&sort=created&direction=asc&per_page=%d&page=%d", owner, name,
		pageSize, number)
	p.mu.Lock()
	page := p.kept[path]
	p.mu.Unlock()
	var objects []openPull
	response, err := p.Requests.call(ctx, http.MethodGet, path, page.tag, nil, &objects)
	if response != nil && response.StatusCode == http.StatusNotModified {
		return page, nil
	}
	if err != nil {
		return pullsPage{}, err
	}
	page = pullsPage{tag: response.Header.Get("ETag"), next: response.NextPage}
	for _, o := range objects {
		page.all = append(page.all, o.parse())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		p.kept = map[string]pullsPage{}
	}
	p.kept[path] = page
	return page, nil
}

// Pull returns a pull request of a repository.
func (p *Pulls) Pull(ctx context.Context, of landfall.GitHubRepository, number int) (landfall.ForgePull, error) {
	owner, name := pathNames(of)
	var o openPull
	_, err := p.Requests.call(ctx, http.MethodGet, fmt.Sprintf("repos/%s/%s/pulls/%d", owner, name, number), "", nil, &o)
	return o.parse(), err
}

// openPull is the part that we read of a pull request.
type openPull struct {
	Number int    `json:"number"`
	State  string `json:"state"`
	User   struct {
		Login string `json:"login"`
	} `json:"user"`
	Labels []struct {
		Name string `json:"name"`
	} `json:"labels"`
	Created time.Time   `json:"created_at"`
	Updated time.Time   `json:"updated_at"`
	Merged  *time.Time  `json:"merged_at"`
	Head    openPullEnd `json:"head"`
	Base    openPullEnd `json:"base"`
}

// openPullEnd is where the commits of a pull request come from, or go to.
type openPullEnd struct {
	Ref  string `json:"ref"`
	SHA  string `json:"sha"`
	Repo *struct {
		ID    int64  `json:"id"`
		Name  string `json:"name"`
		Owner struct {
			Login string `json:"login"`
		} `json:"owner"`
	} `json:"repo"` // null when it was deleted
}

func (o openPull) parse() landfall.ForgePull {
	pull := landfall.ForgePull{
		PullRequest: landfall.PullRequest{Number: o.Number, Base: o.Base.Ref, Closed: o.State != "open"},
		Head:        landfall.RefName(landfall.BranchPrefix + o.Head.Ref), Commit: landfall.CommitSHA(o.Head.SHA),
		Author: o.User.Login, Merged: o.Merged != nil, Created: o.Created, Updated: o.Updated,
	}
	if to := o.Base.Repo; to != nil {
		pull.Repository = landfall.GitHubRepository{ID: to.ID, Owner: to.Owner.Login, Name: to.Name}
	}
	pull.Fork = o.Head.Repo == nil || o.Head.Repo.ID != pull.Repository.ID
	for _, label := range o.Labels {
		pull.Labels = append(pull.Labels, label.Name)
	}
	return pull
}
