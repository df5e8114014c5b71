package store

import (
	"context"
	"encoding/json"
	"time"

	"landfall.dev/landfall"
)

// Tombstone records what the deletion of an app took away: all that is needed to restore it while its content is there.
// It does not have the names of its functions and packages, because the units have them.
type Tombstone struct {
	Live     landfall.UID     `json:"live,omitempty"`
	Held     bool             `json:"held,omitempty"`
	Releases []landfall.UID   `json:"releases,omitempty"` // that were accessible
	Tags     []landfall.Tag   `json:"tags,omitempty"`
	Aliases  []DeletedAlias   `json:"aliases,omitempty"`
	Entries  []DeletedEntry   `json:"function_tags,omitempty"`
	Tokens   []landfall.Token `json:"tokens,omitempty"` // that were valid for this app only
}

// DeletedAlias is an alias of a function of a deleted app.
type DeletedAlias struct {
	Unit  string         `json:"unit"`
	Alias landfall.Alias `json:"alias"`
}

// DeletedEntry is what a function tag named of a deleted app.
type DeletedEntry struct {
	Tag    string `json:"tag"`
	Unit   string `json:"unit"`
	Number int64  `json:"number"`
}

// Tombstone returns what the deletion of an app took away; false for an app that exists, and for one whose deletion
// closed only its addresses.
func (q queries) Tombstone(ctx context.Context, app string) (t Tombstone, there bool, err error) {
	text, err := one(ctx, q, "store.Tombstone", scanValue[string], `SELECT closed FROM apps WHERE id = $1`, app)
	if err != nil || text == "" {
		return t, false, err
	}
	err = json.Unmarshal([]byte(text), &t)
	return t, true, err
}

// DeletedWithoutTombstone returns the deleted apps of which an earlier program closed only the addresses.
func (q queries) DeletedWithoutTombstone(ctx context.Context) ([]landfall.App, error) {
	return list(ctx, q, "store.WithoutTombstone", scanApp,
		`SELECT `+appColumns+` FROM apps WHERE deleted > 0 AND closed = '' ORDER BY name`)
}

// FreeNames takes the functions and packages of an app out of its namespace, so that their names are free. Their
// versions and numbers stay.
func (tx *Tx) FreeNames(ctx context.Context, app string) error {
	return tx.exec(ctx, "store.FreeNames",
		`UPDATE units SET scope = $2 WHERE app = $1 AND kind IN ('function', 'package')`, app, scope("", "", app))
}

// CancelWork ends what would still run for an app: its schedules with their firings, and accepted executions that wait.
func (tx *Tx) CancelWork(ctx context.Context, app landfall.App, at time.Time) error {
	const op landfall.Op = "store.CancelWork"
	const why = "the app was deleted"
	if err := tx.exec(ctx, op, `DELETE FROM schedules WHERE app = $1`, app.ID); err != nil {
		return err
	}
	err := tx.exec(ctx, op,
		`UPDATE schedule_firings SET state = $2, finished = $3, problem = $4 WHERE app = $1 AND finished = 0`,
		app.ID, FiringFailed, micros(at), why)
	if err != nil {
		return err
	}
	return tx.exec(ctx, op, `UPDATE executions SET state = $2, finished = $3, reason = 'deleted', message = $4, event = ''
		WHERE app = $1 AND state = 'queued'`, app.ID, landfall.ExecutionFailed, micros(at), why)
}

// RevokeTokens deletes the tokens that are valid for this app only, with the sessions of people who signed in by them,
// and the visits to hosts of the app. It returns the tokens.
func (tx *Tx) RevokeTokens(ctx context.Context, app landfall.App) ([]landfall.Token, error) {
	const op landfall.Op = "store.RevokeTokens"
	const condition = `t.app = $1`
	tokens, err := list(ctx, tx.queries, op, scanToken,
		`SELECT `+tokenColumns+` FROM tokens t WHERE `+condition+` ORDER BY t.name, t.hash`, app.ID)
	if err != nil {
		return nil, err
	}
	if err := tx.revoke(ctx, op, condition, app.ID); err != nil {
		return nil, err
	}
	return tokens, tx.exec(ctx, op, `DELETE FROM visits WHERE host LIKE $1 || '.%' OR host LIKE $1 || '--%'`, app.Name)
}

// SetTombstone stores what the deletion of an app took away.
func (tx *Tx) SetTombstone(ctx context.Context, app string, t Tombstone) error {
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return tx.exec(ctx, "store.SetTombstone", `UPDATE apps SET closed = $2 WHERE id = $1`, app, string(data))
}

// ForgetContent deletes the rows that point to the content of a deleted app: its versions with their secrets, the jobs
// and webhooks of its functions, the records of its builds, what deliveries to its hook
// said, and the credentials of its repository. Its folders in the
// object store are marked, and collections find them by the marks until SetRemoved.
func (tx *Tx) ForgetContent(ctx context.Context, app string) error {
	for _, statement := range []string{
		`DELETE FROM function_jobs WHERE unit IN (SELECT id FROM units WHERE app = $1)`,
		`DELETE FROM function_hooks WHERE unit IN (SELECT id FROM units WHERE app = $1)`,
		`DELETE FROM version_pins WHERE unit IN (SELECT id FROM units WHERE app = $1)`,
		`DELETE FROM version_prefixes WHERE unit IN (SELECT id FROM units WHERE app = $1)`,
		`DELETE FROM versions WHERE unit IN (SELECT id FROM units WHERE app = $1)`,
		`DELETE FROM reservations WHERE prefix IN (SELECT prefix FROM prefixes WHERE app = $1)`,
		`DELETE FROM builds WHERE app = $1`,
		`DELETE FROM delivery_payloads WHERE hook IN (SELECT id FROM hooks WHERE app = $1)`,
		`UPDATE prefixes SET deleting = 1 WHERE app = $1`,
		`UPDATE apps SET credentials = '' WHERE id = $1`,
	} {
		if err := tx.exec(ctx, "store.ForgetContent", statement, app); err != nil {
			return err
		}
	}
	return nil
}

// SetRemoved notes that the content of a deleted app was removed.
func (tx *Tx) SetRemoved(ctx context.Context, app string, at time.Time) error {
	const op landfall.Op = "store.SetRemoved"
	if err := tx.exec(ctx, op, `DELETE FROM prefixes WHERE app = $1`, app); err != nil {
		return err
	}
	return tx.exec(ctx, op, `UPDATE apps SET removed = $2 WHERE id = $1`, app, micros(at))
}
