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

-- Requests that make something and have a key, so that they can be sent again. They are kept for a day.
CREATE TABLE idempotency_keys (
    token    TEXT NOT NULL,   -- its hash
    key      TEXT NOT NULL,   -- its digest
    request  TEXT NOT NULL,   -- digest of what was asked for
    status   BIGINT NOT NULL, -- of the answer; 0: there is none yet
    type     TEXT NOT NULL,
    location TEXT NOT NULL,
    answer   TEXT NOT NULL,   -- sealed, in base64: it may be the only place of a secret
    created  BIGINT NOT NULL,
    PRIMARY KEY (token, key)
);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created);

-- +goose Down

DROP TABLE idempotency_keys;
DROP TABLE function_hooks;
DROP TABLE function_jobs;
