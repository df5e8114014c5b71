package deploy

import (
	"context"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// pointerOfTag is how moves name a tag.
func pointerOfTag(name string) string { return "tag " + name }

// TagOf returns the tag that a pointer of moves is; false for live.
func TagOf(pointer string) (name string, ok bool) { return strings.CutPrefix(pointer, "tag ") }

// BranchPointer is how moves name the tag of a branch.
func BranchPointer(branch string) string { return pointerOfTag(BranchTag(branch)) }

// record stores a move. The forge shows where live and the tags of branches are, and check runs say what is live.
func record(ctx context.Context, tx *store.Tx, m landfall.Move) error {
	if err := tx.CreateMove(ctx, m); err != nil {
		return err
	}
	if m.Pointer != landfall.LivePointer && !strings.HasPrefix(m.Pointer, pointerOfTag(branchTag)) {
		return nil
	}
	if m.Pointer == landfall.LivePointer {
		if err := tx.RenewChecks(ctx, m.App, m.From, m.To); err != nil {
			return err
		}
	}
	return tx.WantDeployment(ctx, m.App, m.Pointer, m.At)
}
