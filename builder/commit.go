package builder

import (
	"context"
	"fmt"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder/pack"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// CommitInfo is what people see of a commit.
type CommitInfo struct {
	SHA     landfall.CommitSHA // of the commit itself, even when a tag was asked for
	Message string             // first line
	Text    string             // the whole message, as it is
	Author  string             // name, without the address
	Time    time.Time          // when it was committed
}

// Commit describes the commit that sha names, directly or through annotated tags. Kinds: NotFound; Invalid when it
// names no commit.
func (m *Mirror) Commit(sha landfall.CommitSHA) (CommitInfo, error) {
	const op = landfall.Op("builder.commit")
	name, err := m.peel(op, sha)
	if err != nil {
		return CommitInfo{}, err
	}
	c, err := m.commit(name)
	if err != nil {
		return CommitInfo{}, m.readError(op, err)
	}
	c.Hash = name
	return infoOf(c), nil
}

// infoOf describes a commit whose name is set.
func infoOf(c *object.Commit) CommitInfo {
	line, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	return CommitInfo{
		SHA: landfall.CommitSHA(c.Hash.String()), Author: c.Author.Name, Time: c.Committer.When,
		Message: strings.ToValidUTF8(strings.TrimSpace(line), "\uFFFD"), Text: c.Message,
	}
}

// Peel returns the commit that sha names, directly or through annotated tags. Kinds: see Commit.
func (m *Mirror) Peel(sha landfall.CommitSHA) (landfall.CommitSHA, error) {
	name, err := m.peel("builder.peel", sha)
	if err != nil {
		return "", err
	}
	return landfall.CommitSHA(name.String()), nil
}

// maxTags is how many tags may name each other in a chain.
const maxTags = 16

func (m *Mirror) peel(op landfall.Op, sha landfall.CommitSHA) (plumbing.Hash, error) {
	name, err := objectName(op, sha)
	if err != nil {
		return name, err
	}
	var kind plumbing.ObjectType
	for range maxTags {
		var data []byte
		err := m.use(func(o *pack.Objects) (err error) {
			if kind, err = o.Kind(name); err == nil && kind == plumbing.TagObject {
				data, err = o.Read(context.Background(), kind, name)
			}
			return err
		})
		if err != nil {
			return name, m.readError(op, err)
		}
		if kind == plumbing.CommitObject {
			return name, nil
		}
		if kind != plumbing.TagObject {
			break
		}
		var tag object.Tag
		if err := tag.Decode(memory(kind, data)); err != nil {
			return name, m.readError(op, fmt.Errorf("%w: %w", pack.ErrCorrupt, err))
		}
		name = tag.Target
	}
	return name, landfall.Errorf(op, landfall.Invalid, "%s names a %s, and only a commit can be released",
		sha.Short(), kind)
}

// commit reads one commit.
func (m *Mirror) commit(name plumbing.Hash) (*object.Commit, error) {
	var data []byte
	err := m.use(func(o *pack.Objects) (err error) {
		data, err = o.Read(context.Background(), plumbing.CommitObject, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	c := &object.Commit{}
	if err := c.Decode(memory(plumbing.CommitObject, data)); err != nil {
		return nil, fmt.Errorf("%w: %w", pack.ErrCorrupt, err)
	}
	return c, nil
}

// objectName returns sha in the form of go-git.
func objectName(op landfall.Op, sha landfall.CommitSHA) (plumbing.Hash, error) {
	if _, err := landfall.ParseCommitSHA(string(sha)); err != nil {
		return plumbing.ZeroHash, &landfall.Error{Op: op, Kind: landfall.Invalid, Message: landfall.MessageOf(err), Err: err}
	}
	if len(sha) != 40 {
		return plumbing.ZeroHash, landfall.Errorf(op, landfall.Invalid,
			"repositories with SHA-256 names cannot be read: use one with SHA-1 names")
	}
	return plumbing.NewHash(string(sha)), nil
}

// memory returns data in the form that go-git's decoders take.
func memory(kind plumbing.ObjectType, data []byte) plumbing.EncodedObject {
	o := &plumbing.MemoryObject{}
	o.SetType(kind)
	_, _ = o.Write(data) // appends to memory
	return o
}
