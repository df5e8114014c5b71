-- +goose Up

-- Pages of releases, the newest first.
CREATE INDEX releases_created ON releases (app, created);

-- +goose Down

DROP INDEX releases_created;
