package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testApps(t *testing.T, open opener) {
	t.Helper()
	t.Run("an app is what was stored", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		zoo, app := fullApp("zoo"), fullApp("shop")
		update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(ctx, "default", noon.UnixMicro()) })
		for _, a := range []landfall.App{zoo, app} {
			update(t, db, func(tx *store.Tx) error { return tx.CreateApp(ctx, a) })
		}
		testkit.Same(t, "by id", testkit.Must(db.App(ctx, app.ID))(t), app)
		testkit.Same(t, "by name", testkit.Must(db.AppByName(ctx, "shop"))(t), app)
		testkit.Same(t, "by name order", testkit.Must(db.Apps(ctx))(t), []landfall.App{app, zoo})
	})
	t.Run("an empty app is what was stored", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		app := newApp(t, db, "shop")
		testkit.Same(t, "App", testkit.Must(db.App(t.Context(), app.ID))(t), app)
	})
	t.Run("what may change changes, and nothing else", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "zoo")
		changed := fullApp("changed")
		changed.ID, changed.Deleted = app.ID, after(1)
		update(t, db, func(tx *store.Tx) error { return tx.UpdateApp(ctx, changed) })
		want := app
		want.Branch, want.Policy, want.Live, want.Held, want.GitHub, want.Deleted, want.Previews, want.KeepFiles =
			changed.Branch, changed.Policy, changed.Live, changed.Held, changed.GitHub, changed.Deleted, changed.Previews,
			changed.KeepFiles
		want.Repository, want.MovedTo = changed.Repository, changed.MovedTo
		testkit.Same(t, "the changed app", testkit.Must(db.App(ctx, app.ID))(t), want)
		testkit.Same(t, "the other app", testkit.Must(db.App(ctx, other.ID))(t), other)
	})
	t.Run("a namespace goes only without apps", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(ctx, "team", noon.UnixMicro()) })
		testkit.Same(t, "the namespace", testkit.Must(db.Namespace(ctx, "team"))(t),
			store.Namespace{Name: "team", Created: noon})
		_, err := db.Namespace(ctx, "shop")
		testkit.Kind(t, "an app as a namespace", err, landfall.NotFound, "shop")
		err = db.Update(ctx, func(tx *store.Tx) error { return tx.EnsureNamespace(ctx, "shop", 1) })
		testkit.Kind(t, "a namespace with an app's name", err, landfall.Conflict, "shop", "share their names")
		gone := func(name string) error {
			return db.Update(ctx, func(tx *store.Tx) error { return tx.DeleteNamespace(ctx, name, noon.UnixMicro()) })
		}
		testkit.Kind(t, "one with an app", gone(app.Namespace), landfall.Conflict, "it has 1 of them")
		app.Deleted = after(1)
		update(t, db, func(tx *store.Tx) error { return tx.UpdateApp(ctx, app) })
		for what, name := range map[string]string{"one without": "team", "one with a deleted app": app.Namespace} {
			if err := gone(name); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			_, err = db.Namespace(ctx, name)
			testkit.Kind(t, what+", deleted", err, landfall.NotFound, name)
		}
		testkit.Same(t, "the namespaces", len(testkit.Must(db.Namespaces(ctx))(t)), 0)
		testkit.Same(t, "the deleted app", testkit.Must(db.App(ctx, app.ID))(t), app)
		update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(ctx, app.Namespace, after(2).UnixMicro()) })
		testkit.Same(t, "the namespace that is there again", testkit.Must(db.Namespace(ctx, app.Namespace))(t),
			store.Namespace{Name: app.Namespace, Created: after(2)})
		again := fullApp(app.Name)
		again.Namespace, again.ID = app.Namespace, uuid.NewString()
		err = db.Update(ctx, func(tx *store.Tx) error { return tx.CreateApp(ctx, again) })
		testkit.Kind(t, "an app of a name that was taken in it", err, landfall.Conflict, "stay reserved")
	})
	t.Run("annotations are beside versions", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		u := newUnit(t, db, app, static("/"))
		testkit.Same(t, "of a unit without versions", testkit.Must(db.UnitNotes(ctx, u.ID))(t), store.Notes{})
		v := newVersion(t, db, u, "aaaaaaaa", true)
		update(t, db, func(tx *store.Tx) error { return tx.AnnotateUnit(ctx, u.ID, `{"a":1}`) })
		update(t, db, func(tx *store.Tx) error { return tx.AnnotateApp(ctx, app.ID, `{"b":2}`) })
		testkit.Same(t, "of a unit", testkit.Must(db.UnitNotes(ctx, u.ID))(t),
			store.Notes{Annotations: `{"a":1}`, Created: v.Created})
		testkit.Same(t, "of an app", testkit.Must(db.AppAnnotations(ctx, app.ID))(t), `{"b":2}`)
		testkit.Same(t, "the version", testkit.Must(db.VersionByNumber(ctx, u.ID, v.Number))(t), v)
	})
	t.Run("a name is taken for ever, by apps and by namespaces", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		app.Deleted = after(1)
		update(t, db, func(tx *store.Tx) error { return tx.UpdateApp(ctx, app) })
		update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(ctx, "team", noon.UnixMicro()) })
		for _, name := range []string{"shop", "team", "default"} {
			again := landfall.App{ID: uuid.NewString(), Namespace: "default", Name: name, Created: noon, UIDSpace: uuid.New()}
			err := db.Update(ctx, func(tx *store.Tx) error { return tx.CreateApp(ctx, again) })
			testkit.Kind(t, "an app "+name, err, landfall.Conflict, name, "taken")
		}
		if got := len(testkit.Must(db.Apps(ctx))(t)); got != 1 {
			t.Errorf("apps: got %d, want 1", got)
		}
	})
	t.Run("a namespace can be ensured twice", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		for i := range 2 {
			update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(t.Context(), "team", int64(i)) })
		}
	})
	t.Run("an app needs its namespace", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		err := db.Update(t.Context(), func(tx *store.Tx) error { return tx.CreateApp(t.Context(), fullApp("shop")) })
		testkit.Kind(t, "CreateApp", err, landfall.Conflict)
	})
	t.Run("credentials", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "zoo")
		testkit.Same(t, "at first", testkit.Must(db.Credentials(ctx, app.ID))(t), store.Credentials{})
		want := store.Credentials{Username: "u", Token: []byte{0, 1, 255}, TokenSet: noon}
		update(t, db, func(tx *store.Tx) error { return tx.SetCredentials(ctx, app.ID, want) })
		update(t, db, func(tx *store.Tx) error { return tx.UpdateApp(ctx, app) })
		testkit.Same(t, "set", testkit.Must(db.Credentials(ctx, app.ID))(t), want)
		testkit.Same(t, "of another app", testkit.Must(db.Credentials(ctx, other.ID))(t), store.Credentials{})
		testkit.Same(t, "apps with an open password", len(testkit.Must(db.OpenCredentials(ctx))(t)), 0)
		update(t, db, func(tx *store.Tx) error {
			return tx.SetCredentials(ctx, other.ID, store.Credentials{Password: "as earlier versions stored it"})
		})
		testkit.Same(t, "apps with an open password", testkit.Must(db.OpenCredentials(ctx))(t), []string{other.ID})
	})
}

