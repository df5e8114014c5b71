package landfall_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
)

var hostLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

func TestCheckAppName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"abc": true, "a1b": true, "123": true, "shop": true, "my-shop-2": true, "a-b": true, strings.Repeat("a", 40): true,
		"": false, "a": false, "ab": false, strings.Repeat("a", 41): false, "-ab": false, "ab-": false, "a--b": false,
		"Abc": false, "a_b": false, "a.b": false, "a b": false, "äbc": false, "abc\n": false, "../abc": false, "a/b": false,
		"xn--abc": false,
	} {
		err := landfall.CheckAppName(name)
		if got := err == nil; got != want {
			t.Errorf("CheckAppName(%q): got the error %v, want accepted %t", name, err, want)
		}
		if err != nil && landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("CheckAppName(%q): got the kind %s, want %s", name, landfall.KindOf(err), landfall.Invalid)
		}
	}
}

// A name with upper-case letters is refused with the one that would be right.
func TestCheckAppNameOfUpperCase(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"Shop": `write "shop"`, "A_b": "3 to 40 of a-z, 0-9 and -"} {
		if got := landfall.MessageOf(landfall.CheckAppName(name)); !strings.Contains(got, want) {
			t.Errorf("CheckAppName(%q): got %q, want %q in it", name, got, want)
		}
	}
}

func TestSlug(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("abcdefghij", 7)
	for _, c := range []struct {
		name  string
		limit int
		want  string
	}{
		{"beta", 63, "beta"},
		{"feature-x", 63, "feature-x"},
		{"v1.2.0", 63, "v1-2-0-" + landfall.DigestOf([]byte("v1.2.0")).Hex()[:6]},
		{"Beta", 63, "beta-" + landfall.DigestOf([]byte("Beta")).Hex()[:6]},
		{"feature/login", 63, "feature-login-" + landfall.DigestOf([]byte("feature/login")).Hex()[:6]},
		{"a--b", 63, "a-b-" + landfall.DigestOf([]byte("a--b")).Hex()[:6]},
		{"-a", 63, "a-" + landfall.DigestOf([]byte("-a")).Hex()[:6]},
		{"ü", 63, landfall.DigestOf([]byte("ü")).Hex()[:6]},
		{"/", 63, landfall.DigestOf([]byte("/")).Hex()[:6]},
		{long, 63, long[:56] + "-" + landfall.DigestOf([]byte(long)).Hex()[:6]},
		{"abcdefghij-klmnop", 17, "abcdefghij-klmnop"},
		{"abcdefghij-klmnop", 16, "abcdefghi-" + landfall.DigestOf([]byte("abcdefghij-klmnop")).Hex()[:6]},
		{"abcdefgh-ijklmnop", 16, "abcdefgh-" + landfall.DigestOf([]byte("abcdefgh-ijklmnop")).Hex()[:6]}, // no -- at the cut
	} {
		if got := landfall.Slug(c.name, c.limit); got != c.want {
			t.Errorf("Slug(%q, %d): got %q, want %q", c.name, c.limit, got, c.want)
		}
	}
}

// Whatever a tag or a branch is called, its address has a label that DNS allows.
func TestLabels(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		app := rapid.StringMatching(`[a-z0-9]([a-z0-9]{1,38})[a-z0-9]`).Draw(t, "app")
		name := names().Draw(t, "name")
		for what, got := range map[string]string{
			"release": landfall.ReleaseLabel(name), "joined": landfall.JoinedLabel(app, name),
		} {
			if len(got) > 63 || !hostLabel.MatchString(got) {
				t.Fatalf("the %s label of %q: got %q of %d characters, want at most 63 of a-z, 0-9 and inner -", what, name,
					got, len(got))
			}
		}
		if label, want := landfall.JoinedLabel(app, name), app+"--"; !strings.HasPrefix(label, want) {
			t.Fatalf("JoinedLabel: got %q, want it to begin with %q", label, want)
		}
		// What stands between app and release must be found again: it is the only -- of the label.
		if label := landfall.JoinedLabel(app, name); strings.Count(label, "--") != 1 {
			t.Fatalf("JoinedLabel: got %q, want -- once", label)
		}
		if uid := landfall.NewUID(); landfall.ReleaseLabel(string(uid)) != string(uid) {
			t.Fatalf("ReleaseLabel(%q): got %q, want the id itself", uid, landfall.ReleaseLabel(string(uid)))
		}
		if slug := landfall.ReleaseLabel(name); landfall.ReleaseLabel(slug) != slug {
			t.Fatalf("a slug's slug: got %q, want %q", landfall.ReleaseLabel(slug), slug)
		}
	})
}

// Names that look alike, or begin alike, have addresses of their own.
func TestLabelsDiffer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	groups := [][]string{
		{"feature/x", "feature-x", "Feature-X", "feature x", "feature--x", "feature_x", "-feature-x", "feature-x-",
			"FEATURE-X"},
		{long, long + "y", long + "z", long[:64], long[:63]},
		{"ü", "ö", "ä", "é", "日本", "日 本", "/", "//"},
		{"k", "\u212a"}, // the Kelvin sign is a k in lower case
	}
	for _, group := range groups {
		seen := map[string]string{}
		for _, name := range group {
			label := landfall.ReleaseLabel(name)
			if was, taken := seen[label]; taken {
				t.Errorf("%q and %q share the label %q", was, name, label)
			}
			seen[label] = name
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := names().Draw(t, "name")
		twin := strings.ToUpper(name)
		if twin != name && landfall.ReleaseLabel(twin) == landfall.ReleaseLabel(name) {
			t.Fatalf("%q and %q share the label %q", name, twin, landfall.ReleaseLabel(name))
		}
	})
}

// names are tags and branches: of few characters, so that they look alike often, and of any.
func names() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringMatching(`[a-cA-C0-2/._-]{1,80}`), rapid.StringN(1, 80, -1))
}

// Who gives a version a name that cannot be is told every character that cannot be in it.
func TestUnfitNameTellsTheCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"/", ",", "=", "?", "#", "%"} {
		if got := landfall.UnfitName("a" + c + "b"); !strings.Contains(got, c) {
			t.Errorf("UnfitName: got %q for a name with %s, want it named", got, c)
		}
	}
	if got := landfall.UnfitName("a b"); !strings.Contains(got, "spaces") {
		t.Errorf("UnfitName: got %q for a name with a space, want spaces named", got)
	}
}
