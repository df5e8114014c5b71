-- +goose Up

-- The id of the repository that an event names, by which those to the installation's hook are told apart; 0: it names none.
ALTER TABLE deliveries ADD COLUMN repository BIGINT NOT NULL DEFAULT 0;
CREATE INDEX pushes_delivery ON pushes (delivery);
UPDATE deliveries SET repository = COALESCE((SELECT MIN(a.github_id) FROM pushes p JOIN apps a ON a.id = p.app WHERE p.delivery = deliveries.id), 0)
    WHERE hook = '';
DROP INDEX pushes_delivery;
CREATE INDEX deliveries_repository ON deliveries (repository, received);

-- +goose Down

DROP INDEX deliveries_repository;
ALTER TABLE deliveries DROP COLUMN repository;
