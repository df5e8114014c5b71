package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
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
		if err := writeFile(file, key.Reveal()+"\n"); err != nil {
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

// maxSecrets is how many bytes the secrets of a function may have together: a system gives a new process no more.
const maxSecrets = 1 << 20

// reveal gives a function its secrets, and takes them out of whatever it says. Conflict when there is one that it cannot have.
func reveal(keeper *secret.Keeper, f *landfall.Function, to *runner.Function) error {
	values := map[string]secret.Text{}
	total := 0
	for _, s := range f.Secrets {
		why := ""
		switch {
		case s.Number == 0:
			why = "which its release does not have: push again"
		case s.Sealed == nil:
			why = fmt.Sprintf("whose value in its release (no. %d) was revoked or deleted", s.Number)
		case keeper == nil:
			why = "and this process has no key for secrets (LANDFALL_SECRET_KEY)"
		}
		if why != "" {
			return &landfall.Error{Op: "functions.reveal", Kind: landfall.Conflict, Message: fmt.Sprintf(
				"the function %s cannot be run: it needs the secret %s, %s", f.Name, s.Name, why)}
		}
		value, err := keeper.Open(secret.Owner{App: f.App, Name: s.Name}, s.Sealed)
		if err != nil {
			return err
		}
		values[s.Name] = value
		to.Env[secret.Variable(s.Name)] = value.Reveal()
		if total += len(value); total > maxSecrets {
			return &landfall.Error{Op: "functions.reveal", Kind: landfall.Conflict, Message: fmt.Sprintf(
				"the function %s cannot be run: its secrets have more than %d bytes together", f.Name, maxSecrets)}
		}
	}
	to.Hide = secret.NewRedactor(values)
	if to.Files = filesOf(f, values); len(to.Files) > spec.MaxFiles {
		return &landfall.Error{Op: "functions.reveal", Kind: landfall.Conflict, Message: fmt.Sprintf(
			"the function %s cannot be run: its secrets and config maps have %d keys, each a file, and may have %d", f.Name, len(to.Files), spec.MaxFiles)}
	}
	return nil
}

// filesOf returns what a function finds as files: its secrets, and the config maps that it names, each by its keys.
func filesOf(f *landfall.Function, secrets map[string]secret.Text) map[string]string {
	files := map[string]string{}
	for _, folder := range f.Folders {
		value, found := secrets[path.Base(folder)]
		if strings.HasPrefix(folder, spec.ConfigsFolder+"/") {
			var text string
			text, found = f.Config[path.Base(folder)]
			value = secret.Text(text)
		}
		if !found { // a version of an earlier release may name a config map that is none
			continue
		}
		for key, part := range secret.Keys(value) {
			files[path.Join(folder, key)] = part.Reveal()
		}
	}
	return files
}
