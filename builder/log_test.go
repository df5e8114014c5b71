package builder_test

import (
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/test/testkit"
)

// The commits between two are those that git log FROM..TO lists, also across merges and between branches.
func TestLog(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	tree := origin.files(map[string]string{"f": "1"})
	root := origin.commitTree(tree, "root")
	one := origin.commitTree(tree, "one\n\nWith a body.", root)
	side := origin.commitTree(tree, "side", root)
	merge := origin.commitTree(tree, "merge", one, side)
	end := origin.commitTree(tree, "end", merge)
	all := mirrors(t)
	for name, test := range map[string]struct {
		from, to landfall.CommitSHA
		want     []string
	}{
		"a line":          {root, one, []string{"one"}},
		"backwards":       {one, root, nil},
		"nothing":         {end, end, nil},
		"a merge":         {one, end, []string{"end", "merge", "side"}},
		"all but one":     {root, end, []string{"end", "merge", "one", "side"}},
		"between lines":   {side, one, []string{"one"}},
		"back from merge": {merge, side, nil},
	} {
		got := map[string]bool{}
		for _, c := range testkit.Must(all.Log(t.Context(), origin.local(), test.from, test.to, 10))(t) {
			got[c.Message] = true
		}
		want := map[string]bool{}
		for _, message := range test.want {
			want[message] = true
		}
		testkit.Same(t, name, got, want)
	}
	few := testkit.Must(all.Log(t.Context(), origin.local(), root, end, 2))(t)
	testkit.Equal(t, "as many as wanted", len(few), 2)
	testkit.Equal(t, "its author", few[0].Author, "Ada")
	_, err := all.Log(t.Context(), builder.Remote{URL: "https://example.com/elsewhere"}, root, end, 2)
	testkit.Kind(t, "a repository of which there is no mirror", err, landfall.NotFound, "not stored here")
}
