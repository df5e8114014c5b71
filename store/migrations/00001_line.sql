-- One text for SQLite and PostgreSQL: times are microseconds since 1970 in UTC, truth values 0 and 1, JSON is text.

-- +goose Up

-- Numbers that must ascend in the order of commits, which a database sequence does not promise.
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);

CREATE TABLE namespaces (
    name    TEXT PRIMARY KEY,
    created BIGINT NOT NULL,
    deleted BIGINT NOT NULL DEFAULT 0 -- it stays for the names of its deleted apps
);

CREATE TABLE apps (
    id           TEXT PRIMARY KEY,
    namespace    TEXT NOT NULL REFERENCES namespaces (name),
    name         TEXT NOT NULL UNIQUE,
    repository   TEXT NOT NULL,
    credentials  TEXT NOT NULL, -- JSON: how the repository is reached
    specs        TEXT NOT NULL,
    folder       TEXT NOT NULL,
    branch       TEXT NOT NULL,
    policy       TEXT NOT NULL, -- JSON: landfall.ReleasePolicy
    previews     TEXT NOT NULL, -- who sees releases that are not live
    live         TEXT NOT NULL,
    held         INTEGER NOT NULL,
    uid_space    TEXT NOT NULL,
    github_id    BIGINT NOT NULL,
    github_owner TEXT NOT NULL,
    github_name  TEXT NOT NULL,
    created      BIGINT NOT NULL,
    deleted      BIGINT NOT NULL,
    changed      BIGINT NOT NULL, -- the newest change of what gateways show of it
    annotations  TEXT NOT NULL DEFAULT '' -- JSON: notes of people and programs, or empty
);

-- Gateways in processes of their own, and which changes they show.
CREATE TABLE gateways (
    process TEXT PRIMARY KEY,
    seen    BIGINT NOT NULL,
    beat    BIGINT NOT NULL
);

-- Pipeline workers in processes of their own.
CREATE TABLE workers (
    process TEXT PRIMARY KEY,
    until   BIGINT NOT NULL -- alive at least until then
);

-- Which process does what one does for all: one row. Who wins that leaves a key that nobody else knows.
CREATE TABLE owners (
    id  BIGINT PRIMARY KEY CHECK (id = 1),
    key TEXT NOT NULL
);

-- Transactions that were committed, until who made them knows it.
CREATE TABLE outcomes (
    key TEXT PRIMARY KEY,
    at  BIGINT NOT NULL
);

CREATE TABLE tokens (
    hash    TEXT PRIMARY KEY, -- SHA-256 of the token
    name    TEXT NOT NULL,
    scope   TEXT NOT NULL,
    app     TEXT NOT NULL, -- empty: every app
    created BIGINT NOT NULL
);

-- Who is signed in to the pages. A session ends with its token.
CREATE TABLE sessions (
    hash    TEXT PRIMARY KEY, -- SHA-256 of what the cookie holds
    token   TEXT NOT NULL,    -- hash of the token
    expires BIGINT NOT NULL
);

-- Who is signed in at the host of a release. A visit ends with its session. Before it begins, its row is that of a code.
CREATE TABLE visits (
    hash      TEXT PRIMARY KEY, -- SHA-256 of the code, then of what the cookie holds
    session   TEXT NOT NULL,    -- hash of the session
    host      TEXT NOT NULL,
    challenge TEXT NOT NULL,    -- SHA-256 of what the browser holds that asked for the code; empty: the visit began
    path      TEXT NOT NULL,    -- where it begins
    expires   BIGINT NOT NULL
);
CREATE INDEX visits_session ON visits (session, expires);

CREATE TABLE hooks (
    id      TEXT PRIMARY KEY,
    app     TEXT NOT NULL REFERENCES apps (id),
    secret  TEXT NOT NULL,
    created BIGINT NOT NULL
);

CREATE TABLE deliveries (
    hook     TEXT NOT NULL,
    id       TEXT NOT NULL,
    event    TEXT NOT NULL,
    digest   TEXT NOT NULL,
    decision TEXT NOT NULL,
    runs     TEXT NOT NULL, -- JSON: run ids
    received BIGINT NOT NULL,
    unmatched INTEGER NOT NULL,
    PRIMARY KEY (hook, id)
);
CREATE INDEX deliveries_received ON deliveries (received);

