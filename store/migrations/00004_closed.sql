-- +goose Up

-- Where the content of an app lies in the object store. That of the apps that exist stays under their names.
ALTER TABLE apps ADD COLUMN objects TEXT NOT NULL DEFAULT '';
UPDATE apps SET objects = 'apps/' || namespace || '/' || name || '/';

-- JSON: what the deletion of the app closed. It is empty for an app that exists, and for one whose deletion closed only its addresses.
ALTER TABLE apps ADD COLUMN closed TEXT NOT NULL DEFAULT '';

-- When the content of a deleted app was removed; 0: it is there.
ALTER TABLE apps ADD COLUMN removed BIGINT NOT NULL DEFAULT 0;

-- The functions and packages of a deleted app leave their namespace: its names are free.
UPDATE units SET scope = 'app/' || app WHERE kind IN ('function', 'package')
    AND app IN (SELECT id FROM apps WHERE deleted > 0);
CREATE INDEX units_name ON units (namespace, kind, name);

-- +goose Down
DROP INDEX units_name;
ALTER TABLE apps DROP COLUMN removed;
ALTER TABLE apps DROP COLUMN closed;
ALTER TABLE apps DROP COLUMN objects;
