package cli

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"landfall.dev/landfall/api/client"
)

const tokenFileHelp = "file that holds the password or token for the repository (-: the standard input)"

// credentialFlags say how an app's repository is reached from now on.
type credentialFlags struct {
	username  string
	tokenFile string
	noToken   bool
}

func (f *credentialFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.username, "repo-user", "", "user name for the repository (default: it stays)")
	flags.StringVar(&f.tokenFile, "repo-token-file", "", tokenFileHelp)
	flags.BoolVar(&f.noToken, "no-repo-token", false, "remove the password or token for the repository")
}

// change reports whether they change anything.
func (f *credentialFlags) change() bool { return f.tokenFile != "" || f.noToken }

func (f *credentialFlags) check() error {
	if f.tokenFile != "" && f.noToken {
		return Invalid("--repo-token-file stores a token, and --no-repo-token removes it: leave one of them out")
	}
	return nil
}

// setCredentials says how an app's repository is reached from now on, and stores the server's answer in app.
func (c *Call) setCredentials(ctx context.Context, cl *client.Client, in Operands, f credentialFlags,
	app *client.App) error {
	path := appPath(in, "credentials")
	if f.noToken {
		return cl.Do(ctx, http.MethodDelete, path, nil, app)
	}
	if f.tokenFile == "" {
		return nil
	}
	token, err := c.readCredential(f.tokenFile)
	if err != nil {
		return err
	}
	set := client.Credentials{Password: token}
	if f.username != "" {
		set.Username = &f.username
	}
	return cl.Do(ctx, http.MethodPut, path, set, app)
}

// readCredential reads a token or key from a file, or from the standard input for "-"; nothing without a file.
func (c *Call) readCredential(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	if file != "-" {
		return readSecret(file)
	}
	const most = 64 << 10
	data, err := io.ReadAll(io.LimitReader(c.Stdin, most))
	return strings.TrimSpace(string(data)), err
}

// showCredentials shows how an app's repository is reached, without what is secret of it.
func showCredentials(t *Table, app client.App) {
	if !app.TokenSet.IsZero() {
		t.field("repository token", "set on "+Local(app.TokenSet))
	}
	if app.DeployKey != nil {
		showKey(t, *app.DeployKey)
	}
}