CREATE TABLE pushes (
    id           BIGINT PRIMARY KEY,
    app          TEXT NOT NULL REFERENCES apps (id),
    source       TEXT NOT NULL,
    ref          TEXT NOT NULL,
    before_sha   TEXT NOT NULL,
    after_sha    TEXT NOT NULL,
    forced       INTEGER NOT NULL,
    actor        TEXT NOT NULL,
    message      TEXT NOT NULL,
    accepted     BIGINT NOT NULL,
    apply        TEXT NOT NULL, -- JSON: landfall.ApplyRequest, or empty
    pull_request TEXT NOT NULL, -- JSON: landfall.PullRequest, or empty
    delivery     TEXT NOT NULL,
    trace        TEXT NOT NULL, -- a traceparent, or empty
    beside       BIGINT NOT NULL
);
CREATE INDEX pushes_app_ref ON pushes (app, ref, id);
CREATE INDEX pushes_app_after ON pushes (app, after_sha);

-- The newest push of every reference, as the order of the branch says: only it may move pointers.
CREATE TABLE heads (
    app  TEXT NOT NULL,
    ref  TEXT NOT NULL,
    push BIGINT NOT NULL,
    sha  TEXT NOT NULL, -- zero when the reference was deleted
    PRIMARY KEY (app, ref)
);

CREATE TABLE pull_requests (
    app      TEXT NOT NULL,
    number   BIGINT NOT NULL,
    base     TEXT NOT NULL,
    head_ref TEXT NOT NULL,
    head_sha TEXT NOT NULL,
    fork     INTEGER NOT NULL,
    open     INTEGER NOT NULL,
    updated  BIGINT NOT NULL,
    PRIMARY KEY (app, number)
);

CREATE TABLE runs (
    id          TEXT PRIMARY KEY,
    app         TEXT NOT NULL REFERENCES apps (id),
    commit_sha  TEXT NOT NULL,
    branch      TEXT NOT NULL,
    state       TEXT NOT NULL,
    step        TEXT NOT NULL,
    reason      TEXT NOT NULL,
    uid         TEXT NOT NULL,
    release_uid TEXT NOT NULL,
    rebuild     INTEGER NOT NULL,
    expect      TEXT NOT NULL,
    attempt     BIGINT NOT NULL,
    failures    BIGINT NOT NULL, -- attempts that ended in an error which may be tried again
    worker      TEXT NOT NULL,
    lease       BIGINT NOT NULL, -- until when the worker of this attempt owns the run
    next_at     BIGINT NOT NULL, -- not before
    stats       TEXT NOT NULL,
    changes     TEXT NOT NULL,   -- JSON: []landfall.UnitChange
    change      BIGINT NOT NULL, -- the one that shows its release; 0: none
    created     BIGINT NOT NULL,
    started     BIGINT NOT NULL,
    finished    BIGINT NOT NULL,
    forgotten   INTEGER NOT NULL DEFAULT 0 -- its log was removed
);
CREATE INDEX runs_app_created ON runs (app, created);
CREATE INDEX runs_app_commit ON runs (app, commit_sha, created);
CREATE INDEX runs_app_uid ON runs (app, uid);
CREATE INDEX runs_app_unfinished ON runs (app) WHERE finished = 0;
CREATE INDEX runs_unfinished ON runs (created) WHERE finished = 0;
CREATE INDEX runs_leased ON runs (lease) WHERE finished = 0 AND lease > 0;
CREATE INDEX runs_finished ON runs (finished) WHERE finished > 0;
CREATE INDEX runs_logged ON runs (finished) WHERE finished > 0 AND forgotten = 0;

-- The pushes that want a run. A newer push of the same reference withdraws the older one.
CREATE TABLE run_refs (
    run       TEXT NOT NULL REFERENCES runs (id),
    push      BIGINT NOT NULL REFERENCES pushes (id),
    ref       TEXT NOT NULL,
    withdrawn INTEGER NOT NULL,
    PRIMARY KEY (run, push)
);

CREATE TABLE run_steps (
    run      TEXT NOT NULL REFERENCES runs (id),
    attempt  BIGINT NOT NULL,
    step     TEXT NOT NULL,
    started  BIGINT NOT NULL,
    finished BIGINT NOT NULL,
    message  TEXT NOT NULL,
    PRIMARY KEY (run, attempt, step)
);

CREATE TABLE run_log (
    run  TEXT NOT NULL,
    seq  BIGINT NOT NULL,
    at   BIGINT NOT NULL,
    step TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, seq)
);

-- A unit's row outlives its versions, so that its numbers go on.
CREATE TABLE units (
    id          TEXT PRIMARY KEY,
    scope       TEXT NOT NULL, -- the namespace for functions and packages, else the app's id
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    namespace   TEXT NOT NULL,
    app         TEXT NOT NULL, -- the owner; empty for a unit made by hand
    last_number BIGINT NOT NULL,
    retired     INTEGER NOT NULL,
    annotations TEXT NOT NULL DEFAULT '', -- JSON: notes of people and programs, or empty; no part of any version
    UNIQUE (scope, kind, name)
);
CREATE INDEX units_app ON units (app);

