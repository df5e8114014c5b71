package sandbox

// WatchOnly returns the sandbox as it is where no control groups can be made.
func WatchOnly(s *Sandbox) *Sandbox {
	watched := *s
	watched.groups = groups{}
	return &watched
}

// HasGroups reports whether both limits are held by control groups.
func HasGroups(s *Sandbox) bool { return s.groups.memory != "" && s.groups.processes != "" }

// GroupFolders returns where control groups are made.
func GroupFolders(s *Sandbox) []string { return s.groups.folders() }

// WithInit returns the sandbox with another program as process 1.
func WithInit(s *Sandbox, path string) *Sandbox {
	other := *s
	other.init = path
	return &other
}

// OwnName begins the names of what this process leaves outside of its data.
func OwnName() string { return ownName() }

// InitAt is where a confined command sees this binary.
const InitAt = initAt
