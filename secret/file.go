package secret

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile writes a small secret file completely or not at all, and so that it survives a loss of power, because
// values are sealed with the key at once.
func WriteFile(path, text string) error {
	temp := path + ".new"
	f, err := os.OpenFile(filepath.Clean(temp), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
