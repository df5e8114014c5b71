package store

import (
	"context"

	"landfall.dev/landfall"
)

// Environments returns the environments in force of the apps of a namespace, by their names.
func (q queries) Environments(ctx context.Context, namespace string) ([]Unit, error) {
	return list(ctx, q, "store.Environments", scanUnit, `SELECT `+unitColumns+` FROM units u
		WHERE u.namespace = $1 AND u.kind = 'environment' AND u.retired = 0 AND `+appIsThere+` ORDER BY u.name, u.app`,
		namespace)
}

// FunctionsMadeWith returns the versions of functions that were made in group versions which have an environment, by
// their names.
func (q queries) FunctionsMadeWith(ctx context.Context, environment string) ([]landfall.Version, error) {
	return list(ctx, q, "store.FunctionsMadeWith", scanVersion, `SELECT `+versionColumns+` FROM group_units gu
		JOIN units u ON u.app = gu.app AND u.kind = 'function' JOIN versions v ON v.unit = u.id AND v.uid = gu.grp
		WHERE gu.unit = $1 ORDER BY u.name, v.number`, environment)
}
