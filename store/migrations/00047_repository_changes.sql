-- +goose Up

-- 1: the production branch is the default branch of the repository, as it was found there.
ALTER TABLE apps ADD COLUMN branch_found INTEGER NOT NULL DEFAULT 0;
-- When the forge said that the repository was deleted, until a person confirms that it is there again; 0: it did not.
ALTER TABLE apps ADD COLUMN gone BIGINT NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE apps DROP COLUMN gone;
ALTER TABLE apps DROP COLUMN branch_found;
