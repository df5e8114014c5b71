package deploy

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// These are the prefixes of tags that pushes and pull requests move.
const (
	branchTag = "branch-"
	pullTag   = "pr-"
)

// BranchTag is the tag that pushes to a branch move.
func BranchTag(branch string) string { return branchTag + landfall.Slug(branch, 63-len(branchTag)) }

// PullTag is the tag that pushes to a pull request's head move.
func PullTag(number int) string { return fmt.Sprintf("%s%d", pullTag, number) }

var commitLike = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// CheckTag returns an Invalid error unless name may be a tag made by hand or by a pushed git tag. existing reports
// whether a UID of the app is taken.
func CheckTag(name string, existing func(landfall.UID) bool) error {
	var why string
	switch {
	case name == "":
		why = "a tag needs a name"
	case name == landfall.LivePointer, name == landfall.Latest, name == "all":
		why = fmt.Sprintf("%q is reserved", name)
	case strings.HasPrefix(name, branchTag), strings.HasPrefix(name, pullTag):
		why = fmt.Sprintf("tags that begin with %s and %s follow branches and pull requests by themselves",
			branchTag, pullTag)
	case commitLike.MatchString(name):
		why = "7 to 40 hexadecimal digits would be taken for a commit"
	case len(name) > 250 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) ||
		name != strings.TrimSpace(name):
		why = "a tag has at most 250 bytes of UTF-8, no control characters, and no spaces at its ends"
	case landfall.IsUID(name) && existing(landfall.UID(name)):
		why = "it is the id of a release"
	default:
		return nil
	}
	return landfall.Errorf("deploy.CheckTag", landfall.Invalid, "%q cannot be a tag: %s", name, why)
}

// TakenUID returns a function that reports whether a UID of an app belongs to a release.
func TakenUID(ctx context.Context, tx *store.Tx, app string) func(landfall.UID) bool {
	return func(uid landfall.UID) bool {
		_, err := tx.Group(ctx, app, uid)
		return err == nil
	}
}

// SetTag points a tag at a release, and moves it when it exists. The release must be accessible, and is a
// fork's only for the tag of a pull request. A tag that follows a
// git tag is moved by that git tag alone: moving it by hand is a Conflict.
func SetTag(ctx context.Context, tx *store.Tx, t landfall.Tag, by Mover) error {
	r, err := tx.Release(ctx, t.App, t.Release)
	if err != nil {
		return err
	}
	if !r.Expired.IsZero() {
		return landfall.Errorf("deploy.SetTag", landfall.Conflict, "release %s is expired", t.Release)
	}
	if t.Kind != landfall.PullTag {
		if err := checkNoFork(ctx, tx, t.App, t.Release); err != nil {
			return err
		}
	}
	old, err := tx.Tag(ctx, t.App, t.Name)
	if err != nil && landfall.KindOf(err) != landfall.NotFound {
		return err
	}
	if err == nil && old.Kind == landfall.GitTag && t.Kind == landfall.HandTag {
		return landfall.Errorf("deploy.SetTag", landfall.Conflict, "the tag %s follows the git tag of that name: move it "+
			"there (git tag --force, git push --force), or choose another name", t.Name)
	}
	t.Moved = by.At
	if err := tx.PutTag(ctx, t); err != nil || old.Release == t.Release {
		return err
	}
	return record(ctx, tx, move(t.App, pointerOfTag(t.Name), old.Release, t.Release, by))
}

// RemoveTag removes a tag. It reports false when there is none.
func RemoveTag(ctx context.Context, tx *store.Tx, app, name string, by Mover) (bool, error) {
	old, err := tx.Tag(ctx, app, name)
	if err != nil {
		return false, landfall.Ignore(err, landfall.NotFound)
	}
	if err := tx.DeleteTag(ctx, app, name); err != nil {
		return false, err
	}
	return true, record(ctx, tx, move(app, pointerOfTag(name), old.Release, "", by))
}

// branchTagLife is how long a branch's tag holds its release after the last push.
const branchTagLife = 90 * 24 * time.Hour
