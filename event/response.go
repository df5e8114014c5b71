package event

import "time"

// Answer returns an empty event that answers another one: it has the other's source and type, and an ID of its own.
func Answer(request Event, id string) Event {
	e := New()
	e.SetID(id)
	e.SetSource(request.Source())
	e.SetType(request.Type())
	if version, ok := attribute(request, draftTypeVersion); ok {
		e.SetExtension(draftTypeVersion, version)
	}
	return e
}

// Respond gives an answer what the Fn document's responses have and its maker left out: the time, the version of the
// request's type, the type of the data, and the headers of the protocol. An error stands for data that are JSON. The
// request's own protocol, which a function may hand back, is taken away. A protocol that cannot be read stays as it is.
func Respond(request Event, answer *Event) {
	if answer.Time().IsZero() {
		answer.SetTime(time.Now())
	}
	version, told := attribute(request, draftTypeVersion)
	if _, has := attribute(*answer, draftTypeVersion); told && !has && answer.Type() == request.Type() {
		put(answer, draftTypeVersion, version)
	}
	_, fault := attribute(*answer, attributeError)
	if answer.DataContentType() == "" && (fault || answer.DataEncoded != nil) {
		SetMediaType(answer, impliedType(*answer))
	}
	respondProtocol(request, answer)
}

// impliedType returns the content type of data that has none: an event's data is JSON then, unless it is bytes.
func impliedType(e Event) string {
	if e.DataBase64 {
		return "application/octet-stream"
	}
	return plainJSON
}

// respondProtocol is Respond for the protocol.
func respondProtocol(request Event, answer *Event) {
	p, err := ProtocolOf(*answer)
	if err != nil {
		return
	}
	if p.Method != "" || p.RequestURL != "" || SameProtocol(*answer, request) {
		answer.SetExtension(attributeProtocol, nil)
		p = Protocol{}
	}
	mediaType := answer.DataContentType()
	if len(p.Headers) > 0 || mediaType == "" {
		return
	}
	whole := map[string]any{}                      // with what only the function knows of
	_, _ = get(*answer, attributeProtocol, &whole) // it was read before
	whole["headers"] = map[string][]string{headerType: {mediaType}}
	set(answer, attributeProtocol, whole)
}
