package webhook

import (
	"fmt"

	"landfall.dev/landfall"
)

// RepositoryChange is what a repository event says that apps follow.
type RepositoryChange struct {
	Action string // edited, privatized, deleted, renamed or transferred
	// From and To are the default branch before and now, when that was edited.
	From, To string
}

// parseRepository reads what https://docs.github.com/webhooks/webhook-events-and-payloads#repository describes. What
// changes nothing here has only the id of the repository.
func parseRepository(payload []byte) (Event, error) {
	const event = "repository"
	var p struct {
		Action     string             `json:"action"`
		Repository *repositoryPayload `json:"repository"`
		Changes    struct {
			DefaultBranch *struct {
				From string `json:"from"`
			} `json:"default_branch"`
		} `json:"changes"`
	}
	if err := decode(event, payload, &p); err != nil {
		return Event{}, err
	}
	repository, err := p.Repository.parse(event)
	if err != nil {
		return Event{}, err
	}
	name := repository.Owner + "/" + repository.Name
	intake := Event{Repository: repository, RepositoryChange: &RepositoryChange{Action: p.Action}}
	if changed := p.Changes.DefaultBranch; p.Action == "edited" && changed != nil {
		intake.RepositoryChange.From, intake.RepositoryChange.To = changed.From, p.Repository.DefaultBranch
		if _, err := landfall.ParseRefName(landfall.BranchPrefix + p.Repository.DefaultBranch); err != nil {
			return Event{}, invalid(event, "repository.default_branch", err)
		}
		intake.Delivery.Decision = fmt.Sprintf("The default branch of %s is %s now, not %s.", name,
			p.Repository.DefaultBranch, landfall.Printable(changed.From))
		return intake, nil
	}
	switch p.Action {
	case "privatized":
		intake.Delivery.Decision = fmt.Sprintf("%s is private now.", name)
	case "deleted":
		intake.Delivery.Decision = fmt.Sprintf("%s was deleted.", name)
	case "renamed":
		intake.Delivery.Decision = fmt.Sprintf("The repository has the name %s now.", name)
	case "transferred":
		intake.Delivery.Decision = fmt.Sprintf("The repository was transferred to %s.", repository.Owner)
	default:
		intake = Event{}
		intake.Delivery.Repository, intake.Delivery.Decision = repository.ID, ignoredChange(p.Action, name)
	}
	return intake, nil
}

// ignoredChange says for people why a change of a repository changes nothing here.
func ignoredChange(action, name string) string {
	switch action {
	case "publicized":
		return fmt.Sprintf("%s is public now, which shows no release to more people than before: landfall app set APP "+
			"--previews public does.", name)
	case "archived":
		return fmt.Sprintf("%s was archived: nothing can be pushed to it, and its releases go on answering.", name)
	case "unarchived":
		return fmt.Sprintf("%s can be pushed to again.", name)
	case "edited":
		return fmt.Sprintf("What changed of %s is nothing that releases depend on.", name)
	}
	return fmt.Sprintf("Action %.100s of a repository is not one that Landfall acts on.", landfall.Printable(action))
}
