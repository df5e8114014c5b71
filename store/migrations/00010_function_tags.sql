-- +goose Up

-- Names, within a namespace, for versions of functions: at most one of each function.
CREATE TABLE function_tags (
    namespace TEXT NOT NULL REFERENCES namespaces (name),
    name      TEXT NOT NULL,
    declared  TEXT NOT NULL, -- where the spec of production declares it: FILE:LINE; empty: a person made it
    app       TEXT NOT NULL, -- whose spec that is, or empty
    moved     BIGINT NOT NULL,
    actor     TEXT NOT NULL, -- who moved it last
    PRIMARY KEY (namespace, name)
);

CREATE TABLE function_tag_entries (
    namespace TEXT NOT NULL,
    tag       TEXT NOT NULL,
    unit      TEXT NOT NULL REFERENCES units (id),
    number    BIGINT NOT NULL,
    PRIMARY KEY (namespace, tag, unit),
    FOREIGN KEY (namespace, tag) REFERENCES function_tags (namespace, name)
);
CREATE INDEX function_tag_entries_version ON function_tag_entries (unit, number);

-- Versions of functions that a version of a declared alias or function tag names, whatever its release has of them.
CREATE TABLE version_pins (
    unit          TEXT NOT NULL,
    number        BIGINT NOT NULL,
    target        TEXT NOT NULL,
    target_number BIGINT NOT NULL,
    PRIMARY KEY (unit, number, target, target_number)
);
CREATE INDEX version_pins_target ON version_pins (target, target_number);

-- Where the commit of a group version declares an alias or a function tag: FILE:LINE.
ALTER TABLE group_units ADD COLUMN declared TEXT NOT NULL DEFAULT '';

-- Where the spec of production declares an alias: FILE:LINE; empty: a person made it.
ALTER TABLE aliases ADD COLUMN declared TEXT NOT NULL DEFAULT '';

-- +goose Down

ALTER TABLE aliases DROP COLUMN declared;
ALTER TABLE group_units DROP COLUMN declared;
DROP TABLE version_pins;
DROP TABLE function_tag_entries;
DROP TABLE function_tags;
