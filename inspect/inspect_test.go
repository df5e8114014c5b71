package inspect_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/disk"
	"landfall.dev/landfall/inspect"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/versioning"
)

var (
	static   = landfall.UnitID{Kind: landfall.StaticUnit, Name: "/"}
	packaged = landfall.UnitID{Kind: landfall.PackageUnit, Name: "cart"}
	app      = landfall.App{ID: "app", Namespace: landfall.DefaultNamespace, Name: "shop", Branch: "main",
		Objects: "apps/app/"}
)

// world is an app whose versions are stored as the pipeline does.
type world struct {
	t        *testing.T
	contents *inspect.Contents
}

func newWorld(t *testing.T) *world {
	t.Helper()
	objects := testkit.Must(disk.Open(t.TempDir()))(t)
	t.Cleanup(func() { _ = objects.Close() })
	w := &world{t, &inspect.Contents{DB: storetest.Open(t, storetest.SQLite(t)), Objects: objects,
		Manifests: &assets.Manifests{Store: objects}}}
	w.update(func(ctx context.Context, tx *store.Tx) error {
		err := errors.Join(tx.EnsureNamespace(ctx, app.Namespace, 0), tx.CreateApp(ctx, app))
		for _, id := range []landfall.UnitID{static, packaged} {
			_, made := tx.CreateUnit(ctx, app, id)
			err = errors.Join(err, made)
		}
		return err
	})
	return w
}

func (w *world) update(f func(ctx context.Context, tx *store.Tx) error) {
	w.t.Helper()
	if err := w.contents.DB.Update(w.t.Context(), func(tx *store.Tx) error { return f(w.t.Context(), tx) }); err != nil {
		w.t.Fatal(err)
	}
}

// version stores a version of a unit, and returns it as it is in force. Without content nothing of it is stored.
func (w *world) version(id landfall.UnitID, uid landfall.UID, content any) store.GroupUnit {
	w.t.Helper()
	u := store.GroupUnit{GroupUnit: landfall.GroupUnit{Unit: id, UID: uid, Digest: landfall.DigestOf([]byte(uid))}}
	w.update(func(ctx context.Context, tx *store.Tx) error {
		row, err := tx.Unit(ctx, app, id)
		if err != nil {
			return err
		}
		row.LastNumber++
		u.UnitID, u.Number = row.ID, row.LastNumber
		v := landfall.Version{Number: u.Number, UID: uid, Digest: u.Digest, Spec: json.RawMessage(`{}`), Created: time.Now()}
		if content != nil {
			v.Content = testkit.Encode(w.t, content)
		}
		return errors.Join(tx.UpdateUnit(ctx, row), tx.CreateVersion(ctx, row.ID, v))
	})
	return u
}

// pages stores a version of the static unit with files: name and text.
func (w *world) pages(uid landfall.UID, files map[string]string) store.GroupUnit {
	w.t.Helper()
	var listed []landfall.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		listed = append(listed, landfall.File{Path: name, Mode: landfall.Regular,
			Digest: landfall.DigestOf([]byte(files[name])), Size: int64(len(files[name]))})
	}
	units, _, err := assets.Select([]assets.Rule{{Src: ".", Path: "/"}}, listed)
	if err != nil {
		w.t.Fatal(err)
	}
	uploader := assets.Uploader{Store: w.contents.Objects,
		Read: func(_ context.Context, f landfall.File) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader([]byte(files[f.Path]))), nil
		}}
	_, result, err := uploader.Upload(w.t.Context(), assets.Plan(units[0], assets.Prefix(app.Objects, "/", uid)))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.version(static, uid, landfall.StaticContent{Manifest: result.Manifest.Key, Digest: result.Manifest.Digest})
}

// archive stores a version of the package with files: name and text.
func (w *world) archive(uid landfall.UID, files map[string]string) store.GroupUnit {
	w.t.Helper()
	var data bytes.Buffer
	z := zip.NewWriter(&data)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_ = testkit.Must(io.WriteString(testkit.Must(z.Create(name))(w.t), files[name]))(w.t)
	}
	if err := z.Close(); err != nil {
		w.t.Fatal(err)
	}
	key := "apps/app/packages/cart/" + string(uid) + "/deploy.zip"
	digest := testkit.Must(w.contents.Objects.Create(w.t.Context(), key, bytes.NewReader(data.Bytes()),
		int64(data.Len())))(w.t)
	return w.version(packaged, uid,
		landfall.PackageContent{Deployment: &landfall.Archive{Key: key, Digest: digest, Size: int64(data.Len())}})
}

// releases returns what is in force in two group versions that differ in files.
func (w *world) releases() (before, after []store.GroupUnit) {
	w.t.Helper()
	before = []store.GroupUnit{
		w.pages("aaaaaaaa", map[string]string{"index.html": "one", "about.html": "about", "old.html": "old"}),
		w.archive("aaaaaaaa", map[string]string{"main.py": "1", "same.py": "same"}),
	}
	return before, []store.GroupUnit{
		w.pages("bbbbbbbb", map[string]string{"index.html": "number two", "about.html": "about", "new.html": "new!"}),
		w.archive("bbbbbbbb", map[string]string{"main.py": "22", "same.py": "same", "more.py": ""}),
	}
}