CREATE TABLE versions (
    unit        TEXT NOT NULL REFERENCES units (id),
    number      BIGINT NOT NULL,
    uid         TEXT NOT NULL,
    label       TEXT NOT NULL,
    description TEXT NOT NULL,
    digest      TEXT NOT NULL,
    spec        TEXT NOT NULL,
    content     TEXT NOT NULL,
    commit_sha  TEXT NOT NULL,
    created     BIGINT NOT NULL,
    production  INTEGER NOT NULL,
    retired     INTEGER NOT NULL,
    PRIMARY KEY (unit, number),
    UNIQUE (unit, uid)
);
CREATE INDEX versions_digest ON versions (unit, digest);
CREATE INDEX versions_label ON versions (label) WHERE label <> '';
CREATE INDEX versions_loose ON versions (unit, number) WHERE retired = 1 OR production = 0; -- what collection may take away

-- A name for one version of a unit, or for two of them.
CREATE TABLE aliases (
    unit    TEXT NOT NULL REFERENCES units (id),
    name    TEXT NOT NULL,
    number  BIGINT NOT NULL,
    percent INTEGER NOT NULL, -- of the calls, for number
    other   BIGINT NOT NULL,  -- the version that gets the rest; 0: there is none
    moved   BIGINT NOT NULL,
    PRIMARY KEY (unit, name)
);

CREATE TABLE alias_moves (
    id         BIGINT PRIMARY KEY,
    unit       TEXT NOT NULL REFERENCES units (id),
    alias      TEXT NOT NULL,
    moved_from TEXT NOT NULL,
    moved_to   TEXT NOT NULL,
    actor      TEXT NOT NULL,
    at         BIGINT NOT NULL
);
CREATE INDEX alias_moves_alias ON alias_moves (unit, alias, id);

CREATE TABLE group_versions (
    app        TEXT NOT NULL REFERENCES apps (id),
    uid        TEXT NOT NULL,
    digest     TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    branch     TEXT NOT NULL,
    clean      INTEGER NOT NULL,
    message    TEXT NOT NULL,
    actor      TEXT NOT NULL,
    policy     TEXT NOT NULL, -- JSON: what the commit says about releasing, or empty
    created    BIGINT NOT NULL,
    PRIMARY KEY (app, uid)
);
CREATE INDEX group_versions_commit ON group_versions (app, commit_sha);
CREATE INDEX group_versions_created ON group_versions (app, created);

CREATE TABLE group_units (
    app     TEXT NOT NULL,
    grp     TEXT NOT NULL,
    unit    TEXT NOT NULL REFERENCES units (id),
    number  BIGINT NOT NULL,
    uid     TEXT NOT NULL,
    digest  TEXT NOT NULL,
    PRIMARY KEY (app, grp, unit)
);
CREATE INDEX group_units_version ON group_units (unit, number);

CREATE TABLE applies (
    id      BIGINT PRIMARY KEY,
    app     TEXT NOT NULL REFERENCES apps (id),
    grp     TEXT NOT NULL,
    ref     TEXT NOT NULL,
    line    TEXT NOT NULL,
    actor   TEXT NOT NULL,
    created BIGINT NOT NULL
);
CREATE INDEX applies_app ON applies (app, id);

CREATE TABLE releases (
    app        TEXT NOT NULL REFERENCES apps (id),
    uid        TEXT NOT NULL,
    line       TEXT NOT NULL,
    digest     TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    branch     TEXT NOT NULL,
    created    BIGINT NOT NULL,
    expired    BIGINT NOT NULL,
    was_live   INTEGER NOT NULL,
    PRIMARY KEY (app, uid)
);
CREATE INDEX releases_accessible ON releases (app, created) WHERE expired = 0;
CREATE INDEX releases_expired ON releases (app, commit_sha) WHERE expired > 0;

CREATE TABLE tags (
    app         TEXT NOT NULL REFERENCES apps (id),
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    release_uid TEXT NOT NULL,
    ref         TEXT NOT NULL,
    moved       BIGINT NOT NULL,
    PRIMARY KEY (app, name)
);

CREATE TABLE moves (
    id       BIGINT PRIMARY KEY,
    app      TEXT NOT NULL REFERENCES apps (id),
    pointer  TEXT NOT NULL,
    from_uid TEXT NOT NULL,
    to_uid   TEXT NOT NULL,
    actor    TEXT NOT NULL,
    reason   TEXT NOT NULL,
    at       BIGINT NOT NULL,
    back     INTEGER NOT NULL -- a rollback: it takes away what came after where it goes
);
CREATE INDEX moves_app_pointer ON moves (app, pointer, id);

