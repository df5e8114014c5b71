package bench_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // as the server has it
)

// An archive is an installation with a long history: one app of ten functions and a page, to which every push brought a
// version of each function. The newest releases are accessible.
const (
	archiveFunctions  = 10
	archiveAccessible = 10
	queuedRuns        = 10_000
)

// newArchive returns the data folder, the caller's own, of an archive with so many versions of functions.
func newArchive(b *testing.B, versions int) string {
	b.Helper()
	return fixture(b, fmt.Sprintf("archive%d", versions), func(folder string) {
		begin(b, folder)
		execute(b, folder, history, sql.Named("pushes", versions/archiveFunctions), sql.Named("kept", archiveAccessible))
	})
}

// queue makes runs wait in an archive.
func queue(b *testing.B, folder string) {
	b.Helper()
	execute(b, folder, waiting, sql.Named("queued", queuedRuns))
}

// begin makes the archive's first release by a push.
func begin(b *testing.B, folder string) {
	b.Helper()
	work := newWorkTree(b, 1)
	text := "---\napiVersion: fission.io/v1\nkind: Environment\nmetadata: {name: python}\nspec: {version: 2, runtime: " +
		"{image: fission/python-env}}\n" +
		"---\napiVersion: fission.io/v1\nkind: Package\nmetadata: {name: handlers}\nspec:\n  environment: {name: " +
		"python}\n  deployment: {url: \"archive://handlers\"}\n" +
		"---\nkind: ArchiveUploadSpec\nname: handlers\ninclude: [handlers/*.py]\n"
	code := ""
	for i := range archiveFunctions {
		code += fmt.Sprintf("def f%d(): pass\n", i)
		text += fmt.Sprintf("---\napiVersion: fission.io/v1\nkind: Function\nmetadata: {name: f%d}\nspec:\n  environment: "+
			"{name: python}\n"+
			"  package: {packageref: {name: handlers}, functionName: main.f%d}\n", i, i)
	}
	work.Write("specs/functions.yaml", text)
	work.Write("handlers/main.py", code)
	commit := work.commit()
	s := startServer(b, folder, "")
	work.Git("push", "--quiet", s.Remote(s.App("bench")), "main")
	s.finished("bench", commit)
	s.settled()
	s.Stop()
}

// history writes the rows that so many pushes would have left, :pushes, and so many runs that wait, :queued.
var history = []string{
	`PRAGMA synchronous = OFF`,
	`CREATE TEMP TABLE push AS WITH RECURSIVE n(i) AS (VALUES(2) UNION ALL SELECT i + 1 FROM n WHERE i < :pushes)
		SELECT i, printf('v%07x', i * 2654435761 % 268435456) AS uid, lower(hex(randomblob(20))) AS sha FROM n`,
	`INSERT INTO group_versions (app, uid, digest, commit_sha, branch, clean, message, actor, policy, created)
		SELECT g.app, p.uid, g.digest, p.sha, g.branch, g.clean, g.message, g.actor, g.policy, g.created + p.i * 1000 FROM group_versions g, push p`,
	`INSERT INTO versions (unit, number, uid, label, description, digest, spec, content, commit_sha, created, production, retired)
		SELECT v.unit, p.i, p.uid, p.uid, v.description, substr(v.digest, 1, length(v.digest) - 8) || printf('%08x', p.i), v.spec, v.content,
			p.sha, v.created + p.i * 1000, 1, 0
		FROM versions v JOIN units u ON u.id = v.unit AND u.kind = 'function', push p`,
	`INSERT INTO group_units (app, grp, unit, number, uid, digest)
		SELECT gu.app, p.uid, gu.unit, CASE u.kind WHEN 'function' THEN p.i ELSE gu.number END, CASE u.kind WHEN 'function' THEN p.uid ELSE gu.uid END,
			CASE u.kind WHEN 'function' THEN substr(gu.digest, 1, length(gu.digest) - 8) || printf('%08x', p.i) ELSE gu.digest END
		FROM group_units gu JOIN units u ON u.id = gu.unit, push p`,
	`INSERT INTO releases (app, uid, line, digest, commit_sha, branch, created, expired, was_live)
		SELECT r.app, p.uid, r.line, r.digest, p.sha, r.branch, r.created + p.i * 1000, CASE WHEN p.i <= :pushes - :kept THEN 1 ELSE 0 END, 1 FROM releases r, push p`,
	`INSERT INTO applies (id, app, grp, ref, line, actor, created)
		SELECT p.i, a.app, p.uid, a.ref, a.line, a.actor, a.created + p.i * 1000 FROM applies a, push p`,
	`UPDATE counters SET value = :pushes WHERE name = 'applies'`,
	`UPDATE units SET last_number = :pushes WHERE kind = 'function'`,
	`UPDATE apps SET live = (SELECT uid FROM push ORDER BY i DESC LIMIT 1)`,
}

// waiting writes runs that are queued, each of a branch of its own.
var waiting = []string{
	`CREATE TEMP TABLE waiting AS WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < :queued)
		SELECT i, printf('waiting-%d', i) AS id, lower(hex(randomblob(20))) AS sha FROM n`,
	`INSERT INTO pushes (id, app, source, ref, before_sha, after_sha, forced, actor, message, accepted, apply, pull_request, delivery, trace, beside)
		SELECT 1000 + w.i, p.app, p.source, 'refs/heads/waiting' || w.i, '', w.sha, 0, p.actor, p.message, p.accepted, '', '', '', '', 0
		FROM waiting w, pushes p WHERE p.id = 1`,
	`INSERT INTO runs (id, app, commit_sha, branch, state, step, reason, uid, release_uid, rebuild, expect, attempt, failures, worker, lease, next_at,
			stats, changes, change, created, started, finished)
		SELECT w.id, r.app, w.sha, 'waiting' || w.i, 'queued', 'accept', '', printf('w%07x', w.i), '', 0, '', 0, 0, '', 0, 0, '{}', '[]', 0, r.created + w.i, 0, 0
		FROM waiting w, (SELECT * FROM runs WHERE finished > 0 LIMIT 1) r`,
	`INSERT INTO run_refs (run, push, ref, withdrawn) SELECT id, 1000 + i, 'refs/heads/waiting' || i, 0 FROM waiting`,
	`INSERT INTO river_job (args, attempt, created_at, kind, max_attempts, metadata, priority, queue, state, scheduled_at, tags)
		SELECT jsonb(json_object('topic', 'run', 'id', w.id)), 0, j.created_at, j.kind, j.max_attempts, j.metadata, j.priority, j.queue, 'available', j.scheduled_at, j.tags
		FROM waiting w, (SELECT * FROM river_job WHERE json_extract(args, '$.topic') = 'run' LIMIT 1) j`,
	`UPDATE counters SET value = 1000 + :queued WHERE name = 'pushes'`,
}

// execute executes statements on the database of a folder in which no server is at work.
func execute(b *testing.B, folder string, statements []string, args ...any) {
	b.Helper()
	db, err := sql.Open("sqlite", filepath.Join(folder, "landfall.db"))
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1) // temporary tables are a connection's own
	for _, statement := range append(statements, `PRAGMA wal_checkpoint(TRUNCATE)`) {
		if _, err := db.ExecContext(b.Context(), statement, args...); err != nil {
			b.Fatalf("%v\n%s", err, statement)
		}
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}
