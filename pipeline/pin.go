package pipeline

import (
	"context"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

// secretNames returns the secrets that the functions of the commit name.
func (s source) secretNames() []string {
	var names []string
	for _, f := range s.spec.Functions {
		for _, s := range f.Secrets {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// pinSecrets returns the secrets that the commit's functions name, in the versions for a release of a line. Invalid,
// with file and line, when one does not exist.
func (s source) pinSecrets(ctx context.Context, line landfall.Line) ([]store.GroupUnit, error) {
	if s.run.Expect != "" {
		recorded, err := s.DB.GroupUnits(ctx, s.app.ID, s.run.Expect)
		return slices.DeleteFunc(recorded, func(u store.GroupUnit) bool { return u.Unit.Kind != landfall.SecretUnit }), err
	}
	var secrets []store.GroupUnit
	for _, f := range s.spec.Functions {
		for _, ref := range f.Secrets {
			if ref.Namespace != "" && ref.Namespace != landfall.DefaultNamespace && ref.Namespace != s.app.Namespace {
				return nil, landfall.Errorf("pipeline.pin", landfall.Invalid,
					"%s: the secret %s is in the namespace %q, and secrets are the app's own: leave the namespace out", ref.Pos,
					ref.Name, ref.Namespace)
			}
			u, err := deploy.Pin(ctx, s.DB, s.app, ref.Name, line)
			if err != nil {
				return nil, landfall.Wrapf("pipeline.pin", landfall.KindOf(err), err, "%s: Function %s names %s", ref.Pos, f.Name,
					landfall.MessageOf(err))
			}
			if !slices.Contains(secrets, u) {
				secrets = append(secrets, u)
			}
		}
	}
	slices.SortFunc(secrets, func(a, b store.GroupUnit) int { return strings.Compare(a.Unit.Name, b.Unit.Name) })
	return secrets, nil
}

// lineReader is what is needed to tell lines apart; the database and its transactions have it.
type lineReader interface {
	AppliesOf(ctx context.Context, app string, group landfall.UID) ([]landfall.Apply, error)
	GroupsOfCommit(ctx context.Context, app, commit string) ([]landfall.Group, error)
}

// lineOf returns the line to which a commit's release belongs: production if production wants it or, when no push wants
// it, had it.
func (a *attempt) lineOf(ctx context.Context, r lineReader, app landfall.App,
	pushes []landfall.Push) (landfall.Line, error) {
	if slices.ContainsFunc(pushes, func(p landfall.Push) bool {
		return deploy.LineOfPush(app, p) == landfall.Production
	}) {
		return landfall.Production, nil
	}
	if len(pushes) > 0 || a.run.Fork != 0 {
		return landfall.Preview, nil
	}
	groups, err := r.GroupsOfCommit(ctx, a.app.ID, string(a.run.Commit))
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		if line, err := deploy.LineOf(ctx, r, g); err != nil || line == landfall.Production {
			return line, err
		}
	}
	return landfall.Preview, nil
}

// errPinAgain is what the commit's transaction returns when a secret was set or revoked since the plan was made, or
// production has begun to want the commit.
var errPinAgain = landfall.Errorf("pipeline.pin", landfall.Unavailable,
	"a secret was set or revoked meanwhile, or another branch came to the commit; planning again")

// checkPinned fails unless the secrets of the plan are still those in force.
func (d draft) checkPinned(ctx context.Context, tx *store.Tx, app landfall.App, pushes []landfall.Push) error {
	names := d.secretNames()
	if len(names) == 0 || d.run.Expect != "" {
		return nil
	}
	line, err := d.lineOf(ctx, tx, app, pushes)
	if err != nil {
		return err
	}
	for _, name := range names {
		u, err := deploy.Pin(ctx, tx, app, name, line)
		if landfall.Ignore(err, landfall.Invalid) != nil {
			return err
		}
		if !slices.Contains(d.secrets, u) {
			return errPinAgain
		}
	}
	return nil
}
