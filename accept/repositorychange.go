package accept

import (
	"context"
	"fmt"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// followRepository lets apps follow a change of their repository, and says what became of each. A rename and a transfer
// are followed by whatever names the repository.
func (r WebhookReceiver) followRepository(ctx context.Context, tx *store.Tx, apps []landfall.App,
	change webhook.RepositoryChange) (decision string, err error) {
	var said []string
	for _, app := range apps {
		one := ""
		switch {
		case change.To != "":
			one, err = followDefault(ctx, tx, app, change.From, change.To)
		case change.Action == "privatized":
			one, err = hidePreviews(ctx, tx, app)
		case change.Action == "deleted":
			app.Gone = r.Now()
			one, err = Stopped(app), tx.UpdateApp(ctx, app)
		}
		if err != nil {
			return "", err
		}
		if one != "" {
			said = append(said, one)
		}
	}
	return strings.Join(said, " "), nil
}

// followDefault makes another default branch of an app's repository its production branch, when that was found as the
// default branch; otherwise it says how a person does it.
func followDefault(ctx context.Context, tx *store.Tx, app landfall.App, from, to string) (string, error) {
	if app.Branch != from || from == to {
		return "", nil
	}
	if !app.BranchFound {
		return fmt.Sprintf("The production branch of the app %q stays %s, which somebody chose: landfall app set %[1]s "+
			"--branch %[3]s makes it that one.", app.Name, from, to), nil
	}
	app.Branch = to
	return fmt.Sprintf("So is the production branch of the app %q; live stays where it is until the next push to it.",
		app.Name), tx.UpdateApp(ctx, app)
}

// followHead does the same when no delivery told of the default branch that a repository has.
func followHead(ctx context.Context, tx *store.Tx, app landfall.App, named map[landfall.RefName]landfall.CommitSHA,
	head landfall.RefName) error {
	branch, ok := head.Branch()
	if _, there := named[head]; !ok || !there || !app.BranchFound || branch == app.Branch {
		return nil
	}
	now, err := tx.ActiveApp(ctx, app.ID)
	if err != nil || !now.BranchFound {
		return err
	}
	now.Branch = branch
	return tx.UpdateApp(ctx, now)
}

// hidePreviews shows an app's releases that are not live only to who is signed in, since its repository is private now.
func hidePreviews(ctx context.Context, tx *store.Tx, app landfall.App) (string, error) {
	if app.Previews != landfall.PreviewsPublic {
		return "", nil
	}
	app.Previews = landfall.PreviewsSignedIn
	if err := tx.UpdateApp(ctx, app); err != nil {
		return "", err
	}
	_, err := tx.Changed(ctx, app.ID)
	return fmt.Sprintf("So the releases of the app %q that are not live are shown only to people who are signed in; "+
		"landfall app set %[1]s --previews public ends that.", app.Name), err
}
