package server

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"landfall.dev/landfall/store"
)

// role is a part of the program that can have a process of its own.
type role string

// The roles. The process that has the role api is the only one that has it: the built-in repositories are in its data
// folder, and it does what one process does for all.
const (
	roleAPI      role = "api"
	roleWebhook  role = "webhook"
	rolePipeline role = "pipeline"
	roleGateway  role = "gateway"
	roleTrigger  role = "trigger"
	roleRouter   role = "router"
	roleRunner   role = "runner"
	roleRegistry role = "registry"
)

func roles() []role {
	return []role{roleAPI, roleWebhook, rolePipeline, roleGateway, roleTrigger, roleRouter, roleRunner, roleRegistry}
}

// does says what a role is for, to who chooses one.
func (r role) does() string {
	return map[role]string{
		roleAPI:      "the REST API, the pages, the built-in git remote, reports to GitHub, collection; one process has it",
		roleWebhook:  "/webhooks/github",
		rolePipeline: "takes runs through their steps; builds",
		roleGateway:  "serves releases; without LANDFALL_ROUTER and LANDFALL_RUNNERS it is trigger, registry and runner, too",
		roleTrigger:  "/run, /fire, /r/ and /hooks/; fires schedules, queues and jobs; runs what was accepted",
		roleRouter:   "/run: sends an event to the best runner; needs LANDFALL_RUNNERS and no database",
		roleRunner:   "/run: runs functions; needs LANDFALL_REGISTRY and no database",
		roleRegistry: "/functions/ and /v2/: what functions are, and their images",
	}[r]
}

// within are the roles that people reach through no page and no cookie, by whatever name their processes have on the
// network.
func (r role) within() bool {
	return slices.Contains([]role{roleTrigger, roleRouter, roleRunner, roleRegistry}, r)
}

// roleSettings are what the process does, and what it does that beside.
type roleSettings struct {
	Roles      []role
	Every      bool          // no roles were given: this is the whole program
	Router     string        // HOST:PORT that functions run behind; empty: in this process, or on Runners
	Runners    []string      // HOST:PORT of each, of which a router, or what has none, chooses
	Registry   *url.URL      // where a runner without a database asks for functions
	RoleSecret string        // what processes with different roles share
	Lease      time.Duration // how long a worker may give no sign of life
}

func (c *roleSettings) has(r role) bool { return slices.Contains(c.Roles, r) }

// said returns the roles for people; none for the whole program.
func (c *roleSettings) said() (names []string) {
	if c.Every {
		return nil
	}
	for _, r := range c.Roles {
		names = append(names, string(r))
	}
	return names
}

// stateful reports whether the process needs the database.
func (c *roleSettings) stateful() bool {
	return slices.ContainsFunc(c.Roles, func(r role) bool { return r != roleRouter && r != roleRunner })
}

// within reports whether all that the process does is for other processes and for programs.
func (c *roleSettings) within() bool {
	return !slices.ContainsFunc(c.Roles, func(r role) bool { return !r.within() })
}

// remoteFunctions reports whether the functions of triggers and routes run in other processes.
func (c *roleSettings) remoteFunctions() bool { return c.Router != "" || len(c.Runners) > 0 }

// parseRoles reads what the process does, and whether it can do that beside others.
func (c *config) parseRoles(v map[string]string) error {
	lease, err := time.ParseDuration(v["LEASE"])
	if err != nil || lease < time.Second {
		return badSetting("LEASE", "is %q; right would be a time of a second or more, for example 30s", v["LEASE"])
	}
	c.Lease, c.RoleSecret = lease, v["ROLE_SECRET"]
	if c.RoleSecret != "" && len(c.RoleSecret) < minToken {
		return badSetting("ROLE_SECRET", "has %d characters; it needs at least %d", len(c.RoleSecret), minToken)
	}
	if err := c.parsePeers(v); err != nil {
		return err
	}
	for name := range strings.SplitSeq(v["ROLE"], ",") {
		switch r := role(strings.TrimSpace(name)); {
		case slices.Contains(roles(), r):
			c.Roles = append(c.Roles, r)
		case v["ROLE"] != "":
			return badSetting("ROLE", "is %q; right would be some of api, webhook, pipeline, gateway, trigger, router, "+
				"runner and registry, with commas between", v["ROLE"])
		}
	}
	if len(c.Roles) == 0 {
		c.Every, c.Roles = true, roles()
		return c.parseEvery()
	}
	if c.has(roleGateway) && !c.remoteFunctions() { // it is what it needs
		for _, r := range []role{roleTrigger, roleRunner, roleRegistry} {
			if !c.has(r) {
				c.Roles = append(c.Roles, r)
			}
		}
	}
	return c.checkRoles(v["ROLE"])
}