CREATE TABLE reports (
    id          BIGINT PRIMARY KEY,
    app         TEXT NOT NULL,
    run         TEXT NOT NULL,
    github_id   BIGINT NOT NULL,
    owner       TEXT NOT NULL,
    name        TEXT NOT NULL,
    commit_sha  TEXT NOT NULL,
    context     TEXT NOT NULL,
    state       TEXT NOT NULL,
    description TEXT NOT NULL,
    target      TEXT NOT NULL,
    attempts    BIGINT NOT NULL,
    next_at     BIGINT NOT NULL,
    sent        BIGINT NOT NULL,
    problem     TEXT NOT NULL,
    dropped     INTEGER NOT NULL,
    created     BIGINT NOT NULL
);
CREATE INDEX reports_owed ON reports (next_at) WHERE sent = 0 AND dropped = 0;
CREATE INDEX reports_commit ON reports (app, commit_sha);

-- The one comment of each pull request. It belongs to a repository by all of its identity: what a delivery says of an id must
-- not lead another repository's comment away.
CREATE TABLE comments (
    github_id  BIGINT NOT NULL,
    owner      TEXT NOT NULL,
    name       TEXT NOT NULL,
    number     BIGINT NOT NULL,
    comment_id BIGINT NOT NULL, -- 0: not known
    wanted     BIGINT NOT NULL, -- counts what happened
    told       BIGINT NOT NULL, -- how much of that the forge was told
    since      BIGINT NOT NULL, -- when the oldest of what it was not told happened
    body       TEXT NOT NULL,   -- digest of the text that it was told last, or empty
    attempts   BIGINT NOT NULL,
    next_at    BIGINT NOT NULL,
    problem    TEXT NOT NULL,
    dropped    INTEGER NOT NULL,
    PRIMARY KEY (github_id, owner, name, number)
);
CREATE INDEX comments_owed ON comments (next_at) WHERE told < wanted AND dropped = 0;

-- Folders of the object store, which versions point into. Collection marks before it deletes.
CREATE TABLE prefixes (
    prefix   TEXT PRIMARY KEY,
    app      TEXT NOT NULL,
    deleting INTEGER NOT NULL,
    created  BIGINT NOT NULL
);
CREATE INDEX prefixes_app ON prefixes (app);

CREATE TABLE version_prefixes (
    unit   TEXT NOT NULL,
    number BIGINT NOT NULL,
    prefix TEXT NOT NULL REFERENCES prefixes (prefix),
    PRIMARY KEY (unit, number, prefix)
);
CREATE INDEX version_prefixes_prefix ON version_prefixes (prefix);

-- What a run is about to point into: counts as a reference until the run is over.
CREATE TABLE reservations (
    run    TEXT NOT NULL REFERENCES runs (id),
    prefix TEXT NOT NULL,
    PRIMARY KEY (run, prefix)
);
CREATE INDEX reservations_prefix ON reservations (prefix);

-- What a build made, by what went into it. The first record of an input wins.
CREATE TABLE builds (
    app     TEXT NOT NULL,
    input   TEXT NOT NULL, -- digest of files, command, environment
    output  TEXT NOT NULL, -- JSON: the files with their digests
    run     TEXT NOT NULL,
    created BIGINT NOT NULL,
    PRIMARY KEY (app, input)
);

-- What became of the messages that triggers took, while they may come again.
CREATE TABLE messages (
    app          TEXT NOT NULL,
    trigger_name TEXT NOT NULL,
    message      TEXT NOT NULL, -- by which the queue knows it again
    failures     BIGINT NOT NULL,
    done         INTEGER NOT NULL,
    at           BIGINT NOT NULL,
    PRIMARY KEY (app, trigger_name, message)
);
CREATE INDEX messages_at ON messages (done, at);

-- The schedules of live releases, which the scheduler keeps.
CREATE TABLE schedules (
    app         TEXT NOT NULL REFERENCES apps (id),
    name        TEXT NOT NULL, -- of the trigger
    release_uid TEXT NOT NULL,
    expression  TEXT NOT NULL, -- with its time zone
    since       BIGINT NOT NULL, -- times up to this one do not count
    PRIMARY KEY (app, name)
);

