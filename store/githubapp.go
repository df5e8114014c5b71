package store

import (
	"cmp"
	"context"
	"encoding/base64"
	"strings"
	"time"

	"landfall.dev/landfall"
)

// GitHubApp returns the GitHub App that is connected. NotFound, with a sentence, when none is.
func (q queries) GitHubApp(ctx context.Context) (landfall.GitHubApp, error) {
	const op landfall.Op = "store.GitHubApp"
	app, err := one(ctx, q, op, func(row scanner) (a landfall.GitHubApp, err error) {
		var sealed string
		var created, changed, heard int64
		err = row.Scan(&a.ID, &a.Slug, &a.Name, &a.Owner, &a.URL, &a.API, &sealed, &created, &changed, &heard)
		if err != nil {
			return a, err
		}
		a.Created, a.Changed, a.Heard = timeOf(created), timeOf(changed), timeOf(heard)
		a.Sealed, err = base64.StdEncoding.DecodeString(sealed)
		return a, err
	}, `SELECT app, slug, name, owner, url, api, sealed, created, changed, heard FROM github_apps WHERE id = 1`)
	if landfall.Is(err, landfall.NotFound) {
		err = landfall.Errorf(op, landfall.NotFound, "no GitHub App is connected: landfall github connect")
	}
	return app, err
}

// HasGitHubApp reports whether a GitHub App is connected.
func (q queries) HasGitHubApp(ctx context.Context) (bool, error) {
	n, err := one(ctx, q, "store.HasGitHubApp", scanValue[int64], `SELECT COUNT(*) FROM github_apps`)
	return n > 0, err
}

// PutGitHubApp stores the GitHub App that is connected from now on, in place of the one that was.
func (tx *Tx) PutGitHubApp(ctx context.Context, a landfall.GitHubApp) error {
	const op landfall.Op = "store.PutGitHubApp"
	if err := tx.exec(ctx, op, `DELETE FROM github_apps`); err != nil {
		return err
	}
	if err := tx.exec(ctx, op, `DELETE FROM github_problems`); err != nil {
		return err
	}
	return tx.exec(ctx, op, `INSERT INTO github_apps (id, app, slug, name, owner, url, api, sealed, created, changed)
		VALUES (1, $1, $2, $3, $4, $5, $6, $7, $8, $8)`, a.ID, a.Slug, a.Name, a.Owner, a.URL, a.API,
		base64.StdEncoding.EncodeToString(a.Sealed), micros(a.Created))
}

// DeleteGitHubApp forgets the GitHub App with all that is known of it. NotFound, with a sentence, when there is none.
func (tx *Tx) DeleteGitHubApp(ctx context.Context) error {
	if _, err := tx.GitHubApp(ctx); err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM github_apps`, `DELETE FROM github_connections`, `DELETE FROM github_problems`,
	} {
		if err := tx.exec(ctx, "store.DeleteGitHubApp", statement); err != nil {
			return err
		}
	}
	return nil
}

// NoteGitHubChange notes that an installation of the GitHub App changed: what was refused before may be allowed now.
func (tx *Tx) NoteGitHubChange(ctx context.Context, at time.Time) error {
	if err := tx.exec(ctx, "store.NoteGitHubChange", `DELETE FROM refusals`); err != nil {
		return err
	}
	return tx.exec(ctx, "store.NoteGitHubChange", `UPDATE github_apps SET changed = $1 WHERE changed < $1`, micros(at))
}

// SetGitHubHeard notes that what was delivered to the GitHub App with an id before a time needs nothing any more.
func (tx *Tx) SetGitHubHeard(ctx context.Context, id int64, at time.Time) error {
	return tx.exec(ctx, "store.SetGitHubHeard", `UPDATE github_apps SET heard = $2 WHERE app = $1`, id, micros(at))
}

// GitHubConnection returns a connection that somebody began, by its ID or its state. NotFound, with a sentence, when
// there is none.
func (q queries) GitHubConnection(ctx context.Context, id, state string) (landfall.GitHubConnection, error) {
	const op landfall.Op = "store.GitHubConnection"
	c, err := one(ctx, q, op, func(row scanner) (c landfall.GitHubConnection, err error) {
		var created int64
		err = row.Scan(&c.ID, &c.State, &c.Organization, &c.Name, &c.App, &c.Problem, &created)
		c.Created = timeOf(created)
		return c, err
	}, `SELECT id, state, organization, name, app, problem, created FROM github_connections WHERE id = $1 OR state = $2`,
		id, state)
	if landfall.Is(err, landfall.NotFound) {
		err = landfall.Errorf(op, landfall.NotFound,
			"there is no connection %q, or it was given up: begin again (landfall github connect)", cmp.Or(id, state))
	}
	return c, err
}

// PutGitHubConnection stores a connection, or what came of it, and forgets those that were made before a time.
func (tx *Tx) PutGitHubConnection(ctx context.Context, c landfall.GitHubConnection, before time.Time) error {
	const op landfall.Op = "store.PutGitHubConnection"
	if err := tx.exec(ctx, op, `DELETE FROM github_connections WHERE created < $1`, micros(before)); err != nil {
		return err
	}
	return tx.exec(ctx, op, `INSERT INTO github_connections (id, state, organization, name, app, problem, created)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET app = excluded.app, problem = excluded.problem`,
		c.ID, c.State, c.Organization, c.Name, c.App, c.Problem, micros(c.Created))
}

// GitHubProblems returns what hinders the GitHub App, by repository.
func (q queries) GitHubProblems(ctx context.Context) ([]landfall.GitHubProblem, error) {
	return list(ctx, q, "store.GitHubProblems", scanGitHubProblem,
		`SELECT repository, problem, since FROM github_problems ORDER BY repository`)
}

// GitHubProblem returns what hinders the GitHub App in a repository (owner/name). NotFound when nothing does.
func (q queries) GitHubProblem(ctx context.Context, repository string) (landfall.GitHubProblem, error) {
	return one(ctx, q, "store.GitHubProblem", scanGitHubProblem,
		`SELECT repository, problem, since FROM github_problems WHERE repository = $1`, strings.ToLower(repository))
}

func scanGitHubProblem(row scanner) (p landfall.GitHubProblem, err error) {
	var since int64
	err = row.Scan(&p.Repository, &p.Problem, &since)
	p.Since = timeOf(since)
	return p, err
}

// NoteGitHubProblem notes what hinders the GitHub App in a repository; nothing, when the problem is empty.
func (tx *Tx) NoteGitHubProblem(ctx context.Context, p landfall.GitHubProblem) error {
	const op landfall.Op = "store.NoteGitHubProblem"
	if p.Problem == "" {
		return tx.exec(ctx, op, `DELETE FROM github_problems WHERE repository = $1`, strings.ToLower(p.Repository))
	}
	return tx.exec(ctx, op, `INSERT INTO github_problems (repository, problem, since) VALUES ($1, $2, $3)
		ON CONFLICT (repository) DO UPDATE SET problem = excluded.problem, since = excluded.since`,
		strings.ToLower(p.Repository), p.Problem, micros(p.Since))
}
