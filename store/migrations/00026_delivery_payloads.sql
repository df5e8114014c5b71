-- +goose Up

-- What deliveries said, compressed, for a few days: for those that may have to be judged again.
CREATE TABLE delivery_payloads (
    hook     TEXT NOT NULL,
    delivery TEXT NOT NULL,
    account  TEXT NOT NULL,   -- those of one account have a limit together
    upto     BIGINT NOT NULL, -- bytes of the account's payloads up to this one, also of those that are gone
    received BIGINT NOT NULL,
    body     BYTEA NOT NULL,
    PRIMARY KEY (hook, delivery)
);
CREATE INDEX delivery_payloads_account ON delivery_payloads (account, upto);
CREATE INDEX delivery_payloads_received ON delivery_payloads (received);

-- +goose Down

DROP TABLE delivery_payloads;
