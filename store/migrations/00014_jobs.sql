-- +goose Up

-- Jobs: functions that run at times which a person says. Each run is an execution.
CREATE TABLE function_jobs (
    id        TEXT PRIMARY KEY,
    unit      TEXT NOT NULL REFERENCES units (id),
    number    BIGINT NOT NULL, -- of the version; 0: the latest
    name      TEXT NOT NULL,
    input     TEXT NOT NULL,   -- JSON, or empty
    pattern   TEXT NOT NULL,   -- cron expression; empty: it runs once
    first_at  BIGINT NOT NULL,
    next_at   BIGINT NOT NULL, -- 0: never
    remaining BIGINT NOT NULL, -- runs; 0: no end
    state     TEXT NOT NULL,
    problem   TEXT NOT NULL,
    created   BIGINT NOT NULL,
    updated   BIGINT NOT NULL
);
CREATE INDEX function_jobs_due ON function_jobs (next_at) WHERE state = 'running';
CREATE INDEX function_jobs_unit ON function_jobs (unit, number);
CREATE INDEX function_jobs_created ON function_jobs (created, id);

-- Addresses by which a function is called without a token.
CREATE TABLE function_hooks (
    id          TEXT PRIMARY KEY,
    secret      TEXT NOT NULL UNIQUE, -- the end of the address
    unit        TEXT NOT NULL REFERENCES units (id),
    number      BIGINT NOT NULL, -- of the version; 0: the latest
    description TEXT NOT NULL,
    created     BIGINT NOT NULL,
    updated     BIGINT NOT NULL
);
CREATE INDEX function_hooks_unit ON function_hooks (unit, number);
CREATE INDEX function_hooks_created ON function_hooks (created, id);

-- +goose Down

DROP TABLE function_hooks;
DROP TABLE function_jobs;