// testDoors is about what the doors keep: tokens, hooks, deliveries.
func testDoors(t *testing.T, open opener) {
	t.Helper()
	t.Run("tokens", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		token := landfall.Token{Hash: landfall.DigestOf([]byte("secret")), Name: "ci", Scope: landfall.ScopeDeploy, App: "a",
			Created: noon}
		update(t, db, func(tx *store.Tx) error { return tx.PutToken(ctx, token) })
		testkit.Same(t, "by its text", testkit.Must(db.Token(ctx, "secret", noon))(t), token)
		kindOfNothing(t, db)
		db.Noted()
		token.Scope, token.App, token.Used = landfall.ScopeAdmin, "", noon
		update(t, db, func(tx *store.Tx) error { return tx.PutToken(ctx, token) })
		testkit.Same(t, "put again", testkit.Must(db.Token(ctx, "secret", noon))(t), token)
		other := landfall.Token{Hash: landfall.DigestOf([]byte("other")), Name: "x", Scope: landfall.ScopeRead, Created: noon}
		update(t, db, func(tx *store.Tx) error { return tx.PutToken(ctx, other) })
		token.Hash, token.Used = landfall.DigestOf([]byte("new")), time.Time{}
		for range 2 {
			update(t, db, func(tx *store.Tx) error { return tx.ReplaceToken(ctx, token) })
			testkit.Same(t, "replaced", testkit.Must(db.Token(ctx, "new", noon))(t), token)
			db.Noted()
			token.Used = noon
		}
		_, err := db.Token(ctx, "secret", noon)
		testkit.Kind(t, "a replaced token", err, landfall.NotFound)
		testkit.Same(t, "of another name", testkit.Must(db.Token(ctx, "other", noon))(t), other)
	})
	t.Run("nobody who uses a token waits for a write", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		token := landfall.Token{Hash: landfall.DigestOf([]byte("secret")), Name: "ci", Scope: landfall.ScopeRead, Created: noon}
		update(t, db, func(tx *store.Tx) error { return tx.PutToken(ctx, token) })
		update(t, db, func(*store.Tx) error { // nobody else can write meanwhile
			testkit.Same(t, "during a long transaction", testkit.Must(db.Token(ctx, "secret", noon))(t), token)
			return nil
		})
		db.Noted()
		testkit.Equal(t, "last use", testkit.Must(db.Token(ctx, "secret", noon))(t).Used.UTC(), noon.UTC())
	})
	t.Run("who closes waits for no note", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		token := landfall.Token{Hash: landfall.DigestOf([]byte("secret")), Name: "ci", Scope: landfall.ScopeRead,
			Created: noon}
		update(t, db, func(tx *store.Tx) error { return tx.PutToken(ctx, token) })
		update(t, db, func(tx *store.Tx) error { // the note waits for this transaction
			token.Scope = landfall.ScopeAdmin
			err := tx.PutToken(ctx, token)
			testkit.Must(db.Token(ctx, "secret", noon))(t)
			db.EndNotes()
			return err
		})
		kept := testkit.Must(db.Token(ctx, "secret", noon))(t)
		token.Used = kept.Used // a database that is told too late to give up notes it
		testkit.Same(t, "in force all the same", kept, token)
	})
	t.Run("tokens that end", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		shop, zoo := newApp(t, db, "shop"), newApp(t, db, "zoo")
		team := landfall.Token{Hash: landfall.DigestOf([]byte("team's")), Name: "team", Scope: landfall.ScopeRead,
			Namespace: shop.Namespace, Created: noon, Expires: noon.Add(time.Hour)}
		lone := landfall.Token{Hash: landfall.DigestOf([]byte("lone's")), Name: "lone", Scope: landfall.ScopeRead,
			Namespace: "lone", Created: noon}
		update(t, db, func(tx *store.Tx) error {
			return errors.Join(tx.EnsureNamespace(ctx, "lone", 0), tx.PutToken(ctx, team), tx.PutToken(ctx, lone))
		})
		got := testkit.Must(db.Token(ctx, "team's", noon))(t)
		slices.Sort(got.Apps)
		team.Apps = slices.Sorted(slices.Values([]string{shop.ID, zoo.ID}))
		testkit.Same(t, "for a namespace", got, team)
		// the use is noted once in ten minutes
		for _, minutes := range [][2]int{{5, 0}, {15, 15}, {20, 15}} {
			at, want := noon.Add(time.Duration(minutes[0])*time.Minute), noon.Add(time.Duration(minutes[1])*time.Minute)
			testkit.Must(db.Token(ctx, "team's", at))(t)
			db.Noted()
			got := testkit.Must(db.Token(ctx, "team's", at))(t).Used
			testkit.Equal(t, "last use", got.UTC(), want.UTC())
		}
		_, err := db.Token(ctx, "team's", team.Expires)
		testkit.Kind(t, "an expired token", err, landfall.Unauthorized)
		if err == nil || !strings.Contains(err.Error(), "the token team expired on ") {
			t.Errorf("got %v, want when the token expired", err)
		}
		update(t, db, func(tx *store.Tx) error {
			return tx.CreateSession(ctx, "cookie", team, noon, team.Expires.Add(time.Second))
		})
		testkit.Must(db.SessionToken(ctx, "cookie", team.Expires.Add(-time.Second)))(t)
		_, err = db.SessionToken(ctx, "cookie", team.Expires)
		testkit.Kind(t, "a session of an expired token", err, landfall.Unauthorized)
		update(t, db, func(tx *store.Tx) error { return tx.DeleteNamespace(ctx, "lone", noon.UnixMicro()) })
		_, err = db.Token(ctx, "lone's", noon)
		testkit.Kind(t, "a token of a deleted namespace", err, landfall.NotFound)
		testkit.Equal(t, "tokens", len(testkit.Must(db.Tokens(ctx))(t)), 1)
		update(t, db, func(tx *store.Tx) error { return tx.ForgetToken(ctx, "team") })
		_, err = db.SessionToken(ctx, "cookie", noon)
		testkit.Kind(t, "a session of a deleted token", err, landfall.NotFound)
	})
	t.Run("hooks", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "zoo")
		first, second := landfall.Hook{ID: "h2", App: app.ID, Secret: "s"}, landfall.Hook{ID: "h1", App: app.ID, Secret: "t"}
		update(t, db, func(tx *store.Tx) error { return tx.CreateHook(ctx, first, after(1).UnixMicro()) })
		update(t, db, func(tx *store.Tx) error { return tx.CreateHook(ctx, second, after(2).UnixMicro()) })
		testkit.Same(t, "by id", testkit.Must(db.Hook(ctx, "h1"))(t), second)
		testkit.Same(t, "of the app", testkit.Must(db.HookOf(ctx, app.ID))(t), first)
		_, err := db.Hook(ctx, "h3")
		testkit.Kind(t, "no hook", err, landfall.NotFound)
		_, err = db.HookOf(ctx, other.ID)
		testkit.Kind(t, "no hook of the app", err, landfall.NotFound)
	})
	t.Run("deliveries", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		d := landfall.Delivery{Hook: "h", ID: "1", Event: "push", Digest: landfall.DigestOf(nil), Decision: "It made a run.",
			Received: noon, Runs: []string{"r1", "r2"}}
		none := landfall.Delivery{ID: "1", Event: "ping", Received: after(1)}
		for _, d := range []landfall.Delivery{d, none} {
			update(t, db, func(tx *store.Tx) error { return tx.CreateDelivery(ctx, d) })
		}
		testkit.Same(t, "of a hook", testkit.Must(db.Delivery(ctx, "h", "1"))(t), d)
		testkit.Same(t, "of the installation", testkit.Must(db.Delivery(ctx, "", "1"))(t), none)
		testkit.Same(t, "newest first", testkit.Must(db.Deliveries(ctx, landfall.Delivery{}, 2))(t), []landfall.Delivery{none, d})
		testkit.Same(t, "the newest", testkit.Must(db.Deliveries(ctx, landfall.Delivery{}, 1))(t), []landfall.Delivery{none})
		shared := landfall.Delivery{ID: "2", Event: "push", Received: after(2), Repository: 7}
		foreign := landfall.Delivery{ID: "3", Event: "push", Received: after(3), Repository: 8}
		others := landfall.Delivery{Hook: "g", ID: "2", Event: "push", Received: after(4), Repository: 7}
		for _, d := range []landfall.Delivery{foreign, others} {
			update(t, db, func(tx *store.Tx) error { return tx.CreateDelivery(ctx, d, "another") })
		}
		update(t, db, func(tx *store.Tx) error { return tx.CreateDelivery(ctx, shared, "one", "another") })
		testkit.Same(t, "to a hook, and for its app", testkit.Must(db.DeliveriesOf(ctx, "one", "h", landfall.Delivery{}, 5))(t),
			[]landfall.Delivery{shared, d})
		testkit.Same(t, "to a hook", testkit.Must(db.DeliveriesOf(ctx, "none", "h", landfall.Delivery{}, 5))(t), []landfall.Delivery{d})
		update(t, db, func(tx *store.Tx) error { return tx.DeleteDelivery(ctx, "", shared.ID) })
		update(t, db, func(tx *store.Tx) error { return tx.CreateDelivery(ctx, shared) })
		testkit.Same(t, "when it came again, and was for nobody", testkit.Must(db.DeliveriesOf(ctx, "one", "h", landfall.Delivery{}, 5))(t),
			[]landfall.Delivery{d})
		again := d
		again.Decision = "It made another run."
		err := db.Update(ctx, func(tx *store.Tx) error { return tx.CreateDelivery(ctx, again) })
		// The same delivery is stored once
		testkit.Kind(t, "the same delivery again", err, landfall.Conflict)
		testkit.Same(t, "after the repeat", testkit.Must(db.Delivery(ctx, "h", "1"))(t), d)
		_, err = db.Delivery(ctx, "h", "2")
		testkit.Kind(t, "a new delivery", err, landfall.NotFound)
	})
	t.Run("deliveries that act on nothing", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		hook := landfall.Hook{ID: "h", App: newApp(t, db, "shop").ID, Secret: "s"}
		update(t, db, func(tx *store.Tx) error { return tx.CreateHook(ctx, hook, after(1).UnixMicro()) })
		for _, c := range []struct {
			hook, id, secret string
			want             bool
		}{
			{"h", "1", "s", true}, {"h", "1", "s", false}, {"h", "2", "t", false}, {"h", "2", "", false}, {"h", "2", "s", true},
			{"g", "1", "s", false}, {"", "1", "of the installation", true}, {"", "1", "of the installation", false},
		} {
			d := landfall.Delivery{Hook: c.hook, ID: c.id, Event: "star", Digest: landfall.DigestOf(nil),
				Decision: "It's only kept.", Received: noon, Repository: 7}
			update(t, db, func(tx *store.Tx) error {
				again := d
				if !c.want {
					again.Decision = "never"
				}
				got, err := tx.RecordDelivery(ctx, again, c.secret)
				if got != c.want {
					t.Errorf("%+v: got %t", c, got)
				}
				return err
			})
			stored, err := db.Delivery(ctx, c.hook, c.id)
			if c.want || err == nil {
				testkit.Same(t, "stored", stored, d)
			}
		}
	})
}

