-- +goose Up

-- The move that made the release live of which a schedule is; 0: an earlier version of Landfall stored it.
ALTER TABLE schedules ADD COLUMN move BIGINT NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE schedules DROP COLUMN move;
