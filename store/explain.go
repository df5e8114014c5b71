package store

import (
	"context"

	"landfall.dev/landfall"
)

// FolderUse is a folder of the object store that a version uses.
type FolderUse struct {
	UnitNumber
	Kind    landfall.UnitKind
	Prefix  string
	Bytes   int64        // of the folder; negative: not counted yet
	Release landfall.UID // an accessible release that has the version; empty: none has
}

// FolderUses returns which versions of an app use which folders, and for which accessible releases: a row for each
// release. A folder that no version uses has one row without a unit. It leaves out folders that a run reserves.
func (q queries) FolderUses(ctx context.Context, app string) ([]FolderUse, error) {
	return list(ctx, q, "store.FolderUses", func(row scanner) (f FolderUse, err error) {
		return f, row.Scan(&f.Unit, &f.Number, &f.Kind, &f.Prefix, &f.Bytes, &f.Release)
	}, `SELECT COALESCE(vp.unit, ''), COALESCE(vp.number, 0), COALESCE(u.kind, ''), p.prefix, p.bytes, COALESCE(g.release_uid, '')
		FROM prefixes p LEFT JOIN version_prefixes vp ON vp.prefix = p.prefix LEFT JOIN units u ON u.id = vp.unit
		LEFT JOIN (SELECT gu.unit, gu.number, r.uid AS release_uid FROM releases r
			JOIN group_units gu ON gu.app = r.app AND gu.grp = r.uid WHERE r.app = $1 AND r.expired = 0) g
			ON g.unit = vp.unit AND g.number = vp.number
		WHERE p.app = $1 AND p.deleting = 0 AND NOT EXISTS (SELECT 1 FROM reservations rs WHERE rs.prefix = p.prefix)
		ORDER BY p.prefix, vp.unit, vp.number, g.release_uid`, app)
}

// LooseVersion is a version that goes when no accessible release has it any more.
type LooseVersion struct {
	UnitNumber
	ID      landfall.UnitID
	UID     landfall.UID
	Release landfall.UID // that has it; empty: none has
}

// LooseVersions returns the versions of an app that accessible releases alone keep, or nothing: a row for each release.
func (q queries) LooseVersions(ctx context.Context, app string) ([]LooseVersion, error) {
	return list(ctx, q, "store.LooseVersions", func(row scanner) (v LooseVersion, err error) {
		return v, row.Scan(&v.Unit, &v.Number, &v.ID.Kind, &v.ID.Name, &v.UID, &v.Release)
	}, `SELECT v.unit, v.number, u.kind, u.name, v.uid, COALESCE(g.release_uid, '')
		FROM versions v JOIN units u ON u.id = v.unit
		LEFT JOIN (SELECT gu.unit, gu.number, r.uid AS release_uid FROM releases r
			JOIN group_units gu ON gu.app = r.app AND gu.grp = r.uid WHERE r.app = $1 AND r.expired = 0) g
			ON g.unit = v.unit AND g.number = v.number
		WHERE u.app = $1 AND (v.retired = 1 OR v.production = 0) AND `+heldByNoOther+`
		ORDER BY u.kind, u.name, v.number`, app)
}