// parseEvery adjusts the roles of the whole program to where its functions run.
func (c *config) parseEvery() error {
	others := []role{roleRouter} // there is nothing to choose from
	if c.remoteFunctions() {
		others = []role{roleRunner}
		if c.Router != "" {
			others = []role{roleRunner, roleRouter}
		}
		switch {
		case c.RoleSecret == "":
			return badSetting("ROLE_SECRET", "is needed where functions run in other processes, the same for every process")
		case c.S3.Endpoint == "":
			return badSetting("S3_ENDPOINT",
				"is needed where functions run in other processes: their packages are in this one's data folder else")
		case c.URL == nil:
			return badSetting("URL", "is needed where functions run in other processes: where they reach this one")
		}
	}
	c.Roles = slices.DeleteFunc(c.Roles, func(r role) bool { return slices.Contains(others, r) })
	return nil
}

// checkRoles says what the roles of a process lack.
func (c *config) checkRoles(given string) error {
	stored := slices.ContainsFunc(c.Roles, func(r role) bool { return r != roleRouter })
	switch {
	case c.has(roleRouter) && c.has(roleRunner):
		return badSetting("ROLE",
			"is %q, and router and runner answer at the same address, /run; right would be a process for each", given)
	case c.has(roleRouter) && len(c.Runners) == 0:
		return badSetting("RUNNERS",
			"is needed with the role router: HOST:PORT of each runner, with commas between; of a name, each address is a runner")
	case c.has(roleTrigger) && !c.remoteFunctions() && !c.has(roleRunner):
		return badSetting("ROUTER",
			"is needed with the role trigger: HOST:PORT of a process with the role router, or of a runner; "+
				"LANDFALL_RUNNERS or the role runner would do, too")
	case !c.stateful() && c.has(roleRunner) && c.Registry == nil:
		return badSetting("REGISTRY", "is needed with the role runner: HOST:PORT of a process with the role registry")
	case c.stateful() && !store.IsPostgres(c.Database):
		return badSetting("ROLE",
			"is %q, and an SQLite file belongs to one process; several need LANDFALL_DATABASE=postgres://…", given)
	case stored && c.S3.Endpoint == "":
		return badSetting("ROLE",
			"is %q, and the objects are in this process's data folder; several need LANDFALL_S3_ENDPOINT", given)
	case c.RoleSecret == "":
		return badSetting("ROLE_SECRET",
			"is needed with LANDFALL_ROLE, the same for every process; it may come from a file: LANDFALL_ROLE_SECRET_FILE")
	case c.stateful() && c.URL == nil:
		return badSetting("URL",
			"is needed with LANDFALL_ROLE: where people and the other processes reach the one with the role api")
	}
	return nil
}

// parsePeers reads where the processes with other roles are.
func (c *roleSettings) parsePeers(v map[string]string) (err error) {
	if v["ROUTER"] != "" {
		if c.Router, err = parsePeer("ROUTER", v["ROUTER"]); err != nil {
			return err
		}
	}
	for text := range strings.SplitSeq(v["RUNNERS"], ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		runner, err := parsePeer("RUNNERS", text)
		if err != nil {
			return err
		}
		c.Runners = append(c.Runners, runner)
	}
	if c.Router != "" && len(c.Runners) > 0 {
		return badSetting("ROUTER", "and LANDFALL_RUNNERS are both set; right would be the router, or the runners")
	}
	if v["REGISTRY"] == "" {
		return nil
	}
	host, err := parsePeer("REGISTRY", v["REGISTRY"])
	c.Registry = &url.URL{Scheme: "http", Host: host}
	return err
}

// parsePeer reads the address of another process, which is HOST:PORT, with http:// before it if one likes.
func parsePeer(name, text string) (string, error) {
	address := strings.TrimSuffix(strings.TrimPrefix(text, "http://"), "/")
	host, port, err := net.SplitHostPort(address)
	if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || n == 0 ||
		strings.ContainsAny(host, "/@?# ") || host == "" {
		// not shown: it may hold a password
		return "", badSetting(name, "has something that is no address of a process; right would be HOST:PORT")
	}
	return address, nil
}
