package store

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"landfall.dev/landfall"
)

const appColumns = `id, namespace, name, repository, specs, folder, branch, policy, live, held, uid_space,
	github_id, github_owner, github_name, created, deleted, changed, previews, objects, removed, keep_files,
	github_confirmed, moved_to, branch_found, gone`

func scanApp(row scanner) (landfall.App, error) {
	var a landfall.App
	var policy, space string
	var created, deleted, removed, gone int64
	err := row.Scan(&a.ID, &a.Namespace, &a.Name, &a.Repository, &a.Specs, &a.Folder, &a.Branch, &policy, &a.Live, &a.Held,
		&space, &a.GitHub.ID, &a.GitHub.Owner, &a.GitHub.Name, &created, &deleted, &a.Changed,
		&a.Previews, &a.Objects, &removed, &a.KeepFiles, &a.GitHubConfirmed, &a.MovedTo,
		&a.BranchFound, &gone)
	if err != nil {
		return a, err
	}
	// the default of programs that do not know the column
	a.Objects = cmp.Or(a.Objects, "apps/"+a.Namespace+"/"+a.Name+"/")
	a.Created, a.Deleted, a.Removed, a.Gone = timeOf(created), timeOf(deleted), timeOf(removed), timeOf(gone)
	if a.UIDSpace, err = uuid.Parse(space); err != nil {
		return a, err
	}
	return a, json.Unmarshal([]byte(policy), &a.Policy)
}

// CreateApp stores a new app. Its content lies under its id unless Objects says otherwise. It returns Conflict when an
// app or a namespace has, or ever had, the name.
func (tx *Tx) CreateApp(ctx context.Context, a landfall.App) error {
	const op landfall.Op = "store.CreateApp"
	taken, err := one(ctx, tx.queries, op, scanValue[int64],
		`SELECT (SELECT COUNT(*) FROM apps WHERE name = $1) + (SELECT COUNT(*) FROM namespaces WHERE name = $1)`, a.Name)
	if err != nil {
		return err
	}
	if taken > 0 {
		return landfall.Errorf(op, landfall.Conflict, "the name %q is taken; names of deleted apps stay reserved", a.Name)
	}
	return tx.insertApp(ctx, a)
}

func (tx *Tx) insertApp(ctx context.Context, a landfall.App) error {
	const op landfall.Op = "store.CreateApp"
	policy, err := json.Marshal(a.Policy)
	if err != nil {
		return err
	}
	return tx.exec(ctx, op, `INSERT INTO apps (`+appColumns+`, credentials)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
			$24, $25, '')`,
		a.ID, a.Namespace, a.Name, a.Repository, a.Specs, a.Folder, a.Branch, string(policy), a.Live, a.Held,
		a.UIDSpace.String(), a.GitHub.ID, a.GitHub.Owner, a.GitHub.Name, micros(a.Created), micros(a.Deleted), a.Changed,
		a.Previews, cmp.Or(a.Objects, objectsOf(a.ID)), micros(a.Removed), a.KeepFiles, a.GitHubConfirmed,
		a.MovedTo, a.BranchFound, micros(a.Gone))
}

// objectsOf is the folder of the object store in which the content of a new app lies.
func objectsOf(id string) string { return "apps/" + id + "/" }

// UpdateApp stores the fields of an app that may change: repository, branch and whether it was found, policy, live,
// held, GitHub, moved_to, gone, deleted, previews and keep_files.
func (tx *Tx) UpdateApp(ctx context.Context, a landfall.App) error {
	policy, err := json.Marshal(a.Policy)
	if err != nil {
		return err
	}
	return tx.exec(ctx, "store.UpdateApp", `UPDATE apps SET branch = $2, policy = $3, live = $4, held = $5,
		github_id = $6, github_owner = $7, github_name = $8, deleted = $9, previews = $10, keep_files = $11,
		github_confirmed = $12, moved_to = $13, repository = $14, branch_found = $15,
		gone = $16 WHERE id = $1`,
		a.ID, a.Branch, string(policy), a.Live, a.Held, a.GitHub.ID, a.GitHub.Owner, a.GitHub.Name, micros(a.Deleted),
		a.Previews, a.KeepFiles, a.GitHubConfirmed, a.MovedTo, a.Repository, a.BranchFound, micros(a.Gone))
}

// App returns an app by id, deleted ones included. NotFound when there is none.
func (q queries) App(ctx context.Context, id string) (landfall.App, error) {
	return one(ctx, q, "store.App", scanApp, `SELECT `+appColumns+` FROM apps WHERE id = $1`, id)
}

// AppByName returns an app by name, deleted ones included. NotFound, with a sentence, when there is none.
func (q queries) AppByName(ctx context.Context, name string) (landfall.App, error) {
	const op landfall.Op = "store.AppByName"
	a, err := one(ctx, q, op, scanApp, `SELECT `+appColumns+` FROM apps WHERE name = $1`, name)
	if landfall.Is(err, landfall.NotFound) {
		return a, landfall.Errorf(op, landfall.NotFound, "there is no app %q", name)
	}
	return a, err
}

// ActiveApp returns an app by id, to be changed. NotFound, with a sentence, when it was deleted, or there is none.
func (tx *Tx) ActiveApp(ctx context.Context, id string) (landfall.App, error) {
	a, err := tx.App(ctx, id)
	if err == nil && !a.Deleted.IsZero() {
		err = landfall.Errorf("store.ActiveApp", landfall.NotFound, "the app %q was deleted", a.Name)
	}
	return a, err
}

// Apps returns all apps by name, deleted ones included.
func (q queries) Apps(ctx context.Context) ([]landfall.App, error) {
	return list(ctx, q, "store.Apps", scanApp, `SELECT `+appColumns+` FROM apps ORDER BY name`)
}
