package event

// ParseSlowly is Parse without its shorter way.
var ParseSlowly = parseAny
