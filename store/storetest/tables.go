package storetest

import (
	"context"
	"database/sql"
	"strings"
	"testing"
)

// Table is the content of a table, and its size with its indexes.
type Table struct{ Rows, Bytes int64 }

// Tables returns the tables, by name, of the database at an address as SQLite and Postgres return it. A server may use
// it meanwhile. Counting the rows takes time.
func Tables(t testing.TB, address string) map[string]Table {
	t.Helper()
	driver, sizes := "sqlite",
		`SELECT m.tbl_name, SUM(s.pgsize) FROM dbstat s JOIN sqlite_master m ON m.name = s.name
			WHERE s.aggregate = TRUE GROUP BY 1`
	if strings.Contains(address, "://") {
		driver, sizes = "pgx",
			`SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r'
				AND relnamespace = 'public'::regnamespace`
	} else {
		address = "file:" + address + "?mode=ro&_pragma=busy_timeout(30000)"
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // it only read
	tables, err := tablesOf(t.Context(), db, sizes)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

func tablesOf(ctx context.Context, db *sql.DB, sizes string) (map[string]Table, error) {
	rows, err := db.QueryContext(ctx, sizes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err below tells what matters
	tables := map[string]Table{}
	for rows.Next() {
		var name string
		var table Table
		if err := rows.Scan(&name, &table.Bytes); err != nil {
			return nil, err
		}
		tables[name] = table
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for name, table := range tables {
		count := strings.Join([]string{"SELECT", "COUNT(*)", "FROM", name}, " ")
		if err := db.QueryRowContext(ctx, count).Scan(&table.Rows); err != nil {
			return nil, err
		}
		tables[name] = table
	}
	return tables, nil
}
