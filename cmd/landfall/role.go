package main

import (
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall/store"
)

// role is a part of the program that can have a process of its own.
type role string

// The roles. The process that has the role api is the only one that has it: the built-in repositories are in its data folder,
// and it does what one process does for all.
const (
	roleAPI      role = "api"
	roleWebhook  role = "webhook"
	rolePipeline role = "pipeline"
	roleGateway  role = "gateway"
)

func roles() []role { return []role{roleAPI, roleWebhook, rolePipeline, roleGateway} }

func (c *config) has(r role) bool { return slices.Contains(c.Roles, r) }

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
	for name := range strings.SplitSeq(v["ROLE"], ",") {
		switch r := role(strings.TrimSpace(name)); {
		case slices.Contains(roles(), r):
			c.Roles = append(c.Roles, r)
		case v["ROLE"] != "":
			return badSetting("ROLE", "is %q; right would be some of api, webhook, pipeline and gateway, with commas between", v["ROLE"])
		}
	}
	if len(c.Roles) == 0 {
		c.Roles = roles()
		return nil
	}
	switch {
	case !store.IsPostgres(c.Database):
		return badSetting("ROLE", "is %q, and an SQLite file belongs to one process; several need LANDFALL_DATABASE=postgres://…", v["ROLE"])
	case c.S3.Endpoint == "":
		return badSetting("ROLE", "is %q, and the objects are in this process's data folder; several need LANDFALL_S3_ENDPOINT", v["ROLE"])
	case c.RoleSecret == "":
		return badSetting("ROLE_SECRET", "is needed with LANDFALL_ROLE, the same for every process; it may come from a file: LANDFALL_ROLE_SECRET_FILE")
	case c.URL == nil:
		return badSetting("URL", "is needed with LANDFALL_ROLE: where people and the other processes reach the one with the role api")
	}
	return nil
}
