package landfall_test

import (
	"crypto/sha1"
	"encoding/base32"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"landfall.dev/landfall"
)

// checkUID fails unless uid has the form that fits into a host name: 8 of a-z and 2-7, the first a letter.
func checkUID(t rapid.TB, uid landfall.UID) {
	t.Helper()
	if len(uid) != 8 || uid[0] < 'a' || uid[0] > 'z' ||
		strings.Trim(string(uid), "abcdefghijklmnopqrstuvwxyz234567") != "" {
		t.Fatalf("got the uid %q, want 8 of a-z and 2-7, the first a letter", uid)
	}
	if !landfall.IsUID(string(uid)) {
		t.Fatalf("IsUID(%q): got false, want true", uid)
	}
}

// A random UID has the form of one, and two applies never get the same.
func TestNewUID(t *testing.T) {
	t.Parallel()
	const many = 1000
	seen := map[landfall.UID]bool{}
	for range many {
		uid := landfall.NewUID()
		checkUID(t, uid)
		seen[uid] = true
	}
	// B-085: each apply has a uid of its own
	if len(seen) != many {
		t.Errorf("got %d different uids of %d, want all different", len(seen), many)
	}
}

// The UID of a commit is a function of the app's space, the commit and the counter, the same in every release of this
// program: addresses that people wrote down stay what they are.
func TestCommitUIDIsStable(t *testing.T) {
	t.Parallel()
	space := uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	other := uuid.MustParse("00000000-0000-4000-8000-000000000001")
	const commit landfall.CommitSHA = "0123456789abcdef0123456789abcdef01234567"
	for _, c := range []struct {
		space  uuid.UUID
		commit landfall.CommitSHA
		n      int
		want   landfall.UID
	}{
		{space, commit, 0, "qo2sjzil"},
		{space, commit, 1, "dqqsjizd"},
		{space, commit, 2, "ldnt6hsx"},
		{other, commit, 0, "bvsikzla"},
		{space, "89abcdef0123456789abcdef0123456789abcdef", 0, "bsxtnvzc"},
	} {
		// L-036: the id of a commit's release follows from the commit, so its address is known before the build
		if got := landfall.CommitUID(c.space, c.commit, c.n); got != c.want {
			t.Errorf("CommitUID(%s, %s, %d): got %s, want %s", c.space, c.commit.Short(), c.n, got, c.want)
		}
	}
}

// A commit's UID is made as the concepts say: of the first five bytes of the version 5 UUID of the commit, or of commit
// and counter, with a digit in front folded onto a letter.
func TestCommitUIDIsVersion5(t *testing.T) {
	t.Parallel()
	alphabet := "abcdefghijklmnopqrstuvwxyz234567"
	rapid.Check(t, func(t *rapid.T) {
		space := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "space"))
		commit := landfall.CommitSHA(rapid.StringMatching("[0-9a-f]{40}").Draw(t, "commit"))
		n := rapid.IntRange(0, 3).Draw(t, "n")
		got := landfall.CommitUID(space, commit, n)
		checkUID(t, got)
		name := string(commit)
		if n > 0 {
			name = fmt.Sprintf("%s/%d", commit, n)
		}
		sum := sha1.Sum(append(space[:], name...))
		want := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
		if i := strings.IndexByte(alphabet, want[0]); i >= 26 {
			want = string(alphabet[i-26]) + want[1:]
		}
		if string(got) != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

// Apps, commits and counters have UIDs of their own: one that is taken has a next one.
func TestCommitUIDsDiffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		space := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "space"))
		commits := rapid.SliceOfNDistinct(rapid.StringMatching("[0-9a-f]{40}"), 2, 5, rapid.ID).Draw(t, "commits")
		seen := map[landfall.UID]string{}
		for _, commit := range commits {
			for n := range 4 {
				uid, is := landfall.CommitUID(space, landfall.CommitSHA(commit), n), fmt.Sprintf("%s/%d", commit, n)
				// V3: uids never collide
				if was, taken := seen[uid]; taken {
					t.Fatalf("%s and %s have one uid, %s", was, is, uid)
				}
				seen[uid] = is
			}
		}
	})
}

func TestIsUID(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"owf2k7qa": true, "aaaaaaaa": true, "z7777777": true,
		"": false, "owf2k7q": false, "owf2k7qaa": false, "Owf2k7qa": false, "owf2k7qA": false, "2wf2k7qa": false,
		"owf2k7q1": false, "owf2k7q8": false, "owf2k7q0": false, "owf2k7q-": false, "owf2k7\xc3\xa4": false,
	} {
		if got := landfall.IsUID(s); got != want {
			t.Errorf("IsUID(%q): got %t, want %t", s, got, want)
		}
	}
}
