-- +goose Up

-- What the forge shows as a deployment of what a pointer points to: of live, or of a branch's tag.
CREATE TABLE deployments (
    app       TEXT NOT NULL,
    pointer   TEXT NOT NULL,
    github_id BIGINT NOT NULL, -- the repository that has the deployment
    id        BIGINT NOT NULL, -- of the deployment, given by the forge; 0: there is none
    release   TEXT NOT NULL,   -- of which it is
    told      INTEGER NOT NULL, -- 1: the forge shows it as active
    replaced  BIGINT NOT NULL, -- an older deployment that must be set inactive; 0: none
    wanted    BIGINT NOT NULL, -- counts what happened
    covered   BIGINT NOT NULL, -- how much of that the forge shows
    attempts  BIGINT NOT NULL,
    next_at   BIGINT NOT NULL,
    problem   TEXT NOT NULL,
    dropped   INTEGER NOT NULL,
    PRIMARY KEY (app, pointer)
);
CREATE INDEX deployments_owed ON deployments (next_at) WHERE covered < wanted AND dropped = 0;

-- What we may not do at a repository of the forge. It is tried again after a while.
CREATE TABLE refusals (
    github_id BIGINT NOT NULL,
    feature   TEXT NOT NULL,
    problem   TEXT NOT NULL,
    until     BIGINT NOT NULL,
    PRIMARY KEY (github_id, feature)
);

-- +goose Down

DROP TABLE refusals;
DROP TABLE deployments;
