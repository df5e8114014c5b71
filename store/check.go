package store

import (
	"context"

	"landfall.dev/landfall"
)

// Violation is a rule that the rows break.
type Violation struct {
	App     string // its name
	Release landfall.UID
	Unit    string
	Problem string
}

// rule is a query that returns no row as long as the rule is kept. Its rows are app, release, unit, and what follows
// the text.
type rule struct{ text, query string }

// rules are what always holds, as far as rows can tell.
func rules() []rule {
	return []rule{
		{"live names a release that is not accessible:", `SELECT a.name, a.live, '', a.live FROM apps a
			LEFT JOIN releases r ON r.app = a.id AND r.uid = a.live AND r.expired = 0
			WHERE a.deleted = 0 AND a.live <> '' AND r.uid IS NULL`},
		{"live is not where it was moved last, which is",
			`SELECT a.name, a.live, '', COALESCE(m.to_uid, 'nowhere') FROM apps a
			LEFT JOIN moves m ON m.id = (SELECT MAX(last.id) FROM moves last WHERE last.app = a.id AND last.pointer = 'live')
			WHERE a.live <> COALESCE(m.to_uid, '')`},
		{"a tag names no release:", `SELECT a.name, t.release_uid, '', t.name FROM tags t JOIN apps a ON a.id = t.app
			LEFT JOIN releases r ON r.app = t.app AND r.uid = t.release_uid WHERE r.uid IS NULL`},
		{"an alias names a version that is not there: number", `SELECT '', '', u.kind || ' ' || u.name || ':' || al.name,
			CAST(al.number AS TEXT) FROM aliases al JOIN units u ON u.id = al.unit
			LEFT JOIN versions v ON v.unit = al.unit AND v.number = al.number
			LEFT JOIN versions o ON o.unit = al.unit AND o.number = al.other
			WHERE v.unit IS NULL OR (al.other > 0 AND o.unit IS NULL)`},
		{"a function tag names a version that is not there:", `SELECT '', '', u.kind || ' ' || u.name, e.tag
			FROM function_tag_entries e JOIN units u ON u.id = e.unit
			LEFT JOIN versions v ON v.unit = e.unit AND v.number = e.number WHERE v.unit IS NULL`},
		{"a release has no app version", `SELECT a.name, r.uid, '', '' FROM releases r JOIN apps a ON a.id = r.app
			LEFT JOIN group_versions g ON g.app = r.app AND g.uid = r.uid WHERE g.uid IS NULL OR g.digest <> r.digest`},
		{"a version that a release needs is gone, or is another one: number",
			`SELECT a.name, r.uid, u.kind || ' ' || u.name, CAST(gu.number AS TEXT)
			FROM releases r JOIN apps a ON a.id = r.app AND a.deleted = 0 JOIN group_units gu ON gu.app = r.app
			AND gu.grp = r.uid
			JOIN units u ON u.id = gu.unit LEFT JOIN versions v ON v.unit = gu.unit AND v.number = gu.number
			WHERE r.expired = 0 AND (v.unit IS NULL OR v.uid <> gu.uid OR v.digest <> gu.digest)`},
		{"static files that a release needs are not stored", `SELECT a.name, r.uid, u.kind || ' ' || u.name, ''
			FROM releases r JOIN apps a ON a.id = r.app AND a.deleted = 0 JOIN group_units gu ON gu.app = r.app
			AND gu.grp = r.uid
			JOIN units u ON u.id = gu.unit AND u.kind = 'static' JOIN versions v ON v.unit = gu.unit AND v.number = gu.number
			WHERE r.expired = 0 AND v.content = ''`},
		{"a version has a number that was not given yet:",
			`SELECT COALESCE(a.name, ''), '', u.kind || ' ' || u.name, CAST(v.number AS TEXT)
			FROM versions v JOIN units u ON u.id = v.unit LEFT JOIN apps a ON a.id = u.app WHERE v.number > u.last_number`},
		{"a version points into a folder that is being deleted:",
			`SELECT COALESCE(a.name, ''), '', u.kind || ' ' || u.name, p.prefix
			FROM version_prefixes vp JOIN prefixes p ON p.prefix = vp.prefix AND p.deleting = 1 JOIN units u ON u.id = vp.unit
			LEFT JOIN apps a ON a.id = u.app`},
		{"the commit of a branch or tag has no run:",
			`SELECT a.name, '', '', h.ref FROM heads h JOIN apps a ON a.id = h.app AND a.deleted = 0
			WHERE h.sha <> '' AND h.sha NOT LIKE '0000000000000000000000000000000000000000%'
			AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.app = h.app AND r.commit_sha = h.sha)`},
		{"a commit has several unfinished runs:", `SELECT a.name, '', '', r.commit_sha FROM runs r JOIN apps a ON a.id = r.app
			WHERE r.finished = 0 GROUP BY a.name, r.commit_sha HAVING COUNT(*) > 1`},
		{"a run that succeeded names no release:",
			`SELECT a.name, r.release_uid, '', r.id FROM runs r JOIN apps a ON a.id = r.app
			LEFT JOIN releases x ON x.app = r.app AND x.uid = r.release_uid WHERE r.release_uid <> '' AND x.uid IS NULL`},
		{"a run that is over does not have one final status:",
			`SELECT a.name, '', '', r.id FROM runs r JOIN apps a ON a.id = r.app
			WHERE r.finished <> 0 AND EXISTS (SELECT 1 FROM reports p WHERE p.run = r.id)
			AND (SELECT COUNT(*) FROM reports p WHERE p.run = r.id AND p.state <> 'pending') <> 1`},
	}
}

// Violations returns the rules that the rows break.
func (q queries) Violations(ctx context.Context) ([]Violation, error) {
	var all []Violation
	for _, r := range rules() {
		found, err := list(ctx, q, "store.Violations", func(row scanner) (Violation, error) {
			var v Violation
			var what string
			err := row.Scan(&v.App, &v.Release, &v.Unit, &what)
			v.Problem = r.text
			if what != "" {
				v.Problem += " " + what
			}
			return v, err
		}, r.query)
		if err != nil {
			return all, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// Verify makes the engine check its files, and returns the damage that it finds, in the engine's words. PostgreSQL
// checks by itself when its cluster has checksums.
func (db *DB) Verify(ctx context.Context) ([]string, error) { return db.engine.verify(ctx) }

// Build is the record of what a build made.
type Build struct {
	App    string
	Input  landfall.Digest
	Output []byte
}

// Builds returns the records of all builds.
func (q queries) Builds(ctx context.Context) ([]Build, error) {
	return list(ctx, q, "store.Builds", func(row scanner) (Build, error) {
		var b Build
		var output string
		err := row.Scan(&b.App, &b.Input, &output)
		b.Output = []byte(output)
		return b, err
	}, `SELECT app, input, output FROM builds ORDER BY app, input`)
}
