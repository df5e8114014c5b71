package store

import (
	"context"
	"encoding/json"
	"time"

	"landfall.dev/landfall"
)

const commandColumns = `id, kind, github_id, owner, name, apps, number, sender_id, sender, data, comment_id, delivery,
	received, attempts, next_at, problem, obeyed, reaction, answer`

func scanCommand(row scanner) (landfall.Command, error) {
	var c landfall.Command
	var apps string
	var received, next int64
	err := row.Scan(&c.ID, &c.Kind, &c.Repository.ID, &c.Repository.Owner, &c.Repository.Name, &apps, &c.Number,
		&c.Sender.ID, &c.Sender.Login, &c.Data, &c.Comment, &c.Delivery, &received, &c.Attempts, &next, &c.Problem,
		&c.Obeyed, &c.Reaction, &c.Answer)
	if err != nil {
		return c, err
	}
	c.Received, c.NextAt = timeOf(received), timeOf(next)
	return c, json.Unmarshal([]byte(apps), &c.Apps)
}

// CreateCommand adds a command to the queue. Its ID is given, and it is due when it was received.
func (tx *Tx) CreateCommand(ctx context.Context, c landfall.Command) error {
	id, err := tx.next(ctx, "commands")
	if err != nil {
		return err
	}
	apps, err := json.Marshal(c.Apps)
	if err != nil {
		return err
	}
	return tx.exec(ctx, "store.CreateCommand", `INSERT INTO commands (`+commandColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, $13, '', 0, '', '')`,
		id, c.Kind, c.Repository.ID, c.Repository.Owner, c.Repository.Name, string(apps), c.Number, c.Sender.ID,
		c.Sender.Login, c.Data, c.Comment, c.Delivery, micros(c.Received))
}

// Command returns a command. NotFound when it is gone.
func (q queries) Command(ctx context.Context, id int64) (landfall.Command, error) {
	return one(ctx, q, "store.Command", scanCommand, `SELECT `+commandColumns+` FROM commands WHERE id = $1`, id)
}

// CommandsOf returns the commands of a pull request that are kept, the oldest first.
func (q queries) CommandsOf(ctx context.Context, r landfall.GitHubRepository, number int) ([]landfall.Command, error) {
	return list(ctx, q, "store.CommandsOf", scanCommand, `SELECT `+commandColumns+` FROM commands
		WHERE github_id = $1 AND owner = $2 AND name = $3 AND number = $4 ORDER BY id`, r.ID, r.Owner, r.Name, number)
}

// answersKept is how many of the commands of a pull request that were answered are kept.
const answersKept = 3

// AnswerCommand records what became of a command: which apps are left, whether it was obeyed, its reaction, answer and
// problem. Of the commands that need nothing more it keeps those with the last answers.
func (tx *Tx) AnswerCommand(ctx context.Context, c landfall.Command) error {
	const op = "store.AnswerCommand"
	apps, err := json.Marshal(c.Apps)
	if err != nil {
		return err
	}
	err = tx.exec(ctx, op, `UPDATE commands SET apps = $2, obeyed = $3, reaction = $4, answer = $5, problem = $6,
		attempts = 0 WHERE id = $1`, c.ID, string(apps), c.Obeyed, c.Reaction, c.Answer, c.Problem)
	if err != nil {
		return err
	}
	return tx.exec(ctx, op, `DELETE FROM commands WHERE github_id = $1 AND owner = $2 AND name = $3 AND number = $4
		AND obeyed = 1 AND reaction = '' AND (answer = '' OR id NOT IN (SELECT id FROM commands
			WHERE github_id = $1 AND owner = $2 AND name = $3 AND number = $4 AND answer <> '' ORDER BY id DESC LIMIT $5 + 0))`,
		c.Repository.ID, c.Repository.Owner, c.Repository.Name, c.Number, answersKept)
}

// Commands is the durable queue of commands. Only the leader works on it.
type Commands struct{ DB *DB }

// Due returns commands that must be obeyed, or whose reaction must be sent, and that may be tried by now, the oldest
// first.
func (c Commands) Due(ctx context.Context, now time.Time, limit int) ([]landfall.Command, error) {
	return list(ctx, c.DB.queries, "store.Commands", scanCommand, `SELECT `+commandColumns+` FROM commands
		WHERE (obeyed = 0 OR reaction <> '') AND next_at <= $1 ORDER BY id LIMIT $2 + 0`, micros(now), limit)
}

// Reacted records that nothing more is to be sent about a command, and why not when there is a problem.
func (c Commands) Reacted(ctx context.Context, command landfall.Command, problem string) error {
	command.Reaction, command.Problem = "", problem
	return c.DB.UpdateAsLeader(ctx, func(tx *Tx) error { return tx.AnswerCommand(ctx, command) })
}

// Postpone records that a command is to be tried again at the given time, and why.
func (c Commands) Postpone(ctx context.Context, command landfall.Command, at time.Time, problem string) error {
	return c.DB.UpdateAsLeader(ctx, func(tx *Tx) error {
		return tx.exec(ctx, "store.Commands",
			`UPDATE commands SET next_at = $2, attempts = attempts + 1, problem = $3 WHERE id = $1`, command.ID, micros(at),
			problem)
	})
}
