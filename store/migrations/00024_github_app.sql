-- +goose Up

-- The GitHub App that is connected: one row at most. Its key and its secrets are sealed.
CREATE TABLE github_apps (
    id      BIGINT PRIMARY KEY CHECK (id = 1),
    app     BIGINT NOT NULL,
    slug    TEXT NOT NULL,
    name    TEXT NOT NULL,
    owner   TEXT NOT NULL,
    url     TEXT NOT NULL,
    api     TEXT NOT NULL,
    sealed  TEXT NOT NULL,
    created BIGINT NOT NULL,
    changed BIGINT NOT NULL
);

-- The connections that people began.
CREATE TABLE github_connections (
    id           TEXT PRIMARY KEY,
    state        TEXT NOT NULL,
    organization TEXT NOT NULL,
    name         TEXT NOT NULL,
    app          BIGINT NOT NULL,
    problem      TEXT NOT NULL,
    created      BIGINT NOT NULL
);

-- What hinders the App in a repository.
CREATE TABLE github_problems (
    repository TEXT PRIMARY KEY,
    problem    TEXT NOT NULL,
    since      BIGINT NOT NULL
);

-- +goose Down

DROP TABLE github_problems;

DROP TABLE github_connections;

DROP TABLE github_apps;
