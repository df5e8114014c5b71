-- +goose Up

-- When the forge says that what is known of the pull request came to be, in microseconds; 0: it did not say.
ALTER TABLE pull_requests ADD COLUMN moved BIGINT NOT NULL DEFAULT 0;
ALTER TABLE pull_requests ADD COLUMN merged INTEGER NOT NULL DEFAULT 0;

-- When somebody's change to the comment was made good last.
ALTER TABLE comments ADD COLUMN restored BIGINT NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE comments DROP COLUMN restored;
ALTER TABLE pull_requests DROP COLUMN merged;
ALTER TABLE pull_requests DROP COLUMN moved;
