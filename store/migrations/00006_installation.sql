-- +goose Up

-- Which installation the database is of: one row. The data folder and the object store have the same key.
CREATE TABLE installations (
    id  BIGINT PRIMARY KEY CHECK (id = 1),
    key TEXT NOT NULL
);

-- +goose Down

DROP TABLE installations;
