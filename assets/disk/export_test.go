package disk

// WithoutOpenat2 makes a store what it is on a kernel, or in a container, that has no openat2.
func WithoutOpenat2(s *Store) error {
	f := *s.opened.Load()
	dir := f.dir
	f.dir = nil
	s.opened.Store(&f)
	return dir.Close()
}
