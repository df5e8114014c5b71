-- +goose Up

-- 1: the installation went on although no object of its versions was there.
ALTER TABLE installations ADD COLUMN without_objects BIGINT NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE installations DROP COLUMN without_objects;
