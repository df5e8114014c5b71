-- +goose Up

-- Releases that a share of the visitors of a live address gets. One of an app may run.
CREATE TABLE release_canaries (
    id          TEXT PRIMARY KEY,
    app         TEXT NOT NULL REFERENCES apps (id),
    release_uid TEXT NOT NULL,
    weight      INTEGER NOT NULL, -- percent of the visitors
    step        INTEGER NOT NULL, -- percent more at each interval
    pause       BIGINT NOT NULL,  -- the interval, in microseconds
    threshold   INTEGER NOT NULL, -- percent of failures that the release may have more than live
    key         TEXT NOT NULL,    -- signs what visitors keep of the choice
    actor       TEXT NOT NULL,
    started     BIGINT NOT NULL,
    next_at     BIGINT NOT NULL,  -- when it goes on
    ended       BIGINT NOT NULL,  -- 0: it runs
    state       TEXT NOT NULL,
    reason      TEXT NOT NULL     -- why it is as it is
);
CREATE UNIQUE INDEX release_canaries_running ON release_canaries (app) WHERE ended = 0;
CREATE INDEX release_canaries_app ON release_canaries (app, started);

-- What the gateways counted: each one's rows are its own.
CREATE TABLE release_canary_counts (
    canary   TEXT NOT NULL REFERENCES release_canaries (id),
    process  TEXT NOT NULL,
    newer    INTEGER NOT NULL, -- 1: of the canary's release, 0: of the live one
    requests BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    PRIMARY KEY (canary, process, newer)
);

-- What happened to a canary, with the figures that decided.
CREATE TABLE release_canary_steps (
    canary         TEXT NOT NULL REFERENCES release_canaries (id),
    seq            INTEGER NOT NULL,
    at             BIGINT NOT NULL,
    weight         INTEGER NOT NULL, -- from then on
    state          TEXT NOT NULL,
    reason         TEXT NOT NULL,
    actor          TEXT NOT NULL,
    requests       BIGINT NOT NULL, -- of the canary's release until then
    failures       BIGINT NOT NULL,
    live_requests  BIGINT NOT NULL,
    live_failures  BIGINT NOT NULL,
    PRIMARY KEY (canary, seq)
);

-- +goose Down

DROP TABLE release_canary_steps;
DROP TABLE release_canary_counts;
DROP TABLE release_canaries;
