-- +goose Up

-- When the forge says that what is known of the pull request came to be, in microseconds; 0: it did not say.
ALTER TABLE pull_requests ADD COLUMN moved BIGINT NOT NULL DEFAULT 0;
ALTER TABLE pull_requests ADD COLUMN merged INTEGER NOT NULL DEFAULT 0;
CREATE INDEX pull_requests_open ON pull_requests (app, base) WHERE open = 1;

-- When somebody's change to the comment was made good last.
ALTER TABLE comments ADD COLUMN restored BIGINT NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE comments DROP COLUMN restored;
DROP INDEX pull_requests_open;
ALTER TABLE pull_requests DROP COLUMN merged;
ALTER TABLE pull_requests DROP COLUMN moved;
