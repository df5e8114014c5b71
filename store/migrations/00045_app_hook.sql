-- +goose Up

-- What was delivered to the App before, in microseconds, needs nothing any more.
ALTER TABLE github_apps ADD COLUMN heard BIGINT NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE github_apps DROP COLUMN heard;
