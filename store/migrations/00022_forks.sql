-- +goose Up

-- The pull request from another repository to which the commit of a run belongs; 0: somebody with write access pushed it.
ALTER TABLE runs ADD COLUMN fork BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN approval TEXT NOT NULL DEFAULT ''; -- JSON: landfall.Approval, or empty
CREATE INDEX runs_waiting ON runs (created) WHERE state = 'waiting';
ALTER TABLE group_versions ADD COLUMN fork BIGINT NOT NULL DEFAULT 0; -- as of its run

-- +goose Down

DROP INDEX runs_waiting;
ALTER TABLE group_versions DROP COLUMN fork;
ALTER TABLE runs DROP COLUMN approval;
ALTER TABLE runs DROP COLUMN fork;
