-- +goose Up

-- By what a client of an alias with weights is known, which stays on one version; empty: each call is drawn by itself.
ALTER TABLE aliases ADD COLUMN sticky TEXT NOT NULL DEFAULT '';
ALTER TABLE alias_moves ADD COLUMN reason TEXT NOT NULL DEFAULT '';

-- Weights of a trigger that moved since its version was declared. They are those of the live release, while it has that version.
CREATE TABLE trigger_weights (
    app     TEXT NOT NULL REFERENCES apps (id),
    name    TEXT NOT NULL,    -- of the HTTP trigger
    version TEXT NOT NULL,    -- its uid
    newer   TEXT NOT NULL,    -- the function of the two that gets percent, as the trigger names it; the other one gets the rest
    percent INTEGER NOT NULL,
    PRIMARY KEY (app, name)
);

-- What moves calls from an old version to a new one: of an alias, or of an HTTP trigger.
CREATE TABLE canaries (
    id           TEXT PRIMARY KEY,
    app          TEXT NOT NULL REFERENCES apps (id),
    name         TEXT NOT NULL,
    alias        TEXT NOT NULL,    -- empty: of a trigger
    via          TEXT NOT NULL,    -- the HTTP trigger; empty: of an alias
    version      TEXT NOT NULL,    -- the trigger's uid
    older        TEXT NOT NULL,    -- of a trigger, the function as it is named there
    older_name   TEXT NOT NULL,    -- the function that it means
    older_number BIGINT NOT NULL,  -- and its version
    newer        TEXT NOT NULL,
    newer_name   TEXT NOT NULL,
    newer_number BIGINT NOT NULL,
    step         INTEGER NOT NULL, -- percent
    pace         BIGINT NOT NULL,  -- microseconds between steps
    threshold    INTEGER NOT NULL, -- percent
    least        BIGINT NOT NULL,  -- requests without which nothing is decided
    state        TEXT NOT NULL,    -- running, succeeded, returned, stopped
    weight       INTEGER NOT NULL, -- percent of the new version
    since        BIGINT NOT NULL,  -- of the step
    next_at      BIGINT NOT NULL,  -- when is decided
    older_before BIGINT NOT NULL,  -- requests and failures before the step
    older_failed BIGINT NOT NULL,
    newer_before BIGINT NOT NULL,
    newer_failed BIGINT NOT NULL,
    declared     TEXT NOT NULL,    -- what the specs say; empty: it was made by hand
    actor        TEXT NOT NULL,
    reason       TEXT NOT NULL,    -- of the last decision
    created      BIGINT NOT NULL,
    finished     BIGINT NOT NULL   -- 0: it runs
);
CREATE UNIQUE INDEX canaries_name ON canaries (app, name);
CREATE INDEX canaries_running ON canaries (next_at) WHERE finished = 0;

-- Requests to both sides of canaries that run, which processes add up.
CREATE TABLE canary_counts (
    canary   TEXT NOT NULL,
    newer    INTEGER NOT NULL, -- 1: of the new version
    requests BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    PRIMARY KEY (canary, newer)
);

CREATE TABLE canary_steps (
    canary         TEXT NOT NULL,
    seq            BIGINT NOT NULL,
    at             BIGINT NOT NULL,
    verdict        TEXT NOT NULL,
    weight         INTEGER NOT NULL, -- percent of the new version from then on
    older_requests BIGINT NOT NULL,
    older_failures BIGINT NOT NULL,
    newer_requests BIGINT NOT NULL,
    newer_failures BIGINT NOT NULL,
    reason         TEXT NOT NULL,
    PRIMARY KEY (canary, seq)
);

-- +goose Down

DROP TABLE canary_steps;
DROP TABLE canary_counts;
DROP TABLE canaries;
DROP TABLE trigger_weights;
ALTER TABLE alias_moves DROP COLUMN reason;
ALTER TABLE aliases DROP COLUMN sticky;
