package webhook

import (
	"cmp"
	"fmt"
	"strings"

	"landfall.dev/landfall"
)

// parseInstallation reads the events by which GitHub tells that an installation of a GitHub App changed.
func parseInstallation(event string, payload []byte) (Event, error) {
	var p struct {
		Action       string `json:"action"`
		Installation struct {
			Account struct {
				Login string `json:"login"`
				Slug  string `json:"slug"` // of an enterprise
			} `json:"account"`
		} `json:"installation"`
		Added   []namedRepository `json:"repositories_added"`
		Removed []namedRepository `json:"repositories_removed"`
	}
	if err := decode(event, payload, &p); err != nil {
		return Event{}, err
	}
	account := landfall.Printable(cmp.Or(p.Installation.Account.Login, p.Installation.Account.Slug))
	intake := Event{Installation: true}
	intake.Delivery.Decision = installationDecision(p.Action, account)
	for _, change := range []struct {
		says  string
		names []namedRepository
	}{
		{"The GitHub App may reach %s from now on.", p.Added},
		{"The GitHub App may not reach %s any more: their apps get no new releases.", p.Removed},
	} {
		if len(change.names) > 0 {
			intake.Delivery.Decision = fmt.Sprintf(change.says, listed(change.names))
		}
	}
	return intake, nil
}

// namedRepository is a repository in a list of a payload.
type namedRepository struct {
	Name string `json:"full_name"`
}

// listed returns the first of several names for people.
func listed(all []namedRepository) string {
	const most = 5
	names := make([]string, 0, most)
	for _, r := range all[:min(len(all), most)] {
		names = append(names, landfall.Printable(r.Name))
	}
	text := strings.Join(names, ", ")
	if len(all) > most {
		text += fmt.Sprintf(" and %d more", len(all)-most)
	}
	return text
}

func installationDecision(action, account string) string {
	switch action {
	case "created":
		return fmt.Sprintf("The GitHub App was installed on %s.", account)
	case "deleted":
		return fmt.Sprintf("The GitHub App was removed from %s: apps of its repositories get no new releases.", account)
	case "suspend":
		return fmt.Sprintf("The GitHub App was suspended on %s: apps of its repositories get no new releases until it is "+
			"unsuspended.", account)
	case "unsuspend":
		return fmt.Sprintf("The GitHub App was unsuspended on %s.", account)
	case "new_permissions_accepted":
		return fmt.Sprintf("The GitHub App has new permissions on %s.", account)
	}
	return fmt.Sprintf("The installation of the GitHub App on %s changed (%s).", account, landfall.Printable(action))
}
