package versioning

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// ruleSet is the beginning of every digest, so that a new default of ours does not change every unit's digest.
const ruleSet = "landfall/1"

// Declared is one unit as a commit declares it.
type Declared struct {
	Unit landfall.UnitID
	Spec []byte // canonical JSON with defaults filled in
	// Refs are the units whose digests are a part of this one's: a function's package and environment, a pinned
	// function of a trigger. A unit that is not declared counts by its name only.
	Refs []landfall.UnitID
	// Pinned are the digests of versions that the unit names by a selector other than latest.
	Pinned []landfall.Digest
	// Content names the unit's bytes in canonical form, so it is equal for equal files. It is nil for units without
	// files.
	Content []byte
	// Holds are the versions that the unit names by a selector other than latest, where it is the unit that holds them.
	Holds []store.UnitNumber
	Where string // "specs/app.yaml:12", for errors
}

// Unit is a declared unit with its digest.
type Unit struct {
	Declared
	Digest landfall.Digest
}

// Resolve computes the digests of all declared units and returns them in the order of landfall.UnitKinds, then by name.
// Invalid when two units have the same name, or refer to each other in a circle.
func Resolve(declared []Declared) ([]Unit, error) {
	r := resolver{units: make(map[landfall.UnitID]*Unit, len(declared)), open: map[landfall.UnitID]bool{}}
	for _, d := range declared {
		if first, ok := r.units[d.Unit]; ok {
			return nil, landfall.Errorf("versioning.Resolve", landfall.Invalid, "%s: %s is declared twice, first in %s", d.Where,
				d.Unit, first.Where)
		}
		r.units[d.Unit] = &Unit{Declared: d}
	}
	units := make([]Unit, 0, len(declared))
	for _, d := range declared {
		if _, err := r.digest(d.Unit); err != nil {
			return nil, err
		}
		units = append(units, *r.units[d.Unit])
	}
	slices.SortFunc(units, func(a, b Unit) int { return compareUnits(a.Unit, b.Unit) })
	return units, nil
}

// ResolveAmong computes the digest of one unit, given the digests of the others. It replaces one with the same name.
func ResolveAmong(d Declared, others []landfall.GroupUnit) (Unit, error) {
	r := resolver{units: make(map[landfall.UnitID]*Unit, len(others)+1), open: map[landfall.UnitID]bool{}}
	for _, other := range others {
		r.units[other.Unit] = &Unit{Declared: Declared{Unit: other.Unit}, Digest: other.Digest}
	}
	r.units[d.Unit] = &Unit{Declared: d}
	_, err := r.digest(d.Unit)
	return *r.units[d.Unit], err
}

type resolver struct {
	units map[landfall.UnitID]*Unit
	open  map[landfall.UnitID]bool
}

func (r *resolver) digest(id landfall.UnitID) (landfall.Digest, error) {
	u, ok := r.units[id]
	if !ok {
		return landfall.DigestOf([]byte("undeclared " + id.String())), nil
	}
	if u.Digest != "" {
		return u.Digest, nil
	}
	if r.open[id] {
		return "", landfall.Errorf("versioning.Resolve", landfall.Invalid, "%s: %s refers to itself", u.Where, id.String())
	}
	r.open[id] = true
	defer delete(r.open, id)
	refs := slices.Clone(u.Refs)
	slices.SortFunc(refs, compareUnits)
	parts := [][]byte{[]byte(ruleSet), []byte(id.Kind), u.Spec}
	for _, ref := range refs {
		d, err := r.digest(ref)
		if err != nil {
			return "", err
		}
		parts = append(parts, []byte(d))
	}
	for _, d := range u.Pinned {
		parts = append(parts, []byte(d))
	}
	u.Digest = hashParts(append(parts, u.Content))
	return u.Digest, nil
}

// hashParts hashes length-prefixed parts, so that different lists of parts have different hashes.
func hashParts(parts [][]byte) landfall.Digest {
	h := sha256.New()
	var length [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write(p)
	}
	return landfall.DigestFromSum(h.Sum(nil))
}

// compareUnits orders units by the order of their kinds, then by name.
func compareUnits(a, b landfall.UnitID) int {
	return cmp.Or(kindOrder(a.Kind)-kindOrder(b.Kind), cmp.Compare(a.Name, b.Name))
}

func kindOrder(k landfall.UnitKind) int { return slices.Index(landfall.UnitKinds(), k) }
