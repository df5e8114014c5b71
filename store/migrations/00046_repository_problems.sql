-- +goose Up

-- Why the repository of an app could not be looked at last.
CREATE TABLE repository_problems (
    app     TEXT PRIMARY KEY,
    problem TEXT NOT NULL,
    since   BIGINT NOT NULL
);

-- +goose Down

DROP TABLE repository_problems;
