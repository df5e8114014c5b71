-- +goose Up

-- Executions that were accepted are tried again when they fail, and in the end their events are kept.
ALTER TABLE executions ADD COLUMN retries BIGINT NOT NULL DEFAULT 0; -- how often it is tried again when it fails
ALTER TABLE executions ADD COLUMN earlier BIGINT NOT NULL DEFAULT 0; -- attempts before it was sent again
ALTER TABLE executions ADD COLUMN sent BIGINT NOT NULL DEFAULT 0;    -- when it was sent again, or 0
ALTER TABLE executions ADD COLUMN dead INTEGER NOT NULL DEFAULT 0;   -- it failed for good, and its event is kept
CREATE INDEX executions_dead ON executions (app, finished, id) WHERE dead = 1;

-- +goose Down

DROP INDEX executions_dead;
ALTER TABLE executions DROP COLUMN dead;
ALTER TABLE executions DROP COLUMN sent;
ALTER TABLE executions DROP COLUMN earlier;
ALTER TABLE executions DROP COLUMN retries;
