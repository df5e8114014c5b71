-- +goose Up

-- 1: the installation's hook named the repository github_id, too. What an app's own hook says, its people may have made up.
ALTER TABLE apps ADD COLUMN github_confirmed INTEGER NOT NULL DEFAULT 0;

-- Which apps a delivery to the installation's hook was for, as was found when it came.
CREATE TABLE shared_deliveries (
    delivery TEXT NOT NULL,
    app      TEXT NOT NULL,
    PRIMARY KEY (app, delivery)
);
CREATE INDEX shared_deliveries_delivery ON shared_deliveries (delivery);

-- An earlier program went by the id alone, and took the names from each delivery to the installation's hook: those of a foreign one are not
-- what the app's address ends with. The runs tell such a delivery from one to the app's own hook, which may have any id.
INSERT INTO shared_deliveries (delivery, app)
    SELECT DISTINCT p.delivery, p.app FROM pushes p JOIN deliveries d ON d.hook = '' AND d.id = p.delivery
    JOIN run_refs r ON r.push = p.id AND d.runs LIKE '%"' || r.run || '"%'
    JOIN (SELECT id, github_id, '/' || REPLACE(LOWER(RTRIM(repository, '/')) || '/', '.git/', '/') AS address,
        LOWER('/' || github_owner || '/' || github_name || '/') AS named FROM apps) a
        ON a.id = p.app AND a.github_id = d.repository AND SUBSTR(a.address, LENGTH(a.address) - LENGTH(a.named) + 1) = a.named
    WHERE d.repository <> 0;

-- At another host, a repository of any names can be made up: there, the next delivery that has the app's address confirms.
UPDATE apps SET github_confirmed = 1 WHERE id IN (SELECT app FROM shared_deliveries)
    AND LOWER(repository) IN (LOWER('https://github.com/' || github_owner || '/' || github_name),
        LOWER('https://github.com/' || github_owner || '/' || github_name || '.git'));
DROP INDEX deliveries_repository;

-- +goose Down

CREATE INDEX deliveries_repository ON deliveries (repository, received);
DROP TABLE shared_deliveries;
ALTER TABLE apps DROP COLUMN github_confirmed;
