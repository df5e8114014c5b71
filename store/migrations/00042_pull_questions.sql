-- +goose Up

-- The commits of which the forge is asked which pull requests they belong to, until it has answered.
CREATE TABLE pull_questions (
    app        TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    ref        TEXT NOT NULL, -- the branch that was pushed
    run        TEXT NOT NULL, -- of the commit
    attempts   BIGINT NOT NULL,
    next_at    BIGINT NOT NULL,
    PRIMARY KEY (app, commit_sha)
);
CREATE INDEX pull_questions_due ON pull_questions (next_at);

-- +goose Down

DROP TABLE pull_questions;
