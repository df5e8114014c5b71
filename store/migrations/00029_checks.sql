-- +goose Up

-- The check run of the newest run of each commit, for repositories that a GitHub App may write to.
CREATE TABLE checks (
    app        TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    github_id  BIGINT NOT NULL, -- the repository that has it
    run        TEXT NOT NULL,   -- of which the check run is
    id         BIGINT NOT NULL, -- given by the forge; 0: there is none
    body       TEXT NOT NULL,   -- digest of what the forge was told last, or empty
    wanted     BIGINT NOT NULL, -- counts what happened
    covered    BIGINT NOT NULL, -- how much of that the forge shows
    attempts   BIGINT NOT NULL,
    next_at    BIGINT NOT NULL,
    problem    TEXT NOT NULL,
    dropped    INTEGER NOT NULL,
    PRIMARY KEY (app, commit_sha)
);
CREATE INDEX checks_owed ON checks (next_at) WHERE covered < wanted AND dropped = 0;

-- +goose Down

DROP TABLE checks;