// A release consists of its static files, by path; what was collected is told so.
func TestFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, _ := w.releases()
	var paths []string
	for _, f := range testkit.Must(w.contents.Files(t.Context(), before))(t) {
		paths = append(paths, f.Unit+" "+f.Path)
	}
	testkit.EqualList(t, "files", paths, []string{"/ /about.html", "/ /index.html", "/ /old.html"})
	none := testkit.Must(w.contents.Files(t.Context(), nil))(t)
	testkit.Equal(t, "files of no unit", len(none), 0)
	_, err := w.contents.Files(t.Context(), []store.GroupUnit{w.version(static, "cccccccc", nil)})
	testkit.Kind(t, "what was collected", err, landfall.NotFound, "its files are not stored any more")
}

// Two releases differ in units, each with how many files were added, changed and removed, and in bytes.
func TestDiff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, after := w.releases()
	diff := func(before, after []store.GroupUnit) map[landfall.UnitID]landfall.UnitChange {
		t.Helper()
		all := map[landfall.UnitID]landfall.UnitChange{}
		for _, c := range testkit.Must(w.contents.Diff(t.Context(), before, after))(t) {
			all[c.Unit] = c
		}
		return all
	}
	for name, test := range map[string]struct {
		before, after []store.GroupUnit
		change        landfall.ChangeKind
		pages, files  *landfall.FileChange
	}{
		"forth": {before, after, landfall.Changed, &landfall.FileChange{Added: 1, Changed: 1, Removed: 1, Bytes: 8},
			&landfall.FileChange{Added: 1, Changed: 1, Bytes: 1}},
		"back": {after, before, landfall.Changed, &landfall.FileChange{Added: 1, Changed: 1, Removed: 1, Bytes: -8},
			&landfall.FileChange{Changed: 1, Removed: 1, Bytes: -1}},
		"nothing": {before, before, landfall.Unchanged, nil, nil},
		"the first": {nil, before, landfall.Added, &landfall.FileChange{Added: 3, Bytes: 11},
			&landfall.FileChange{Added: 2, Bytes: 5}},
		"gone": {before, nil, landfall.Removed, &landfall.FileChange{Removed: 3, Bytes: -11},
			&landfall.FileChange{Removed: 2, Bytes: -5}},
	} {
		got := diff(test.before, test.after)
		testkit.Equal(t, name+": change", got[static].Change, test.change)
		testkit.Same(t, name+": pages", got[static].Files, test.pages)
		testkit.Same(t, name+": files of the package", got[packaged].Files, test.files)
	}
	collected := []store.GroupUnit{w.version(static, "cccccccc", nil), before[1]}
	got := diff(collected, after)
	testkit.Same(t, "files beside what was collected", got[static].Files, nil)
	testkit.Equal(t, "change beside what was collected", got[static].Change, landfall.Changed)
	testkit.Same(t, "the other unit", got[packaged].Files, &landfall.FileChange{Added: 1, Changed: 1, Bytes: 1})
}

// Each file that differs is listed with its sizes, unit by unit, by path; a unit of which a side was collected is left
// out.
func TestChangedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, after := w.releases()
	changes := testkit.Must(w.contents.Diff(t.Context(), before, after))(t)
	all := testkit.Must(w.contents.ChangedFiles(t.Context(), app, changes))(t)
	slices.SortStableFunc(all, func(a, b landfall.ChangedFile) int {
		return bytes.Compare([]byte(b.Unit.Kind), []byte(a.Unit.Kind))
	})
	testkit.EqualList(t, "files", all, []landfall.ChangedFile{
		{Unit: static, Path: "/index.html", Change: landfall.Changed, Before: 3, After: 10},
		{Unit: static, Path: "/new.html", Change: landfall.Added, After: 4},
		{Unit: static, Path: "/old.html", Change: landfall.Removed, Before: 3},
		{Unit: packaged, Path: "deployment/main.py", Change: landfall.Changed, Before: 1, After: 2},
		{Unit: packaged, Path: "deployment/more.py", Change: landfall.Added},
	})
	changes = testkit.Must(w.contents.Diff(t.Context(), []store.GroupUnit{w.version(static, "cccccccc", nil)},
		after[:1]))(t)
	testkit.Equal(t, "files beside what was collected",
		len(testkit.Must(w.contents.ChangedFiles(t.Context(), app, changes))(t)), 0)
}

// The specs of versions, as they are stored.
const (
	functionSpec    = `{"environment":{"name":"python"}}`
	networked       = `{"environment":{"name":"python"},"allowAccessToExternalNetwork":true}`
	promised        = `{"environment":{"name":"python"},"contract":{"input":{"type":"object"}}}`
	environmentSpec = `{}`
)

