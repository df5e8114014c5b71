package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// pin returns the version of a secret that a new release of a line uses: the value that was set last for it. Branches other than
// production use the value for previews, if there is one. Invalid, with a sentence without a place, when there is none or it was
// revoked: an older one is not used in its stead.
func pin(ctx context.Context, r pinReader, app landfall.App, name string, line landfall.Line) (store.GroupUnit, error) {
	id := landfall.UnitID{Kind: landfall.SecretUnit, Name: name}
	row, err := r.Unit(ctx, app, id)
	if ignoreNotFound(err) != nil {
		return store.GroupUnit{}, err
	}
	var v landfall.Version
	if err == nil {
		v, err = newestSecret(ctx, r, row, line, false)
	}
	if err != nil {
		if landfall.KindOf(err) != landfall.NotFound {
			return store.GroupUnit{}, err
		}
		if _, err := newestSecret(ctx, r, row, line, true); row.ID != "" && err == nil {
			return store.GroupUnit{}, unset(app, name, "which builds alone get")
		}
		return store.GroupUnit{}, unset(app, name, "which the app does not have")
	}
	content, err := secret.ReadContent(v.Content)
	if err != nil {
		return store.GroupUnit{}, err
	}
	if !content.Revoked.IsZero() {
		return store.GroupUnit{}, unset(app, name, fmt.Sprintf("whose last value (no. %d) was revoked", v.Number))
	}
	return store.GroupUnit{UnitID: row.ID, GroupUnit: landfall.GroupUnit{Unit: id, UID: v.UID, Number: v.Number, Digest: v.Digest}}, nil
}

// pinReader is what pin reads; the database and its transactions have it.
type pinReader interface {
	Unit(ctx context.Context, app landfall.App, id landfall.UnitID) (store.Unit, error)
	NewestVersion(ctx context.Context, unit string, spec json.RawMessage) (landfall.Version, error)
}

// newestSecret returns the version of a secret that was made last for a line, for builds or for functions. NotFound when there is none.
func newestSecret(ctx context.Context, r pinReader, row store.Unit, line landfall.Line, build bool) (landfall.Version, error) {
	if line == landfall.Preview {
		v, err := r.NewestVersion(ctx, row.ID, secret.Spec{Build: build, Preview: true}.JSON())
		if err == nil || landfall.KindOf(err) != landfall.NotFound {
			return v, err
		}
	}
	return r.NewestVersion(ctx, row.ID, secret.Spec{Build: build}.JSON())
}

func unset(app landfall.App, name, why string) error {
	return &landfall.Error{Op: "pipeline.pin", Kind: landfall.Invalid, Message: fmt.Sprintf(
		"the secret %s, %s: set it with landfall secret set %s %s, then push another commit, or: landfall run retry RUN", name, why, app.Name, name)}
}

// secretNames returns the names of the secrets that the functions of the commit name.
func (w *worker) secretNames() []string {
	var names []string
	for _, f := range w.spec.Functions {
		for _, s := range f.Secrets {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// pinSecrets finds the secrets that the commit's functions name, and those that its builds get. Invalid, with file and line, when one is not there.
func (w *worker) pinSecrets(ctx context.Context, pushes []landfall.Push) error {
	line, err := w.lineOf(ctx, w.DB, w.app, pushes)
	if err != nil {
		return err
	}
	if err := w.findBuildSecrets(ctx, line); err != nil {
		return err
	}
	if w.run.Expect != "" {
		recorded, err := w.DB.GroupUnits(ctx, w.app.ID, w.run.Expect)
		w.secrets = slices.DeleteFunc(recorded, func(u store.GroupUnit) bool { return u.Unit.Kind != landfall.SecretUnit })
		return err
	}
	w.secrets = nil
	for _, f := range w.spec.Functions {
		for _, s := range f.Secrets {
			if s.Namespace != "" && s.Namespace != landfall.DefaultNamespace && s.Namespace != w.app.Namespace {
				return &landfall.Error{Op: "pipeline.pin", Kind: landfall.Invalid, Message: fmt.Sprintf(
					"%s: the secret %s is in the namespace %q, and secrets are the app's own: leave the namespace out", s.Pos, s.Name, s.Namespace)}
			}
			u, err := pin(ctx, w.DB, w.app, s.Name, line)
			if err != nil {
				return &landfall.Error{Op: "pipeline.pin", Kind: landfall.KindOf(err), Err: err, Message: fmt.Sprintf(
					"%s: Function %s names %s", s.Pos, f.Name, landfall.MessageOf(err))}
			}
			if !slices.Contains(w.secrets, u) {
				w.secrets = append(w.secrets, u)
			}
		}
	}
	slices.SortFunc(w.secrets, func(a, b store.GroupUnit) int { return strings.Compare(a.Unit.Name, b.Unit.Name) })
	return nil
}

// lineOf returns the line that a commit's release belongs to: production's when production wants it, or, when nobody does, had it.
func (w *worker) lineOf(ctx context.Context, r lineReader, app landfall.App, pushes []landfall.Push) (landfall.Line, error) {
	pt := pointing{app: &app}
	if slices.ContainsFunc(pushes, func(p landfall.Push) bool { return pt.line(p) == landfall.Production }) {
		return landfall.Production, nil
	}
	if len(pushes) > 0 {
		return landfall.Preview, nil
	}
	groups, err := r.GroupsOfCommit(ctx, w.app.ID, string(w.run.Commit))
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		if line, err := lineOf(ctx, r, g); err != nil || line == landfall.Production {
			return line, err
		}
	}
	return landfall.Preview, nil
}

// errPinAgain is what the commit's transaction returns when a secret was set or revoked since the plan, or production came to want
// the commit.
var errPinAgain = &landfall.Error{Op: "pipeline.pin", Kind: landfall.Unavailable,
	Message: "a secret was set or revoked meanwhile, or another branch came to the commit; planning again"}

// checkPinned fails unless the secrets in force are still those of the plan.
func (w *worker) checkPinned(ctx context.Context, tx *store.Tx, app landfall.App, pushes []landfall.Push) error {
	names := w.secretNames()
	if len(names) == 0 || w.run.Expect != "" {
		return nil
	}
	line, err := w.lineOf(ctx, tx, app, pushes)
	if err != nil {
		return err
	}
	for _, name := range names {
		u, err := pin(ctx, tx, app, name, line)
		if ignoreInvalid(err) != nil {
			return err
		}
		if !slices.Contains(w.secrets, u) {
			return errPinAgain
		}
	}
	return nil
}

// ignoreInvalid forgives that there is nothing to pin.
func ignoreInvalid(err error) error {
	if landfall.KindOf(err) == landfall.Invalid {
		return nil
	}
	return err
}

// pinnedStill reports whether a group version has the secrets that a new release of a line would have.
func pinnedStill(ctx context.Context, tx *store.Tx, app landfall.App, units []store.GroupUnit, line landfall.Line) (bool, error) {
	for _, u := range units {
		if u.Unit.Kind != landfall.SecretUnit {
			continue
		}
		now, err := pin(ctx, tx, app, u.Unit.Name, line)
		if err = ignoreInvalid(err); err != nil || now.Digest != u.Digest {
			return false, err
		}
	}
	return true, nil
}
