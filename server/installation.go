package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// A data folder, a database and an object store that belong together have the same key: a start that would put those of
// two installations together, or that has lost a part of one, is refused before anything is served, accepted or
// collected.

// installationFile has the key of the installation in the data folder.
const installationFile = "installation"

// part is one of the places in which an installation keeps what it has.
type part struct {
	what string // for people
	key  string // of the installation that it is of; empty: it has none yet
	set  func(ctx context.Context, key string) error
}

// places are all parts.
type places struct {
	folder            *part // nil: that of a process without the role api has nothing of the installation's own
	database, objects part
}

func (p *places) all() []*part {
	all := []*part{&p.database, &p.objects}
	if p.folder != nil {
		all = append([]*part{p.folder}, all...)
	}
	return all
}

// places returns the parts as they are now.
func (s *state) places(ctx context.Context) (p places, err error) {
	p.database = part{what: s.config.databaseName(), set: func(ctx context.Context, key string) error {
		return s.db.Update(ctx, func(tx *store.Tx) error { return tx.SetInstallation(ctx, key) })
	}}
	if p.database.key, err = s.db.Installation(ctx); err != nil {
		return p, err
	}
	p.objects = part{what: s.config.objectsName(), set: s.objects.SetMark}
	if p.objects.key, err = s.objects.Mark(ctx); err != nil {
		return p, err
	}
	if !s.config.has(roleAPI) {
		return p, nil
	}
	path := filepath.Join(s.config.Data, installationFile)
	key, err := os.ReadFile(filepath.Clean(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	p.folder = &part{what: "the data folder " + s.config.Data, key: strings.TrimSpace(string(key)),
		set: func(_ context.Context, key string) error { return secret.WriteFile(path, key+"\n") }}
	return p, nil
}

// databaseName names the database for people. Its address may hold a password.
func (c *config) databaseName() string {
	if store.IsPostgres(c.Database) {
		return "the PostgreSQL database (LANDFALL_DATABASE)"
	}
	return "the database " + c.Database
}

func (c *config) objectsName() string {
	if c.S3.Endpoint != "" {
		return fmt.Sprintf("the bucket %s at %s", c.S3.Bucket, c.S3.Endpoint)
	}
	return "the folder " + filepath.Join(c.Data, "objects")
}

// settingsFrom says, at the end of a sentence, where the settings came from.
func (c *config) settingsFrom() string {
	if c.File == "" {
		return ""
	}
	return " (settings were read from " + c.File + ")"
}

// notOne returns the error of a start that would do harm.
func (s *state) notOne(format string, args ...any) error {
	return landfall.Errorf("serve", landfall.Conflict, "%s%s", fmt.Sprintf(format, args...), s.config.settingsFrom())
}

// checkKeys fails when the parts are not of one installation, and changes nothing.
func (s *state) checkKeys(p places) error {
	var keys, said []string
	for _, part := range p.all() {
		if part.key == "" {
			continue
		}
		if !slices.Contains(keys, part.key) {
			keys = append(keys, part.key)
		}
		said = append(said, fmt.Sprintf("%s is of installation %.8s", part.what, part.key))
	}
	if len(keys) <= 1 {
		return nil
	}
	return s.notOne("these are of different installations: %s; right would be a data folder, a database and an object "+
		"store of one (LANDFALL_DATA, LANDFALL_DATABASE, LANDFALL_S3_BUCKET), or a restore of a backup to new ones; "+
		"landfall serve --new makes one installation of them all the same", strings.Join(said, ", "))
}

// checkInstallation fails when what was opened is of different installations, and changes nothing.
func (s *state) checkInstallation(ctx context.Context) error {
	if s.db == nil || s.config.New {
		return nil
	}
	p, err := s.places(ctx)
	if err != nil {
		return err
	}
	return s.checkKeys(p)
}

// settleInstallation fails unless what was opened is one installation, and all of it. What has no key gets one: of a
// folder that an earlier program wrote, or a new one. It is called once this process owns the database: what another
// one uses is not lost.
func (s *state) settleInstallation(ctx context.Context) error {
	if s.db == nil {
		return nil
	}
	p, err := s.places(ctx)
	if err != nil {
		return err
	}
	if s.config.New {
		return s.makeOne(ctx, p)
	}
	if err := s.checkKeys(p); err != nil {
		return err
	}
	if err := s.checkLost(ctx, p); err != nil {
		return err
	}
	if err := s.sayMissing(ctx, p); err != nil {
		return err
	}
	if err := s.setKeys(ctx, p); err != nil {
		s.logger.WarnContext(ctx, "the key of the installation cannot be stored now, and is tried again", "error", err)
		s.keyless.Store(true)
	}
	return nil
}

// sayMissing says in the log which repositories are not there, and whether another process is taken to have them all.
func (s *state) sayMissing(ctx context.Context, p places) error {
	_, missing, err := s.repositories(ctx)
	if err != nil {
		return err
	}
	for _, app := range missing {
		s.logger.WarnContext(ctx, "the repository of an app is not in the folder git", "app", app.Name, "app_id", app.ID,
			"repository", s.repos.Path(app.ID))
	}
	standby, err := s.standsBy(ctx, p)
	if standby {
		s.standby.Store(true)
		s.logger.WarnContext(ctx, standsByText)
	}
	return err
}

// standsByText is what people hear of a process that standsBy.
const standsByText = "the data folder has no key of the installation, and none of its repositories: it is taken for " +
	"that of a standby, and another process for the one that has them; if there is no other one, the data folder is " +
	"lost, or LANDFALL_DATA names another folder"

// setKeys gives a key to the parts that have none.
func (s *state) setKeys(ctx context.Context, p places) error {
	standby, err := s.standsBy(ctx, p)
	if err != nil {
		return err
	}
	if standby {
		p.folder = nil
	}
	if !slices.ContainsFunc(p.all(), func(p *part) bool { return p.key == "" }) {
		return nil
	}
	key := p.anyKey()
	err = s.db.Update(ctx, func(tx *store.Tx) (err error) {
		key, err = tx.ClaimInstallation(ctx, key)
		return err
	})
	if err != nil {
		return err
	}
	for _, part := range p.all() {
		if part.key != "" {
			continue
		}
		if err := part.set(ctx, key); err != nil {
			return fmt.Errorf("%s: %w", part.what, err)
		}
	}
	return nil
}

// anyKey returns the key that a part has, and a new one when none has one.
func (p *places) anyKey() (key string) {
	for _, part := range p.all() {
		key = cmp.Or(key, part.key)
	}
	return cmp.Or(key, randomHex())
}

// setKeysLater is setKeys for when it can be stored again.
func (s *state) setKeysLater(ctx context.Context) error {
	const again = 2 * time.Second
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(again):
		}
		p, err := s.places(ctx)
		if err == nil && s.setKeys(ctx, p) == nil {
			s.keyless.Store(false)
			return nil
		}
	}
}

