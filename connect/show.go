package connect

import (
	"context"

	"landfall.dev/landfall/github"
)

// Installations asks GitHub where the App is installed. NotFound when none is connected; Forbidden, with a sentence,
// when GitHub does not accept it; Unavailable when it does not answer.
func (c *Connection) Installations(ctx context.Context) ([]github.Installation, error) {
	app, err := c.app(ctx)
	if err != nil {
		return nil, err
	}
	return c.tokens.Installations(ctx, app)
}
