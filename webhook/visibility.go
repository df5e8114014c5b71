package webhook

// parseRepository returns what an event of a repository itself asks for: only that it is private now asks for anything.
func parseRepository(payload []byte) (Event, error) {
	const event = "repository"
	var p struct {
		Action     string             `json:"action"`
		Repository *repositoryPayload `json:"repository"`
	}
	if err := decode(event, payload, &p); err != nil {
		return Event{}, err
	}
	if p.Action != "privatized" {
		return recorded(event, payload)
	}
	repository, err := p.Repository.parse(event)
	intake := Event{Repository: repository, Privatized: true}
	intake.Delivery.Decision = "The repository is private now: releases that are not live are for who is signed in " +
		"(landfall app set APP --previews)."
	return intake, err
}