// makeOne makes one installation of what there is, and records what is not there: later starts do not miss it. The
// branches of repositories that are gone are unknown until they are pushed again, which takes none for deleted. Then
// the installation gets another key: a data folder that has these repositories all the same, as they once were, is not
// started with it any more.
func (s *state) makeOne(ctx context.Context, p places) error {
	_, missing, err := s.repositories(ctx)
	if err != nil {
		return err
	}
	without, err := s.withoutObjects(ctx)
	if err != nil {
		return err
	}
	update := s.db.Update
	if s.config.has(roleAPI) {
		update = s.db.UpdateAsLeader
	}
	key := p.anyKey()
	if len(missing) > 0 {
		key = randomHex()
	}
	err = update(ctx, func(tx *store.Tx) error {
		for _, app := range missing {
			if err := tx.ForgetHeads(ctx, app.ID); err != nil {
				return err
			}
		}
		if err := tx.SetInstallation(ctx, key); err != nil {
			return err
		}
		return tx.SetWithoutObjects(ctx, without)
	})
	for _, part := range p.all() {
		if err == nil && part.key != key {
			err = part.set(ctx, key)
		}
	}
	if err != nil {
		return err
	}
	for _, app := range missing {
		s.logger.WarnContext(ctx, "the repository of an app is gone: its branches are unknown until they are pushed again",
			"app", app.Name, "app_id", app.ID)
	}
	return nil
}

// checkVacant fails when the database has nothing yet while there are objects: it is another one, or was lost. It is
// asked before the database is made.
func (s *state) checkVacant(ctx context.Context) error {
	if s.config.New {
		return nil
	}
	err := store.CheckVacant(ctx, s.config.Database)
	switch {
	case err != nil && landfall.KindOf(err) == landfall.Conflict: // which is what is usual
		return nil
	case err != nil:
		return err
	}
	empty, err := s.noObjects(ctx)
	if err != nil || empty {
		return err
	}
	return s.notOne("%s is empty, and %s has objects of an installation: its database is gone, or is another one; "+
		"right would be that "+
		"database, or a backup of it (landfall restore); landfall serve --new begins a new installation all the same",
		s.config.databaseName(), s.config.objectsName())
}

