-- +goose Up

-- Where the repository was transferred to, as OWNER/NAME, until a person confirms it; empty: it was not.
ALTER TABLE apps ADD COLUMN moved_to TEXT NOT NULL DEFAULT '';

-- +goose Down

ALTER TABLE apps DROP COLUMN moved_to;
