-- +goose Up

-- Where the references of an app's repository were at the first look, for those of which no push was told. The row
-- without a reference says that there was one.
CREATE TABLE seen_refs (
    app TEXT NOT NULL,
    ref TEXT NOT NULL,
    sha TEXT NOT NULL,
    PRIMARY KEY (app, ref)
);

-- +goose Down

DROP TABLE seen_refs;
