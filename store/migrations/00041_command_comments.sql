-- +goose Up

-- The comments whose command an app was given. They stay: no command is obeyed twice, whoever sends it again.
CREATE TABLE command_comments (
    github_id  BIGINT NOT NULL,
    comment_id BIGINT NOT NULL,
    app        TEXT NOT NULL, -- its name, which it has again when it was deleted and made anew
    PRIMARY KEY (github_id, comment_id, app)
);

-- +goose Down

DROP TABLE command_comments;
