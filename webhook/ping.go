package webhook

// pingPayload is the part that we read of https://docs.github.com/webhooks/webhook-events-and-payloads#ping. An
// organisation's or an app's ping names no repository.
type pingPayload struct {
	Repository *repositoryPayload `json:"repository"`
}

func parsePing(payload []byte) (Event, error) {
	const event = "ping"
	var p pingPayload
	if err := decode(event, payload, &p); err != nil {
		return Event{}, err
	}
	var intake Event
	intake.Delivery.Decision = "The webhook works."
	if p.Repository == nil {
		return intake, nil
	}
	repository, err := p.Repository.parse(event)
	intake.Repository = repository
	return intake, err
}
