package store

import (
	"cmp"
	"context"
	"math"
	"slices"

	"landfall.dev/landfall"
)

func scanFunctionTag(row scanner) (landfall.FunctionTag, error) {
	var t landfall.FunctionTag
	var moved int64
	err := row.Scan(&t.Namespace, &t.Name, &t.Declared, &t.App, &moved, &t.Actor)
	t.Moved = timeOf(moved)
	return t, err
}

// FunctionTag returns a function tag of a namespace. NotFound when there is none.
func (q queries) FunctionTag(ctx context.Context, namespace, name string) (landfall.FunctionTag, error) {
	t, err := one(ctx, q, "store.FunctionTag", scanFunctionTag, `SELECT t.namespace, t.name, t.declared, t.app, t.moved,
		t.actor FROM function_tags t WHERE t.namespace = $1 AND t.name = $2`, namespace, name)
	if err == nil {
		t.Functions, err = q.taggedFunctions(ctx, namespace, name)
	}
	return t, err
}

// FunctionTagNames returns the names of the function tags of a namespace, sorted.
func (q queries) FunctionTagNames(ctx context.Context, namespace string) ([]string, error) {
	return list(ctx, q, "store.FunctionTagNames", scanValue[string],
		`SELECT t.name FROM function_tags t WHERE t.namespace = $1 ORDER BY t.name`, namespace)
}

// DeclaredFunctionTags returns the names of the function tags that the spec of an app declares, sorted.
func (q queries) DeclaredFunctionTags(ctx context.Context, app string) ([]string, error) {
	return list(ctx, q, "store.DeclaredFunctionTags", scanValue[string],
		`SELECT t.name FROM function_tags t WHERE t.app = $1 AND t.declared <> '' ORDER BY t.name`, app)
}

// taggedFunctions returns what a function tag names.
func (q queries) taggedFunctions(ctx context.Context, namespace, tag string) ([]landfall.TaggedFunction, error) {
	return list(ctx, q, "store.taggedFunctions", func(row scanner) (f landfall.TaggedFunction, err error) {
		return f, row.Scan(&f.Name, &f.UID, &f.Number, &f.Label, &f.Unit, &f.App)
	}, `SELECT u.name, v.uid, v.number, v.label, u.id, u.app FROM function_tag_entries e JOIN units u ON u.id = e.unit
		JOIN versions v ON v.unit = e.unit AND v.number = e.number WHERE e.namespace = $1 AND e.tag = $2 ORDER BY u.name`,
		namespace, tag)
}

// TagsOfUnit returns the names of the function tags that name a version of a function.
func (q queries) TagsOfUnit(ctx context.Context, unit string) ([]string, error) {
	return list(ctx, q, "store.TagsOfUnit", scanValue[string],
		`SELECT e.tag FROM function_tag_entries e WHERE e.unit = $1 ORDER BY e.tag`, unit)
}

