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

// openSecrets gets the key of the secrets: the one that was configured, or that of the data folder, where one is made when nothing
// needs another one. Processes with some roles share one, and have none of their own.
func (s *server) openSecrets(ctx context.Context) error {
	if s.db == nil { // a function that names secrets says what it lacks
		return s.readSecretKey(false)
	}
	newest, err := s.db.NewestSecret(ctx)
	if err != nil && landfall.KindOf(err) != landfall.NotFound {
		return err
	}
	needed := err == nil
	if err := s.readSecretKey(!needed && s.config.Every); err != nil {
		return err
	}
	reads := slices.ContainsFunc([]role{roleAPI, rolePipeline, roleGateway, roleTrigger, roleRunner}, s.config.has)
	switch {
	case !needed || !reads:
		return nil
	case s.secrets == nil:
		return badSetting("SECRET_KEY", "is not set, %s has no %s, and there are secrets that only their key opens; put the file back in its "+
			"place, or set LANDFALL_SECRET_KEY_FILE. If the key is lost, give a new one (age-keygen makes them), and set each secret again",
			s.config.Data, secretKeyFile)
	}
	content, err := secret.ReadContent(newest.Content)
	if err == nil {
		_, err = s.secrets.Open(secret.Owner{App: newest.App, Name: newest.Unit.Name}, content.Sealed)
	}
	if err != nil {
		s.logger.ErrorContext(ctx, "the key of the secrets is another one than they were sealed under: functions that name them do not run",
			"app_id", newest.App, "secret", newest.Unit.Name, "error", err)
	}
	return nil
}

// readSecretKey reads the key of the secrets from the settings or the data folder. make says that one may be made.
func (s *server) readSecretKey(mayMake bool) error {
	if s.secrets = s.config.Secrets; s.secrets != nil {
		return nil
	}
	file := filepath.Join(s.config.Data, secretKeyFile)
	data, err := os.ReadFile(filepath.Clean(file))
	if errors.Is(err, fs.ErrNotExist) {
		if !mayMake {
			return nil
		}
		key, err := secret.NewKey()
		if err != nil {
			return err
		}
		if err := secret.WriteFile(file, key.Reveal()+"\n"); err != nil {
			return err
		}
		s.logger.Info("made the key of the secrets; a backup does not have it", "file", file)
		s.secrets, err = secret.ParseKey(key)
		return err
	}
	if err != nil {
		return badSetting("SECRET_KEY", "cannot be read from the data folder: %v", err)
	}
	if s.secrets, err = secret.ParseKey(secret.Text(data)); err != nil {
		return badSetting("SECRET_KEY", "cannot be read from %s: %s", file, landfall.MessageOf(err))
	}
	return nil
}