// noObjects reports whether the object store has no object at all.
func (s *state) noObjects(ctx context.Context) (bool, error) {
	for _, err := range s.objects.List(ctx, "apps/") {
		return false, err
	}
	return true, nil
}

// checkLost fails when the database knows of objects, or of repositories, and none is there; and when there are
// repositories and it knows none of them.
func (s *state) checkLost(ctx context.Context, p places) error {
	if err := s.checkObjects(ctx, p); err != nil || s.repos == nil {
		return err
	}
	standby, err := s.standsBy(ctx, p)
	if err != nil || standby {
		return err
	}
	pushed, missing, err := s.repositories(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 && len(missing) == len(pushed) {
		return s.notOne("the folder %s has no repository of an app, and pushes to %[3]s are known to %[2]s: the "+
			"repositories are gone, or are in another data folder; right would be that folder (LANDFALL_DATA), or a backup "+
			"(landfall restore); landfall serve --new starts all the same, refuses that folder from then on, and the apps have "+
			"to be pushed again", filepath.Join(s.config.Data, "git"), s.config.databaseName(),
			landfall.Count(len(pushed), "app"))
	}
	if p.folder.key != "" && p.folder.key == p.database.key {
		return nil
	}
	return s.checkStrange(ctx)
}

// checkObjects fails when the database knows of objects and none is there, unless a start with the setting New went on
// without them.
func (s *state) checkObjects(ctx context.Context, p places) error {
	without, err := s.withoutObjects(ctx)
	if err != nil || !without {
		return err
	}
	if known, err := s.db.WithoutObjects(ctx); err != nil || known && p.objects.key != "" {
		return err
	}
	return s.notOne("%s has no object, and %s knows releases whose files are there: they are gone, or are in another "+
		"place; right would be that place, or a backup (landfall restore); landfall serve --new starts all the same",
		s.config.objectsName(), s.config.databaseName())
}

// withoutObjects reports whether the database knows of objects and none is there.
func (s *state) withoutObjects(ctx context.Context) (bool, error) {
	content, err := s.db.HasContent(ctx)
	if err != nil || !content {
		return false, err
	}
	return s.noObjects(ctx)
}

// standsBy reports whether the data folder never had the repositories, which are then in that of another process: only
// a database that several processes may use has such a folder. It has no key, so that they are not taken for lost.
func (s *state) standsBy(ctx context.Context, p places) (bool, error) {
	if p.folder == nil || p.folder.key != "" || !store.IsPostgres(s.config.Database) {
		return false, nil
	}
	pushed, missing, err := s.repositories(ctx)
	return len(missing) > 0 && len(missing) == len(pushed), err
}

// checkStrange fails when there are repositories, and the database knows none of their apps.
func (s *state) checkStrange(ctx context.Context) error {
	files, err := os.ReadDir(filepath.Join(s.config.Data, "git"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var found []string
	for _, file := range files {
		if strings.HasSuffix(file.Name(), ".git") {
			found = append(found, file.Name())
		}
	}
	if len(found) == 0 {
		return nil
	}
	apps, err := s.db.Apps(ctx)
	if err != nil {
		return err
	}
	for _, app := range apps {
		if slices.Contains(found, filepath.Base(s.repos.Path(app.ID))) {
			return nil
		}
	}
	return s.notOne("the data folder %s has repositories of apps, and %s knows none of these apps: it is the database of "+
		"another installation, or a new one; right would be the one that belongs to the data folder (LANDFALL_DATABASE), or "+
		"a backup of it (landfall restore); landfall serve --new starts all the same", s.config.Data, s.config.databaseName())
}

// repositories returns the apps that were pushed to here, and those among them whose repository is not there.
func (s *state) repositories(ctx context.Context) (pushed, missing []landfall.App, err error) {
	if s.repos == nil {
		return nil, nil, nil
	}
	if pushed, err = s.db.PushedApps(ctx); err != nil {
		return nil, nil, err
	}
	for _, app := range pushed {
		if !s.repos.Exists(app.ID) {
			missing = append(missing, app)
		}
	}
	return pushed, missing, nil
}
