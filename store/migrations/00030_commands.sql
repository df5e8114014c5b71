-- +goose Up

-- What people asked for at GitHub, until it is answered there, and the last answers of each pull request.
CREATE TABLE commands (
    id         BIGINT PRIMARY KEY,
    kind       TEXT NOT NULL,
    github_id  BIGINT NOT NULL,
    owner      TEXT NOT NULL,
    name       TEXT NOT NULL,
    apps       TEXT NOT NULL,   -- JSON: those that must still obey or refuse it
    number     BIGINT NOT NULL, -- of the pull request, or 0
    sender_id  BIGINT NOT NULL,
    sender     TEXT NOT NULL,
    data       TEXT NOT NULL,
    comment_id BIGINT NOT NULL, -- that holds it, or 0
    delivery   TEXT NOT NULL,
    received   BIGINT NOT NULL,
    attempts   BIGINT NOT NULL,
    next_at    BIGINT NOT NULL,
    problem    TEXT NOT NULL,
    obeyed     INTEGER NOT NULL,
    reaction   TEXT NOT NULL,   -- that the comment must get, or empty
    answer     TEXT NOT NULL
);
CREATE INDEX commands_due ON commands (next_at) WHERE obeyed = 0 OR reaction <> '';
CREATE INDEX commands_of ON commands (github_id, owner, name, number, id);

-- +goose Down

DROP TABLE commands;
