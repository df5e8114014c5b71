package server

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/cli"
)

// unit is a systemd unit: what each directive of its service was set to.
type unit map[string][]string

func readUnit(t *testing.T, path string) unit {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	u := unit{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "[") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Errorf("%q is no directive", line)
		}
		u[name] = append(u[name], value)
	}
	return u
}

// The unit starts the program as it wants to be started, confines it, and leaves its builds what bubblewrap needs.
func TestUnit(t *testing.T) {
	t.Parallel()
	u := readUnit(t, "../packaging/landfall.service")
	words := strings.Fields(strings.Join(u["ExecStart"], " "))
	if len(words) < 2 || words[1] != "serve" {
		t.Fatalf("got the command %q, want one that serves", words)
	}
	serve := serveCommand(&cli.Call{}, "")
	if err := serve.ParseFlags(words[2:]); err != nil {
		t.Errorf("%q: %v", words, err)
	}
	for _, given := range u["Environment"] {
		name, _, _ := strings.Cut(strings.TrimPrefix(given, envPrefix), "=")
		if !slices.ContainsFunc(settings(), func(known setting) bool { return known.name == name }) {
			t.Errorf("there is no setting %s", given)
		}
	}
	if user := u["User"]; len(user) != 1 || user[0] == "root" {
		t.Errorf("it runs as %q", user)
	}
	limit, err := time.ParseDuration(strings.Join(u["TimeoutStopSec"], " "))
	if err != nil || limit <= 2*drainTimeout {
		t.Errorf("it is killed after %s, and may drain for %s, twice", limit, drainTimeout)
	}
	for _, confined := range []string{"NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes",
		"CapabilityBoundingSet=", "UMask=0077"} {
		name, value, _ := strings.Cut(confined, "=")
		if !slices.Equal(u[name], []string{value}) {
			t.Errorf("%s is %q, want %q", name, u[name], value)
		}
	}
	// With any of these bubblewrap cannot make its namespaces, mount /proc, or name the host, or compilers cannot run
	// their code.
	for _, breaks := range []string{"RestrictNamespaces", "PrivateUsers", "ProtectKernelTunables", "ProtectKernelLogs",
		"ProtectControlGroups", "ProcSubset", "ProtectHostname", "MemoryDenyWriteExecute", "NoExecPaths"} {
		if value, set := u[breaks]; set {
			t.Errorf("%s is %q: builds would be refused", breaks, value)
		}
	}
}
