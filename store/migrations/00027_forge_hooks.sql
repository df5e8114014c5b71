-- +goose Up

-- What is known of the webhooks of apps at their forge.
CREATE TABLE forge_hooks (
    app       TEXT PRIMARY KEY REFERENCES apps (id),
    owner     TEXT NOT NULL,    -- of the repository
    name      TEXT NOT NULL,
    forge_id  BIGINT NOT NULL,  -- the forge's number of the webhook; 0: there is none yet
    made      INTEGER NOT NULL, -- 1: it was made for the app, 0: a person made it
    secret    TEXT NOT NULL,    -- digest of the secret that it was given; empty: it was given none
    tag       TEXT NOT NULL,    -- of its state when it was seen last
    looked    BIGINT NOT NULL,  -- when it was last as it has to be
    since     BIGINT NOT NULL,  -- what was delivered before needs nothing any more
    problem   TEXT NOT NULL,    -- what is wrong with it now, for people
    mended    TEXT NOT NULL,    -- what was wrong with it and was mended last
    mended_at BIGINT NOT NULL
);

-- How often the forge was asked to deliver it again.
ALTER TABLE deliveries ADD COLUMN asked INTEGER NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE deliveries DROP COLUMN asked;
DROP TABLE forge_hooks;
