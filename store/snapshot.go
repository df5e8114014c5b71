package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"landfall.dev/landfall"
)

// Snapshot is the committed state at one moment: everything that is read from it belongs to that moment. It is valid
// only within the function that DB.Snapshot calls.
type Snapshot struct{ queries }

// Snapshot calls f with the state at a moment after the call began. Writers go on meanwhile.
func (db *DB) Snapshot(ctx context.Context, f func(*Snapshot) error) error {
	const op landfall.Op = "store.Snapshot"
	tx, err := db.engine.snapshot(ctx)
	if err != nil {
		return classify(op, err)
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	return classify(op, f(&Snapshot{queries{tx}}))
}

// dumpTables returns the tables of a dump, each after those that its rows refer to. The other tables can be made again:
// the records of builds, whose files are a cache, and the jobs, which only say where there is work. The outcomes of
// messages are left out, too: they are of no use without the messages, which are in no dump. So is what deliveries
// said, which is of use for a few days, and what the forge refuses, or could not be looked at, which is tried again.
func dumpTables() []string {
	return []string{
		"namespaces", "counters", "apps", "tokens", "hooks", "deliveries", "shared_deliveries", "pushes", "heads",
		"pull_requests", "runs", "run_refs", "run_steps", "run_log", "units", "versions", "aliases", "alias_moves",
		"function_tags", "function_tag_entries", "version_pins", "trigger_weights",
		"canaries", "canary_counts", "canary_steps", "group_versions", "group_units", "applies", "releases", "tags", "moves",
		"release_canaries", "release_canary_counts", "release_canary_steps", "reports", "comments", "prefixes",
		"version_prefixes", "reservations", "schedules", "schedule_firings", "executions", "execution_log",
		"function_jobs", "function_hooks", "plans", "seen_refs", "commands", "deployments", "checks", "github_apps",
		"github_connections", "github_problems", "forge_hooks", "command_comments", "pull_questions",
	}
}

// dumpTablesOf returns the tables of a dump that was made in a form.
func dumpTablesOf(form int64) []string {
	since := map[string]int64{"shared_deliveries": 8, "function_jobs": 14, "function_hooks": 14, "seen_refs": 21,
		"github_apps": 24, "github_connections": 24, "github_problems": 24, "forge_hooks": 27, "deployments": 28,
		"checks": 29, "commands": 30, "command_comments": 41, "pull_questions": 42}
	return slices.DeleteFunc(dumpTables(), func(table string) bool { return since[table] > form })
}

// selectAll asks for all columns of a table, whichever there are. The dump names them.
func selectAll(table string) string {
	return strings.Join([]string{"SELECT", "*", "FROM", table}, " ")
}

// maxDumpLine bounds what one row takes in memory.
const maxDumpLine = 64 << 20

// heading stands before the rows of a table in a dump.
type heading struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
}

// Schema returns the form of the tables: the number of the newest migration.
func (q queries) Schema(ctx context.Context) (int64, error) {
	return one(ctx, q, "store.Schema", scanValue[int64], `SELECT MAX(version_id) FROM goose_db_version`)
}

// Prefixes returns all folders of the object store that the rows name.
func (q queries) Prefixes(ctx context.Context) ([]string, error) {
	return list(ctx, q, "store.Prefixes", scanValue[string], `SELECT prefix FROM prefixes ORDER BY prefix`)
}

