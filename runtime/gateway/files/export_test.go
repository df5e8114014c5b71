package files

// Hashed reports whether a name certainly carries a hash of its content.
func Hashed(path string) bool { return hashed(path) }