func kindOfNothing(t *testing.T, db *store.DB) {
	t.Helper()
	for _, text := range []string{"", "Secret", string(landfall.DigestOf([]byte("secret")))} {
		_, err := db.Token(t.Context(), text, time.Now())
		testkit.Kind(t, "the token "+text, err, landfall.NotFound)
	}
}

// What a token allows, by its scope and its app.
func TestTokenAllows(t *testing.T) {
	t.Parallel()
	scopes := []landfall.Scope{landfall.ScopeRead, landfall.ScopeInvoke, landfall.ScopeDeploy, landfall.ScopeAdmin}
	allowed := map[landfall.Scope][]bool{ // in the order of scopes
		landfall.ScopeRead:   {true, false, false, false},
		landfall.ScopeInvoke: {false, true, false, false},
		landfall.ScopeDeploy: {true, false, true, false},
		landfall.ScopeAdmin:  {true, true, true, true},
		"":                   {false, false, false, false},
	}
	for scope, want := range allowed {
		for i, asked := range scopes {
			for _, c := range []struct {
				own, app string
				fits     bool
			}{{"", "", true}, {"", "a", true}, {"a", "a", true}, {"a", "b", false}, {"a", "", false}} {
				token := landfall.Token{Scope: scope, App: c.own}
				if got := token.Allows(asked, c.app); got != (want[i] && c.fits) {
					t.Errorf("a token of scope %q for app %q is asked for %q on app %q: got %t, want %t", scope, c.own, asked, c.app,
						got, want[i] && c.fits)
				}
			}
		}
	}
}
