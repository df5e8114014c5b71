-- +goose Up

-- What the apps of a namespace may use together, as an administrator says. It is no part of any version.
CREATE TABLE plans (
    namespace TEXT PRIMARY KEY,
    limits    TEXT NOT NULL -- JSON: landfall.Plan
);

-- How many bytes of objects a folder has; -1: not counted yet, because an earlier program stored them.
ALTER TABLE prefixes ADD COLUMN bytes BIGINT NOT NULL DEFAULT -1;

-- +goose Down

ALTER TABLE prefixes DROP COLUMN bytes;
DROP TABLE plans;
