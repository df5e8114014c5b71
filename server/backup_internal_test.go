package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/backup"
	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

// A backup of a process that does not own the database, or not any more when it ends, is none to whoever reads it:
// somebody else may have collected meanwhile.
func TestBackupIsTheOwners(t *testing.T) {
	t.Parallel()
	address := storetest.Postgres(t)
	s := serverAt(t, address, map[string]string{})
	defer func() { _ = s.Close() }()
	other := storetest.Open(t, address)
	want := func(what, problem string) {
		t.Helper()
		var archive bytes.Buffer
		err := s.delivery.Backup(t.Context(), &archive, true)
		_, _, read := backup.Reader{}.Read(t.Context(), &archive)
		if problem == "" {
			if err != nil || read != nil {
				t.Errorf("%s: got %v, and %v of who read it, want none", what, err, read)
			}
			return
		}
		if err == nil || read == nil || !strings.Contains(landfall.MessageOf(read), problem) {
			t.Errorf("%s: got %v, and %v of who read it, want %q", what, err, read, problem)
		}
	}
	want("before it owns the database", "this process does not own the database")
	stop := owning(t, s.db)
	want("the owner", "")
	stopOther := func() {}
	objects := s.objects
	s.objects = listed{objects, func() {
		stop()
		stopOther = owning(t, other)
	}}
	want("replaced before the end", "another landfall process owns the database")
	s.objects = objects
	stopOther()
}

// Whoever asks for a backup and stops reading it holds collection up for a while, and not for ever.
func TestBackupPaused(t *testing.T) {
	t.Parallel()
	config, err := loadConfig(os.DevNull, func(name string) string {
		return map[string]string{"LANDFALL_TOKEN": strings.Repeat("t", minToken)}[name]
	},
		map[string]string{"DATA": t.TempDir(), "LISTEN": "127.0.0.1:0", "SANDBOX": "off"})
	if err != nil {
		t.Fatal(err)
	}
	config.StallTimeout = time.Second
	log := &logtest.Buffer{}
	s, err := newServer(t.Context(), config, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.storeTokens(t.Context()); err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 32<<20) // more than connections hold
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	if err := os.WriteFile(filepath.Join(config.Data, cli.TokenFile), large, 0o600); err != nil {
		t.Fatal(err)
	}
	serves := httptest.NewServer(s.handler)
	defer serves.Close()
	conn, err := net.Dial("tcp", serves.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "GET /api/v1/backup HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", s.config.URL.Host,
		config.Token)
	if line, err := bufio.NewReaderSize(conn, 1).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("got %q, %v", line, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	if err := s.delivery.upkeep.Collect(ctx, "nothing"); landfall.Is(err, landfall.Canceled) {
		t.Errorf("nothing is collected while nobody reads: %v", err)
	}
	serves.Close() // the request is over
	testkit.Contains(t, log, "a backup was broken off", "has read nothing of the answer for 1s")
}

// owning makes a process own a database until it is stopped.
func owning(t *testing.T, db *store.DB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	owned, ended := make(chan bool, 1), make(chan error, 1)
	go func() { ended <- db.Lead(ctx, func() { owned <- true }) }()
	select {
	case <-owned:
	case err := <-ended:
		t.Fatalf("it does not own the database: %v", err)
	}
	return func() {
		cancel()
		<-ended
	}
}

// listed is objects of which something happens when they are listed.
type listed struct {
	objectStore

	happens func()
}

func (l listed) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	l.happens()
	return l.objectStore.List(ctx, prefix)
}
