package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/disk"
	"landfall.dev/landfall/assets/s3"
	"landfall.dev/landfall/backup"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// state is what an installation keeps, as far as this process has it: that of a server that runs, or of one that is
// stopped.
type state struct {
	config    *config
	logger    *slog.Logger
	lock      io.Closer // of the data folder, where the database does not lock it; nil otherwise
	process   string    // what others know this process by, across its lives
	db        *store.DB // nil with no role but router and runner
	objects   objectStore
	manifests *assets.Manifests
	repos     *remote.Repositories // nil without git, and without the role api

	standby atomic.Bool // the data folder is taken for one that never had the repositories
	keyless atomic.Bool // a part has no key of the installation yet, which could not be stored
}

// open opens the database, the objects and the repositories. Close lets go of them, also after an error.
func (s *state) open(ctx context.Context) (err error) {
	c := s.config
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
			s.logger.InfoContext(ctx, "the database has a newer form now; only a backup leads back to the older program", "from",
				change.From, "to", change.To)
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

// own makes what one process does for all this one's until release is called; lost tells when it is another's before.
// It returns early when ctx ends. Without the role api it does nothing.
func (s *state) own(ctx context.Context) (lost <-chan error, release func(), err error) {
	if !s.config.has(roleAPI) {
		return nil, func() {}, nil
	}
	owning, release := context.WithCancel(context.WithoutCancel(ctx))
	owned, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.db.Lead(owning, sync.OnceFunc(func() { close(owned) })) }()
	select {
	case <-owned:
		return ended, release, nil
	case err = <-ended:
	case <-ctx.Done():
	}
	release()
	return nil, release, err
}

// owns fails unless this process owns the database, as a transaction finds out.
func (s *state) owns(ctx context.Context) error {
	return s.db.UpdateAsLeader(ctx, func(*store.Tx) error { return nil })
}

// Close lets go of what open opened.
func (s *state) Close() error {
	var errs []error
	if s.objects != nil {
		errs = append(errs, s.objects.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
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
