package store

import (
	"context"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
)

// Namespace is a name that owns apps and their functions and packages.
type Namespace struct {
	Name    string
	Created time.Time
}

func scanNamespace(row scanner) (Namespace, error) {
	var n Namespace
	var created int64
	err := row.Scan(&n.Name, &created)
	n.Created = timeOf(created)
	return n, err
}

// Namespaces returns all namespaces by name.
func (q queries) Namespaces(ctx context.Context) ([]Namespace, error) {
	return list(ctx, q, "store.Namespaces", scanNamespace,
		`SELECT name, created FROM namespaces WHERE deleted = 0 ORDER BY name`)
}

// Namespace returns a namespace. NotFound, with a sentence, when there is none.
func (q queries) Namespace(ctx context.Context, name string) (Namespace, error) {
	const op landfall.Op = "store.Namespace"
	n, err := one(ctx, q, op, scanNamespace, `SELECT name, created FROM namespaces WHERE name = $1 AND deleted = 0`, name)
	if landfall.Is(err, landfall.NotFound) {
		err = landfall.Errorf(op, landfall.NotFound, "there is no namespace %q", name)
	}
	return n, err
}

// EnsureNamespace makes a namespace unless it exists; one that was deleted comes back. Conflict when an app has, or
// ever had, the name: apps and namespaces share their names.
func (tx *Tx) EnsureNamespace(ctx context.Context, name string, at int64) error {
	const op landfall.Op = "store.EnsureNamespace"
	there, err := one(ctx, tx.queries, op, scanValue[int64],
		`SELECT COUNT(*) FROM namespaces WHERE name = $1 AND deleted = 0`, name)
	if err != nil || there > 0 {
		return err
	}
	apps, err := one(ctx, tx.queries, op, scanValue[int64],
		`SELECT COUNT(*) FROM apps WHERE name = $1 AND namespace <> $1`, name)
	if err != nil {
		return err
	}
	if apps > 0 {
		return landfall.Errorf(op, landfall.Conflict,
			"the name %q is an app's, and apps and namespaces share their names: choose another for the namespace", name)
	}
	return tx.exec(ctx, op, `INSERT INTO namespaces (name, created) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET created = excluded.created, deleted = 0 WHERE namespaces.deleted <> 0`, name, at)
}

// NamespaceApp returns the app that owns what people make by hand in a namespace; it makes it if it is not there.
// NotFound when there is no such namespace; the default one always is.
func (tx *Tx) NamespaceApp(ctx context.Context, namespace string, at time.Time) (landfall.App, error) {
	const op landfall.Op = "store.NamespaceApp"
	if namespace == landfall.DefaultNamespace {
		if err := tx.EnsureNamespace(ctx, namespace, micros(at)); err != nil {
			return landfall.App{}, err
		}
	} else if _, err := tx.Namespace(ctx, namespace); err != nil {
		return landfall.App{}, err
	}
	app, err := one(ctx, tx.queries, op, scanApp,
		`SELECT `+appColumns+` FROM apps WHERE name = $1 AND namespace = $1`, namespace)
	if landfall.Ignore(err, landfall.NotFound) != nil || err == nil {
		return app, err
	}
	app = landfall.App{ID: uuid.NewString(), Namespace: namespace, Name: namespace, Branch: "main", UIDSpace: uuid.New(),
		Created: at}
	app.Objects = objectsOf(app.ID)
	return app, tx.insertApp(ctx, app)
}

// DeleteNamespace removes a namespace. Its tokens are revoked. Conflict while apps are in it. The names of its deleted
// apps stay reserved.
func (tx *Tx) DeleteNamespace(ctx context.Context, name string, at int64) error {
	const op landfall.Op = "store.DeleteNamespace"
	apps, err := one(ctx, tx.queries, op, func(row scanner) (n [3]int64, err error) {
		return n, row.Scan(&n[0], &n[1], &n[2])
	}, `SELECT COUNT(*), COUNT(CASE WHEN deleted = 0 AND name <> namespace THEN 1 END),
		(SELECT COUNT(*) FROM apps o JOIN units u ON u.app = o.id JOIN versions v ON v.unit = u.id
			WHERE o.name = $1 AND o.namespace = $1 AND u.kind IN ('function', 'package')) +
		(SELECT COUNT(*) FROM apps o JOIN group_units g ON g.app = o.id AND g.grp = o.live
			WHERE o.name = $1 AND o.namespace = $1)
		FROM apps WHERE namespace = $1`, name)
	switch {
	case err != nil:
		return err
	case apps[1] > 0:
		return landfall.Errorf(op, landfall.Conflict,
			"the namespace %s goes only without apps, and it has %d of them: delete them first "+
				"(landfall app delete APP --force)", name, apps[1])
	case apps[2] > 0:
		return landfall.Errorf(op, landfall.Conflict,
			"the namespace %s has what people made by hand (%d triggers and versions of functions and packages): "+
				"delete it first",
			name, apps[2])
	}
	if err := tx.revoke(ctx, op, `t.namespace = $1`, name); err != nil {
		return err
	}
	for _, statement := range []string{ // what is left names nothing
		`DELETE FROM function_tag_entries WHERE namespace = $1`, `DELETE FROM function_tags WHERE namespace = $1`,
	} {
		if err := tx.exec(ctx, op, statement, name); err != nil {
			return err
		}
	}
	if apps[0] > 0 {
		return tx.exec(ctx, op, `UPDATE namespaces SET deleted = $2 WHERE name = $1`, name, at)
	}
	return tx.exec(ctx, op, `DELETE FROM namespaces WHERE name = $1`, name)
}

// Notes are facts about a unit that belong to no version.
type Notes struct {
	Annotations string    // JSON, or empty
	Created     time.Time // when the oldest existing version was made
}

// UnitNotes returns the notes of a unit.
func (q queries) UnitNotes(ctx context.Context, unit string) (Notes, error) {
	return one(ctx, q, "store.UnitNotes", func(row scanner) (n Notes, err error) {
		var created int64
		err = row.Scan(&n.Annotations, &created)
		n.Created = timeOf(created)
		return n, err
	}, `SELECT u.annotations, (SELECT COALESCE(MIN(v.created), 0) FROM versions v WHERE v.unit = u.id) FROM units u
		WHERE u.id = $1`, unit)
}

// AnnotateUnit stores the annotations of a unit.
func (tx *Tx) AnnotateUnit(ctx context.Context, unit, annotations string) error {
	return tx.exec(ctx, "store.AnnotateUnit", `UPDATE units SET annotations = $2 WHERE id = $1`, unit, annotations)
}

// AppAnnotations returns the annotations of an app: JSON, or empty.
func (q queries) AppAnnotations(ctx context.Context, app string) (string, error) {
	return one(ctx, q, "store.AppAnnotations", scanValue[string], `SELECT annotations FROM apps WHERE id = $1`, app)
}

// AnnotateApp stores the annotations of an app.
func (tx *Tx) AnnotateApp(ctx context.Context, app, annotations string) error {
	return tx.exec(ctx, "store.AnnotateApp", `UPDATE apps SET annotations = $2 WHERE id = $1`, app, annotations)
}