-- The times that were fired: whoever makes the row fires.
CREATE TABLE schedule_firings (
    app         TEXT NOT NULL REFERENCES apps (id),
    name        TEXT NOT NULL, -- of the trigger
    due         BIGINT NOT NULL,
    release_uid TEXT NOT NULL,
    state       TEXT NOT NULL,
    process     TEXT NOT NULL, -- that is at it
    attempt     BIGINT NOT NULL,
    beat        BIGINT NOT NULL, -- grows while the process lives
    fired       BIGINT NOT NULL,
    finished    BIGINT NOT NULL,
    problem     TEXT NOT NULL,
    PRIMARY KEY (app, name, due)
);
CREATE INDEX schedule_firings_open ON schedule_firings (process) WHERE finished = 0;
CREATE INDEX schedule_firings_fired ON schedule_firings (fired);

-- One row for each run of a function that is on record, and for each that was accepted.
CREATE TABLE executions (
    id           TEXT PRIMARY KEY,
    app          TEXT NOT NULL, -- empty: the function was made by hand
    namespace    TEXT NOT NULL,
    function     TEXT NOT NULL,
    version      TEXT NOT NULL,
    number       BIGINT NOT NULL,
    grp          TEXT NOT NULL,
    release_uid  TEXT NOT NULL,
    via          TEXT NOT NULL, -- a trigger's name, or empty
    source       TEXT NOT NULL,
    type         TEXT NOT NULL,
    event_id     TEXT NOT NULL,
    state        TEXT NOT NULL,
    async        INTEGER NOT NULL,
    attempt      BIGINT NOT NULL,
    reason       TEXT NOT NULL,
    message      TEXT NOT NULL,
    created      BIGINT NOT NULL,
    started      BIGINT NOT NULL,
    finished     BIGINT NOT NULL,
    input_bytes  BIGINT NOT NULL,
    output_bytes BIGINT NOT NULL,
    log_bytes    BIGINT NOT NULL,
    forgotten    INTEGER NOT NULL, -- its log was removed
    process      TEXT NOT NULL,
    until        BIGINT NOT NULL,  -- until when the process that runs it is alive at least
    next_at      BIGINT NOT NULL,  -- not before
    event        TEXT NOT NULL,    -- JSON: what is to be answered, until it is; then empty
    result       TEXT NOT NULL     -- JSON: what was answered, or empty
);
CREATE INDEX executions_created ON executions (created, id);
CREATE INDEX executions_app ON executions (app, created, id);
CREATE INDEX executions_version ON executions (namespace, function, number, created, id);
CREATE INDEX executions_queued ON executions (next_at) WHERE state = 'queued';
CREATE INDEX executions_waiting ON executions (app) WHERE state = 'queued';
CREATE INDEX executions_running ON executions (process) WHERE state = 'running';
CREATE INDEX executions_finished ON executions (finished) WHERE finished > 0;
CREATE INDEX executions_unfinished ON executions (app, grp) WHERE finished = 0;
CREATE INDEX executions_holding ON executions (namespace, function, number) WHERE finished = 0;

-- What executions logged, in pieces. Each names the function's version, by which logs are read, too.
CREATE TABLE execution_log (
    seq       BIGINT PRIMARY KEY,
    execution TEXT NOT NULL,
    namespace TEXT NOT NULL,
    function  TEXT NOT NULL,
    number    BIGINT NOT NULL,
    at        BIGINT NOT NULL,
    text      TEXT NOT NULL
);
CREATE INDEX execution_log_execution ON execution_log (execution, seq);
CREATE INDEX execution_log_version ON execution_log (namespace, function, number, seq);

-- +goose Down
DROP TABLE execution_log;
DROP TABLE executions;
DROP TABLE schedule_firings;
DROP TABLE schedules;
DROP TABLE messages;
DROP TABLE builds;
DROP TABLE reservations;
DROP TABLE version_prefixes;
DROP TABLE prefixes;
DROP TABLE comments;
DROP TABLE reports;
DROP TABLE moves;
DROP TABLE tags;
DROP TABLE releases;
DROP TABLE applies;
DROP TABLE group_units;
DROP TABLE group_versions;
DROP TABLE alias_moves;
DROP TABLE aliases;
DROP TABLE versions;
DROP TABLE units;
DROP TABLE run_log;
DROP TABLE run_steps;
DROP TABLE run_refs;
DROP TABLE runs;
DROP TABLE pull_requests;
DROP TABLE heads;
DROP TABLE pushes;
DROP TABLE deliveries;
DROP TABLE hooks;
DROP TABLE gateways;
DROP TABLE workers;
DROP TABLE visits;
DROP TABLE sessions;
DROP TABLE outcomes;
DROP TABLE owners;
DROP TABLE tokens;
DROP TABLE apps;
DROP TABLE namespaces;
DROP TABLE counters;
