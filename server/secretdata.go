package server

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
)

// secretKeyFile is where a server that does everything keeps the key of its secrets.
const secretKeyFile = "secret-key"

// openSecrets gets the key of the secrets: the one that was configured, or that of the data folder, where one is made
// when nothing needs another one. Processes with some roles share one, and have none of their own.
func (s *state) openSecrets(ctx context.Context) (*secret.Keeper, error) {
	if s.db == nil { // a function that names secrets says what it lacks
		return s.readSecretKey(false)
	}
	newest, err := s.db.NewestSecret(ctx)
	if err != nil && landfall.KindOf(err) != landfall.NotFound {
		return nil, err
	}
	connected, err := s.db.HasGitHubApp(ctx)
	if err != nil {
		return nil, err
	}
	needed := newest.Unit.Name != "" || connected
	key, err := s.readSecretKey(!needed && s.config.Every)
	if err != nil {
		return nil, err
	}
	reads := slices.ContainsFunc([]role{roleAPI, rolePipeline, roleGateway, roleTrigger, roleRunner}, s.config.has)
	switch {
	case !needed || !reads:
		return key, nil
	case key == nil:
		return nil, badSetting("SECRET_KEY",
			"is not set, %s has no %s, and there are secrets that only their key opens; put the file back in its place, or set "+
				"LANDFALL_SECRET_KEY_FILE. If the key is lost, give a new one (age-keygen makes them), and set each secret again",
			s.config.Data, secretKeyFile)
	}
	if newest.Unit.Name == "" {
		return key, nil
	}
	content, err := secret.ReadContent(newest.Content)
	if err == nil {
		_, err = key.Open(secret.Owner{App: newest.App, Name: newest.Unit.Name}, content.Sealed)
	}
	if err != nil {
		s.logger.ErrorContext(ctx,
			"the key of the secrets is another one than they were sealed under: functions that name them do not run",
			"app_id", newest.App, "secret", newest.Unit.Name, "error", err)
	}
	return key, nil
}

// readSecretKey reads the key of the secrets from the settings or the data folder; nil: there is none. mayMake says
// that one may be made.
func (s *state) readSecretKey(mayMake bool) (keeper *secret.Keeper, err error) {
	if s.config.Secrets != nil {
		return s.config.Secrets, nil
	}
	file := filepath.Join(s.config.Data, secretKeyFile)
	data, err := os.ReadFile(filepath.Clean(file))
	if errors.Is(err, fs.ErrNotExist) {
		if !mayMake {
			return keeper, nil
		}
		key, err := secret.NewKey()
		if err != nil {
			return nil, err
		}
		if err := secret.WriteFile(file, key.Reveal()+"\n"); err != nil {
			return nil, err
		}
		s.logger.Info("made the key of the secrets; a backup does not have it", "file", file)
		return secret.ParseKey(key)
	}
	if err != nil {
		return nil, badSetting("SECRET_KEY", "cannot be read from the data folder: %v", err)
	}
	key, err := secret.ParseKey(secret.Text(data))
	if err != nil {
		return nil, badSetting("SECRET_KEY", "cannot be read from %s: %s", file, landfall.MessageOf(err))
	}
	return key, nil
}