// PutFunctionTag stores a function tag, new or moved: from now on it names these versions, which must be there.
func (tx *Tx) PutFunctionTag(ctx context.Context, t landfall.FunctionTag) error {
	const op landfall.Op = "store.PutFunctionTag"
	by := AliasMove{Actor: t.Actor, Reason: t.Reason, At: t.Moved}
	if err := tx.recordTag(ctx, t.Namespace, t.Name, t.Functions, by); err != nil {
		return err
	}
	err := tx.exec(ctx, op, `INSERT INTO function_tags (namespace, name, declared, app, moved, actor)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (namespace, name) DO UPDATE SET declared = excluded.declared,
		app = excluded.app, moved = excluded.moved, actor = excluded.actor`,
		t.Namespace, t.Name, t.Declared, t.App, micros(t.Moved), t.Actor)
	if err != nil {
		return err
	}
	if err := tx.dropEntries(ctx, t.Namespace, t.Name); err != nil {
		return err
	}
	for _, f := range t.Functions {
		err := tx.exec(ctx, op, `INSERT INTO function_tag_entries (namespace, tag, unit, number) VALUES ($1, $2, $3, $4)`,
			t.Namespace, t.Name, f.Unit, f.Number)
		if err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) dropEntries(ctx context.Context, namespace, tag string) error {
	return tx.exec(ctx, "store.dropEntries", `DELETE FROM function_tag_entries WHERE namespace = $1 AND tag = $2`,
		namespace, tag)
}

// recordTag records what a function tag names from now on of the functions of which it is not what it named.
func (tx *Tx) recordTag(ctx context.Context, namespace, tag string, now []landfall.TaggedFunction,
	by AliasMove) error {
	was, err := tx.taggedFunctions(ctx, namespace, tag)
	if err != nil {
		return err
	}
	uidIn := func(functions []landfall.TaggedFunction, unit string) string {
		at := slices.IndexFunc(functions, func(f landfall.TaggedFunction) bool { return f.Unit == unit })
		if at < 0 {
			return ""
		}
		return string(functions[at].UID)
	}
	seen := map[string]bool{}
	for _, f := range slices.Concat(was, now) {
		by.Alias, by.From, by.To = tagPointer(tag), uidIn(was, f.Unit), uidIn(now, f.Unit)
		if seen[f.Unit] || by.From == by.To {
			continue
		}
		seen[f.Unit] = true
		if err := tx.CreateAliasMove(ctx, f.Unit, by); err != nil {
			return err
		}
	}
	return nil
}

// tagPointer is what a function tag is called among the names that moved of a function. No alias is called so.
func tagPointer(tag string) string { return "tag " + tag }

// FunctionTagMove is one move of what a function tag names of a function.
type FunctionTagMove struct {
	AliasMove

	Function string
	App      string // of the function
}

// FunctionTagMoves returns the moves of a function tag whose ID is less than before, newest first; for 0 the newest.
func (q queries) FunctionTagMoves(ctx context.Context, namespace, tag string, before int64,
	limit int) ([]FunctionTagMove, error) {
	return list(ctx, q, "store.FunctionTagMoves", func(row scanner) (FunctionTagMove, error) {
		var m FunctionTagMove
		var at int64
		err := row.Scan(&m.ID, &m.From, &m.To, &m.Actor, &at, &m.Reason, &m.Function, &m.App)
		m.Alias, m.At = tag, timeOf(at)
		return m, err
	}, `SELECT m.id, m.moved_from, m.moved_to, m.actor, m.at, m.reason, u.name, u.app FROM units u
		JOIN alias_moves m ON m.unit = u.id WHERE u.namespace = $1 AND u.kind = 'function' AND m.alias = $2 AND m.id < $3
		ORDER BY m.id DESC LIMIT $4 + 0`, namespace, tagPointer(tag), cmp.Or(before, math.MaxInt64), limit)
}

// UntagUnit takes a function out of a function tag. The tag stays.
func (tx *Tx) UntagUnit(ctx context.Context, namespace, tag, unit string, by AliasMove) error {
	named, err := tx.taggedFunctions(ctx, namespace, tag)
	if err != nil {
		return err
	}
	named = slices.DeleteFunc(named, func(f landfall.TaggedFunction) bool { return f.Unit == unit })
	if err := tx.recordTag(ctx, namespace, tag, named, by); err != nil {
		return err
	}
	return tx.exec(ctx, "store.UntagUnit", `DELETE FROM function_tag_entries WHERE namespace = $1 AND tag = $2 AND unit = $3`,
		namespace, tag, unit)
}

// DeleteFunctionTag removes a function tag. The versions stay. by says who removes it, why and when.
func (tx *Tx) DeleteFunctionTag(ctx context.Context, namespace, name string, by AliasMove) error {
	if err := tx.recordTag(ctx, namespace, name, nil, by); err != nil {
		return err
	}
	if err := tx.dropEntries(ctx, namespace, name); err != nil {
		return err
	}
	return tx.exec(ctx, "store.DeleteFunctionTag", `DELETE FROM function_tags WHERE namespace = $1 AND name = $2`,
		namespace, name)
}

// ServedTrigger is a trigger of an accessible release of an app.
type ServedTrigger struct {
	ServedUnit

	App string // id
}

// TimeTriggers returns the time triggers of all accessible releases of the apps of a namespace.
func (q queries) TimeTriggers(ctx context.Context, namespace string) ([]ServedTrigger, error) {
	apps, err := list(ctx, q, "store.TimeTriggers", scanValue[string],
		`SELECT DISTINCT u.app FROM units u WHERE u.namespace = $1 AND u.kind = 'time-trigger' ORDER BY u.app`, namespace)
	if err != nil {
		return nil, err
	}
	var all []ServedTrigger
	for _, app := range apps {
		served, err := q.ServedUnits(ctx, app, landfall.TimeTrigger)
		if err != nil {
			return nil, err
		}
		for _, s := range served {
			all = append(all, ServedTrigger{s, app})
		}
	}
	return all, nil
}
