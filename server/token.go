package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// readToken reads the administrator's token, which it makes at the first start.
func (s *state) readToken() error {
	if s.config.Token != "" {
		return nil
	}
	path := filepath.Join(s.config.Data, cli.TokenFile)
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return badSetting("TOKEN", "cannot be read from the data folder: %v", err)
	}
	if s.config.Token = strings.TrimSpace(string(data)); s.config.Token != "" {
		return nil
	}
	s.config.Token = randomHex()
	if err := secret.WriteFile(path, s.config.Token+"\n"); err != nil {
		return err
	}
	s.logger.Info("made the administrator's token", "file", path)
	return nil
}

// storeTokens makes the administrator's token, and that of the other roles, known to the store, in place of those of
// earlier starts: only who owns the database may.
func (s *state) storeTokens(ctx context.Context) error {
	return s.db.UpdateAsLeader(ctx, func(tx *store.Tx) error {
		if err := tx.EnsureNamespace(ctx, landfall.DefaultNamespace, time.Now().UnixMicro()); err != nil {
			return err
		}
		const roles = "roles"
		var err error
		if shared := s.config.RoleSecret; shared == "" {
			err = tx.ForgetToken(ctx, roles)
		} else {
			err = tx.ReplaceToken(ctx, landfall.Token{
				Hash: landfall.DigestOf([]byte(shared)), Name: roles, Scope: landfall.ScopeRead, Created: time.Now()})
		}
		if err != nil {
			return err
		}
		return tx.ReplaceToken(ctx, landfall.Token{
			Hash: landfall.DigestOf([]byte(s.config.Token)), Name: "admin", Scope: landfall.ScopeAdmin, Created: time.Now()})
	})
}

// storeTokensLater is storeTokens for when the database takes writes again.
func (s *state) storeTokensLater(ctx context.Context) error {
	const again = 2 * time.Second
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(again):
		}
		if err := s.storeTokens(ctx); err == nil || landfall.KindOf(err) != landfall.Unavailable {
			return err
		}
	}
}

func randomHex() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}
