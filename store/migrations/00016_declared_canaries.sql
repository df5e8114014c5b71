-- +goose Up

-- The canaries that the commit declares, as JSON; empty: it declares none.
ALTER TABLE group_versions ADD COLUMN canaries TEXT NOT NULL DEFAULT '';

-- +goose Down

ALTER TABLE group_versions DROP COLUMN canaries;
