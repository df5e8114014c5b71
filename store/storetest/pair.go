package storetest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"landfall.dev/landfall/porttest"
)

// Pair is a PostgreSQL server with a replica, which has everything that the server reported as committed.
type Pair struct {
	URL     string // of an empty, migrated database: it names both
	Primary string // its address on the server that takes writes now
	Replica string // and on the one that follows it, or did before a Failover

	t      testing.TB
	nodes  [2]*server // the first takes writes; the second is nil from Failover to Repair
	absent string     // the port of the second then
}

// NewPair starts two servers that end with t.
func NewPair(t testing.TB) *Pair {
	t.Helper()
	first, err := startMigrated()
	if err != nil {
		t.Fatal(err)
	}
	p := &Pair{t: t, nodes: [2]*server{first}}
	t.Cleanup(func() {
		for _, s := range p.nodes {
			if s != nil {
				_ = s.alive.Close()
			}
		}
	})
	port, err := porttest.Free()
	if err != nil {
		t.Fatal(err)
	}
	p.URL = urlOf(fmt.Sprintf("127.0.0.1:%s,127.0.0.1:%s", first.port, port), template)
	p.replicate(port)
	return p
}

// Join returns the address of a database that is at one of two addresses.
func Join(first, second string) string {
	begin, rest, _ := strings.Cut(first, "@")
	host, rest, _ := strings.Cut(rest, "/")
	_, other, _ := strings.Cut(second, "@")
	other, _, _ = strings.Cut(other, "/")
	return begin + "@" + host + "," + other + "/" + rest
}

// Failover kills the server that takes writes, and promotes the replica. What is committed after that is in one place
// only, until Repair.
func (p *Pair) Failover() {
	p.t.Helper()
	killed, promoted := p.nodes[0], p.nodes[1]
	if _, err := io.WriteString(killed.alive, "KILL end\n"); err != nil {
		p.t.Fatal(err)
	}
	<-killed.ended
	p.Promote()
	p.nodes, p.absent, p.Primary = [2]*server{promoted}, killed.port, promoted.url(template)
}

// Demote makes the server refuse writes. Open connections stay.
func (p *Pair) Demote() {
	p.t.Helper()
	if err := errors.Join(p.nodes[0].exec(`ALTER SYSTEM SET default_transaction_read_only = on`),
		p.nodes[0].exec(`SELECT pg_reload_conf()`)); err != nil {
		p.t.Fatal(err)
	}
}

// Promote is Failover that leaves the server which took writes as it is.
func (p *Pair) Promote() {
	p.t.Helper()
	promoted := p.nodes[1]
	if err := promoted.run("pg_ctl", "promote", "--pgdata="+promoted.data()); err != nil {
		p.t.Fatal(err)
	}
}

// Repair makes a replica in place of the killed server, and waits until it has everything.
func (p *Pair) Repair() {
	p.t.Helper()
	if p.nodes[1] != nil {
		return
	}
	p.replicate(p.absent)
}

// replicate makes a replica at a port, and makes the server wait for it at each commit.
func (p *Pair) replicate(port string) {
	p.t.Helper()
	primary := p.nodes[0]
	replica, err := startAt(port, func(c cluster) error {
		return c.run("pg_basebackup", "--dbname="+primary.url(""), "--pgdata="+c.data(), "--write-recovery-conf",
			"--checkpoint=fast", "--no-sync")
	})
	if err != nil {
		p.t.Fatalf("the replica did not start: %v", err)
	}
	p.nodes[1], p.Primary, p.Replica = replica, primary.url(template), replica.url(template)
	err = errors.Join(primary.exec(`ALTER SYSTEM SET synchronous_standby_names = '*'`),
		primary.exec(`SELECT pg_reload_conf()`), eventually(func() error {
			n, err := primary.ask(`SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`)
			if err == nil && n != "1" {
				err = fmt.Errorf("%s replicas are synchronous", n)
			}
			return err
		}), primary.exec(`COMMENT ON DATABASE `+template+` IS 'what was committed before this is there, too'`))
	if err != nil {
		p.t.Fatal(err)
	}
}
