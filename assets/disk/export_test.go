package disk

import "os"

// WithoutOpenat2 makes a store what it is on a kernel, or in a container, that has no openat2.
func WithoutOpenat2(s *Store) error {
	var folder *os.File
	folder, s.folder = s.folder, nil
	return folder.Close()
}
