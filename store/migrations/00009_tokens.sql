-- +goose Up

-- Tokens that people make: for the apps of one namespace, until a time (0: for ever), and when they were used last (0: never).
ALTER TABLE tokens ADD COLUMN namespace TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN expires BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN used BIGINT NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE tokens DROP COLUMN used;
ALTER TABLE tokens DROP COLUMN expires;
ALTER TABLE tokens DROP COLUMN namespace;
