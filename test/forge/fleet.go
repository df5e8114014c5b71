package forge

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// Fleet is one installation in several processes, on one database and one bucket.
type Fleet struct {
	*World             // of the process with the roles api and webhook
	Workers  []*Member // with the role pipeline
	Gateways []*Member // with the role gateway
}

// Builder returns the worker that runs the build that has begun: its process comes from the worker's.
func (f *Fleet) Builder(gate string) *Member {
	f.T.Helper()
	begun := testkit.Must(os.ReadDir(gate))(f.T)
	for pid := begun[0].Name(); pid != "" && pid != "1"; pid = parentOf(f.T, pid) {
		for _, w := range f.Workers {
			if strconv.Itoa(w.Cmd.Process.Pid) == pid {
				return w
			}
		}
	}
	f.T.Fatalf("the build's process %s comes from no worker", begun[0].Name())
	return nil
}

// Member is a process of a fleet.
type Member struct{ *site.Site }

// NewFleet starts an installation with so many workers and gateways. env are more NAME=VALUE settings, of all
// processes.
func NewFleet(t testing.TB, workers, gateways int, env ...string) *Fleet {
	t.Helper()
	f, on := New(t), site.EngineOf(t, site.WithPostgres+"+"+site.WithS3)
	head := site.NewStopped(t, on, append([]string{"LANDFALL_ROLE=api,webhook"}, env...)...)
	shared := append([]string{
		"LANDFALL_URL=" + head.URL, "LANDFALL_ROLE_SECRET=" + site.RoleSecret,
		"LANDFALL_GITHUB_WEBHOOK_SECRET=" + WebhookSecret,
		"LANDFALL_ALLOWED_HOSTS=" + strings.TrimPrefix(f.Address, "http://")}, env...)
	head.Env = append(head.Env, shared...)
	head.Start()
	head.ReadToken()
	fl := &Fleet{World: &World{Forge: f, Site: head}}
	add := func(n int, role string) (members []*Member) {
		for range n {
			s := site.NewStopped(t, on, append([]string{"LANDFALL_ROLE=" + role}, shared...)...)
			s.Start()
			s.URL, s.Token = head.URL, head.Token
			members = append(members, &Member{s})
		}
		return members
	}
	fl.Workers, fl.Gateways = add(workers, "pipeline"), add(gateways, "gateway")
	return fl
}

// WantServed fails the test unless every gateway serves this.
func (f *Fleet) WantServed(host, path, want string) {
	f.T.Helper()
	for _, g := range f.Gateways {
		site.WantServed(f.T, g.Site, host, path, want)
	}
}

// Building waits until so many builds have begun since the folder was empty.
func (f *Fleet) Building(gate string, n int) {
	f.T.Helper()
	f.Eventually(fmt.Sprintf("%d builds have begun", n), func() bool {
		begun, err := os.ReadDir(gate)
		return err == nil && len(begun) >= n
	})
}

func parentOf(t testing.TB, pid string) string {
	t.Helper()
	for line := range strings.Lines(string(testkit.Must(os.ReadFile(filepath.Join("/proc", pid, "status")))(t))) {
		if parent, ok := strings.CutPrefix(line, "PPid:"); ok {
			return strings.TrimSpace(parent)
		}
	}
	return ""
}
