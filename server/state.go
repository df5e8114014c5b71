package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/disk"
	"landfall.dev/landfall/assets/s3"
	"landfall.dev/landfall/backup"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// openState opens what holds state: the database, the objects, the repositories.
func (s *server) openState(ctx context.Context) (err error) {
	c := &s.config
	if err := backup.CheckFinished(c.Data); err != nil {
		return err
	}
	if !c.stateful() || store.IsPostgres(c.Database) { // mirrors, repositories and the worker's name are this folder's own
		if s.lock, err = store.Lock(filepath.Join(c.Data, "landfall.lock")); err != nil {
			return err
		}
	}
	if s.process, err = processOf(c.Data); err != nil {
		return err
	}
	if c.stateful() || c.has(roleRunner) {
		if s.objects, err = openObjects(ctx, c); err != nil {
			return err
		}
	}
	if c.stateful() {
		if err := s.checkVacant(ctx); err != nil {
			return err
		}
		if s.db, err = store.Open(ctx, c.Database); err != nil {
			return err
		}
		if change, ok := s.db.Upgraded(); ok {
			s.logger.InfoContext(ctx, "the database has a newer form now; only a backup leads back to the older program", "from", change.From, "to", change.To)
		}
	} else if !c.has(roleRunner) {
		return nil
	}
	s.manifests = &assets.Manifests{Store: s.objects}
	if !c.has(roleAPI) {
		return nil
	}
	git, err := remote.FindGit()
	if err != nil {
		s.logger.Warn("the built-in git remote is off; webhooks work", "reason", landfall.MessageOf(err))
		return nil
	}
	s.repos, err = remote.OpenRepositories(filepath.Join(c.Data, "git"), git)
	return err
}

// objectStore is where objects are kept.
type objectStore interface {
	assets.Store
	io.Closer
	// Mark returns the key of the installation that the objects are of; empty when there is none. SetMark sets it.
	Mark(ctx context.Context) (string, error)
	SetMark(ctx context.Context, mark string) error
}

// openObjects opens the bucket that was configured, or the folder in the data folder.
func openObjects(ctx context.Context, c *config) (objectStore, error) {
	if c.S3.Endpoint != "" {
		bucket, err := s3.Open(ctx, c.S3)
		if err != nil {
			return nil, err
		}
		return bucket, nil
	}
	folder, err := disk.Open(filepath.Join(c.Data, "objects"))
	if err != nil {
		return nil, err
	}
	return folder, nil
}

// processOf returns what others know a data folder's process by, across its lives.
func processOf(data string) (string, error) {
	path := filepath.Join(data, "worker")
	id, err := os.ReadFile(filepath.Clean(path))
	if errors.Is(err, fs.ErrNotExist) {
		id := randomHex()
		return id, secret.WriteFile(path, id)
	}
	return string(id), err
}
