-- +goose Up

-- How long files of releases that were live are served, as the app itself says: a duration in Go's form, or empty.
ALTER TABLE apps ADD COLUMN keep_files TEXT NOT NULL DEFAULT '';

-- When was a release live last?
CREATE INDEX moves_from ON moves (app, pointer, from_uid, at);