// Dump writes all rows in a form that every engine's Fill takes: for each table a line of JSON with its name and
// columns, then one line with an array for each row. It returns the number of rows.
func (s *Snapshot) Dump(ctx context.Context, w io.Writer) (int64, error) {
	out := bufio.NewWriter(w)
	var total int64
	for _, table := range dumpTables() {
		n, err := s.dumpTable(ctx, out, table)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, out.Flush()
}

func (s *Snapshot) dumpTable(ctx context.Context, w io.Writer, table string) (int64, error) {
	const op landfall.Op = "store.Dump"
	rows, err := s.conn.QueryContext(ctx, selectAll(table))
	if err != nil {
		return 0, classify(op, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below reports what matters
	columns, err := rows.Columns()
	if err != nil {
		return 0, classify(op, err)
	}
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(heading{table, columns}); err != nil {
		return 0, err
	}
	values := make([]any, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	var n int64
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return n, classify(op, err)
		}
		if err := lines.Encode(values); err != nil {
			return n, err
		}
		n++
	}
	return n, classify(op, rows.Err())
}

// Fill opens the database at where, which must be empty, brings it to the form in which a dump was made, and adds all
// rows of the dump in one transaction. After an error or a kill it is as empty as before. The next Open brings it to
// the newest form. Conflict when it is not empty, or the form is newer than this program; Invalid when the text is not
// a dump.
func Fill(ctx context.Context, where string, form int64, dump io.Reader) (rows int64, err error) {
	if form < 1 {
		return 0, dumpError(fmt.Sprintf("its form is %d", form))
	}
	s := currentSchema()
	s.upTo = form
	db, err := openWith(ctx, where, s)
	if err != nil {
		return 0, err
	}
	err = db.Update(ctx, func(tx *Tx) error {
		if err := tx.checkEmpty(ctx, form); err != nil {
			return err
		}
		if rows, err = tx.fill(ctx, form, dump); err != nil {
			return err
		}
		// The workers of the runs were other processes, so the leases end.
		return tx.exec(ctx, "store.Fill", `UPDATE runs SET lease = 0 WHERE finished = 0`)
	})
	return rows, errors.Join(err, db.Close())
}

// checkEmpty fails with Conflict when a table of a form has rows.
func (q queries) checkEmpty(ctx context.Context, form int64) error {
	for _, table := range dumpTablesOf(form) {
		if err := q.checkEmptyTable(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

func (q queries) checkEmptyTable(ctx context.Context, table string) error {
	const op landfall.Op = "store.checkEmpty"
	n, err := one(ctx, q, op, scanValue[int64], `SELECT COUNT(*) FROM (SELECT 1 FROM `+table+` LIMIT 1) AS found`)
	if err == nil && n > 0 {
		err = landfall.Errorf(op, landfall.Conflict,
			"the database is not empty: the table %s has rows; a restore needs a new one", table)
	}
	return err
}

// fill adds the rows of a dump that was made in a form.
func (tx *Tx) fill(ctx context.Context, form int64, dump io.Reader) (int64, error) {
	lines := bufio.NewScanner(dump)
	lines.Buffer(nil, maxDumpLine)
	var n int64
	var insert string
	var columns int
	expected := dumpTablesOf(form)
	for lines.Scan() {
		line := lines.Bytes()
		if bytes.HasPrefix(line, []byte("{")) {
			var h heading
			if err := json.Unmarshal(line, &h); err != nil || len(expected) == 0 || h.Table != expected[0] {
				return n, dumpError(fmt.Sprintf("the table %q is not where it is expected", h.Table))
			}
			expected = expected[1:]
			if err := tx.checkColumns(ctx, h); err != nil {
				return n, err
			}
			insert, columns = insertInto(h), len(h.Columns)
			continue
		}
		values, err := rowOf(line)
		if err != nil || len(values) != columns || insert == "" {
			return n, dumpError(fmt.Sprintf("the row %d is not one", n+1))
		}
		if err := tx.exec(ctx, "store.Fill", insert, values...); err != nil {
			return n, err
		}
		n++
	}
	if err := lines.Err(); err != nil {
		return n, err
	}
	if len(expected) > 0 {
		return n, dumpError("the table " + expected[0] + " is missing")
	}
	return n, nil
}

// checkColumns fails unless a table has the columns that a dump names, because they become part of a statement.
func (tx *Tx) checkColumns(ctx context.Context, h heading) error {
	rows, err := tx.conn.QueryContext(ctx, selectAll(h.Table)+` WHERE 1 = 0`)
	if err != nil {
		return classify("store.Fill", err)
	}
	defer func() { _ = rows.Close() }() // there are none
	columns, err := rows.Columns()
	if err == nil {
		err = rows.Err()
	}
	if err != nil {
		return classify("store.Fill", err)
	}
	if !slices.Equal(slices.Sorted(slices.Values(columns)), slices.Sorted(slices.Values(h.Columns))) {
		return dumpError(fmt.Sprintf("the table %s has the columns %q here and %q there", h.Table, columns, h.Columns))
	}
	return nil
}

func insertInto(h heading) string {
	places := make([]string, len(h.Columns))
	for i := range places {
		places[i] = fmt.Sprintf("$%d", i+1)
	}
	return `INSERT INTO ` + h.Table + ` (` + strings.Join(h.Columns, ", ") + `) VALUES (` +
		strings.Join(places, ", ") + `)`
}

// rowOf reads the values of a row: texts and whole numbers.
func rowOf(line []byte) ([]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	var values []any
	if err := decoder.Decode(&values); err != nil {
		return nil, err
	}
	for i, v := range values {
		switch v := v.(type) {
		case string:
		case json.Number:
			n, err := v.Int64()
			if err != nil {
				return nil, err
			}
			values[i] = n
		default:
			return nil, fmt.Errorf("a value of the type %T", v)
		}
	}
	return values, nil
}

func dumpError(why string) error {
	return &landfall.Error{Op: "store.Fill", Kind: landfall.Invalid,
		Message: "the rows of the backup cannot be used: " + why}
}

// CheckVacant returns a Conflict unless the database at where is empty or does not exist. It changes nothing.
func CheckVacant(ctx context.Context, where string) error {
	const op landfall.Op = "store.CheckVacant"
	if !IsPostgres(where) {
		info, err := os.Stat(where)
		if err == nil && info.Size() > 0 {
			return landfall.Errorf(op, landfall.Conflict, "there is a database at %s; a restore needs a new one", where)
		}
		return nil
	}
	e, err := connectPostgres(ctx, where)
	if err != nil {
		return err
	}
	defer func() { _ = e.close() }()
	q := queries{e.sql}
	tables, err := list(ctx, q, op, scanValue[string],
		`SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`)
	if err != nil {
		return e.connectError(op, err)
	}
	for _, table := range dumpTables() {
		if !slices.Contains(tables, table) {
			continue
		}
		if err := q.checkEmptyTable(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// CheckForm returns a Conflict unless this program knows the form of the tables.
func CheckForm(form int64) error {
	names, err := fs.Glob(currentSchema().migrations, "*.sql")
	if err != nil {
		return classify("store.CheckForm", err)
	}
	var known int64
	for _, name := range names {
		number, err := goose.NumericComponent(name)
		if err != nil {
			return classify("store.CheckForm", err)
		}
		known = max(known, number)
	}
	if form > known {
		return newerSchema("store.CheckForm", form, known)
	}
	return nil
}