// Of a function that changes, it is noted that it gets a network, and that it takes or answers other data.
func TestNoteFunctions(t *testing.T) {
	t.Parallel()
	id := landfall.UnitID{Kind: landfall.FunctionUnit, Name: "cart"}
	environment := landfall.UnitID{Kind: landfall.EnvironmentUnit, Name: "python"}
	side := func(function, env string) inspect.Side {
		var units []versioning.Unit
		for id, text := range map[landfall.UnitID]string{id: function, environment: env} {
			if text != "" {
				units = append(units, versioning.Unit{Declared: versioning.Declared{Unit: id, Spec: json.RawMessage(text)}})
			}
		}
		return inspect.Declared(units)
	}
	plain := side(functionSpec, environmentSpec)
	for name, test := range map[string]struct {
		change            landfall.ChangeKind
		before, after     inspect.Side
		network, contract bool
	}{
		"nothing new":        {landfall.Changed, plain, plain, false, false},
		"a network":          {landfall.Changed, plain, side(networked, environmentSpec), true, false},
		"a network at first": {landfall.Added, side("", ""), side(networked, environmentSpec), true, false},
		"a network as before": {landfall.Changed, side(networked, environmentSpec), side(networked, environmentSpec),
			false, false},
		"no network any more": {landfall.Changed, side(networked, environmentSpec), plain, false, false},
		"its environment's": {landfall.Changed, plain, side(functionSpec, `{"allowAccessToExternalNetwork":true}`),
			true, false},
		"another contract": {landfall.Changed, plain, side(promised, environmentSpec), false, true},
		"the same contract": {landfall.Changed, side(promised, environmentSpec), side(promised, environmentSpec),
			false, false},
		"unchanged":           {landfall.Unchanged, plain, side(networked, environmentSpec), false, false},
		"removed":             {landfall.Removed, plain, side("", ""), false, false},
		"a contract at first": {landfall.Added, side("", ""), side(promised, environmentSpec), false, false},
	} {
		changes := []landfall.UnitChange{{Unit: id, Change: test.change}}
		if err := inspect.NoteFunctions(changes, test.before, test.after); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		testkit.Equal(t, name+": network", changes[0].Network, test.network)
		testkit.Equal(t, name+": contract", changes[0].Contract, test.contract)
	}
}

// Of the configuration, a trigger and a function it is told which keys differ, with both values.
func TestKeysOfADiff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := landfall.UnitID{Kind: landfall.ConfigUnit, Name: landfall.ConfigName}
	trigger := landfall.UnitID{Kind: landfall.HTTPTrigger, Name: "buy"}
	function := landfall.UnitID{Kind: landfall.FunctionUnit, Name: "cart"}
	made := func(id landfall.UnitID, uid landfall.UID, spec string) store.GroupUnit {
		u := store.GroupUnit{GroupUnit: landfall.GroupUnit{Unit: id, UID: uid, Digest: landfall.DigestOf([]byte(spec))}}
		w.update(func(ctx context.Context, tx *store.Tx) error {
			row, err := tx.Unit(ctx, app, id)
			if landfall.Is(err, landfall.NotFound) {
				row, err = tx.CreateUnit(ctx, app, id)
			}
			if err != nil {
				return err
			}
			row.LastNumber++
			u.UnitID, u.Number = row.ID, row.LastNumber
			return errors.Join(tx.UpdateUnit(ctx, row), tx.CreateVersion(ctx, row.ID, landfall.Version{Number: u.Number,
				UID: uid, Digest: u.Digest, Spec: json.RawMessage(spec), Created: time.Now()}))
		})
		return u
	}
	before := []store.GroupUnit{made(config, "aaaaaaaa", `{"currency":"EUR","old":1}`),
		made(function, "aaaaaaaa", `{"environment":{"name":"python"},"timeout":1}`)}
	after := []store.GroupUnit{made(config, "bbbbbbbb", `{"currency":"CHF","new":[2]}`),
		made(function, "bbbbbbbb", `{"environment":{"name":"python"},"timeout":2}`),
		made(trigger, "bbbbbbbb", `{"relativeurl":"/buy"}`)}
	keys := func(before, after []store.GroupUnit) map[landfall.UnitID][]landfall.KeyChange {
		all := map[landfall.UnitID][]landfall.KeyChange{}
		for _, c := range testkit.Must(w.contents.Diff(t.Context(), before, after))(t) {
			all[c.Unit] = c.Keys
		}
		return all
	}
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	testkit.Same(t, "keys", keys(before, after), map[landfall.UnitID][]landfall.KeyChange{
		config: {{Key: "currency", Before: raw(`"EUR"`), After: raw(`"CHF"`)}, {Key: "new", After: raw(`[2]`)},
			{Key: "old", Before: raw(`1`)}},
		function: {{Key: "timeout", Before: raw(`1`), After: raw(`2`)}},
		trigger:  {{Key: "relativeurl", After: raw(`"/buy"`)}},
	})
	testkit.Same(t, "keys of the same", keys(after, after)[config], nil)
}
