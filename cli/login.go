package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"golang.org/x/term"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/secret"
)

const defaultServer = "http://localhost:8080"

// TokenFile is the file of a data folder that holds the administrator's token.
const TokenFile = "token"

// login is what `landfall login` keeps. The token is for this server only.
type login struct {
	Server string `yaml:"server"`
	Token  string `yaml:"token"`
}

// loginFile returns where `landfall login` keeps it; empty when this user has no folder for such things.
func loginFile() string {
	if folder, err := os.UserConfigDir(); err == nil {
		return filepath.Join(folder, "landfall", "config.yaml")
	}
	return ""
}

// readLogin returns what was kept; a zero login when there is none.
func readLogin() (login, error) {
	var l login
	file := loginFile()
	data, err := os.ReadFile(filepath.Clean(file))
	if file == "" || errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = yaml.Unmarshal(data, &l)
	}
	if err != nil {
		return l, Invalid("%s cannot be read: %v; landfall login writes it anew", file, err)
	}
	return l, nil
}

func (l login) write() (string, error) {
	file := loginFile()
	if file == "" {
		return "", Invalid("there is no folder to keep the login in; set LANDFALL_SERVER and LANDFALL_TOKEN")
	}
	data, err := yaml.Marshal(l)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = secret.WriteFile(file, string(data))
	}
	if err != nil {
		return "", Invalid("the login cannot be kept: %v", err)
	}
	return file, nil
}

// address returns the address of the server to talk to.
func (c *Call) address(kept login) (string, error) {
	address := cmp.Or(c.server, c.Getenv("LANDFALL_SERVER"), kept.Server, defaultServer)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return "", Invalid("the server is %q; right would be https://HOST or http://HOST:PORT", address)
	}
	return strings.TrimSuffix(address, "/"), nil
}

// whereItIs says where a person who has no token finds one.
const whereItIs = "the server's first start put one into the file token of its data folder"

// token returns the token for a server; empty when there is none.
func (c *Call) token(server string, kept login) (string, error) {
	const first = "which counts before landfall login: set one that the server knows, or unset it"
	if token := c.Getenv("LANDFALL_TOKEN"); token != "" {
		c.source = "LANDFALL_TOKEN, " + first
		return token, nil
	}
	if file := c.Getenv("LANDFALL_TOKEN_FILE"); file != "" {
		c.source = "the file " + file + " that LANDFALL_TOKEN_FILE names, " + first
		return readSecret(file)
	}
	if kept.Token != "" && kept.Server == server {
		c.source = loginFile() + ": type landfall login " + server + " with one that the server knows; " + whereItIs
		return kept.Token, nil
	}
	return c.dataToken(server), nil
}

// dataToken returns the administrator's token from the data folder of a server on this machine; empty when there is
// none.
func (c *Call) dataToken(server string) string {
	folder := cmp.Or(c.Getenv("LANDFALL_DATA"), "landfall-data")
	if u, err := url.Parse(server); err == nil && isLocal(u.Hostname()) {
		file := filepath.Join(folder, TokenFile)
		if token, err := readSecret(file); err == nil {
			c.source = "the file " + file +
				", of a data folder that is not this server's: name the right one with LANDFALL_DATA, or type landfall login"
			return token
		}
	}
	return ""
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || (ip != nil && ip.IsLoopback())
}

// readSecret reads a file that holds a token or a password.
func readSecret(file string) (string, error) {
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return "", Invalid("%s cannot be read: %v", file, err)
	}
	return strings.TrimSpace(string(data)), nil
}

// Client returns a client of the server, with the token that is at hand.
func (c *Call) Client() (*client.Client, error) {
	kept, err := readLogin()
	if err != nil {
		return nil, err
	}
	server, err := c.address(kept)
	if err != nil {
		return nil, err
	}
	token, err := c.token(server, kept)
	if err != nil {
		return nil, err
	}
	if token == "" {
		return nil, landfall.Errorf("cli", landfall.Unauthorized,
			"there is no token for %s: type landfall login, or set LANDFALL_TOKEN (%s)", server, whereItIs)
	}
	return &client.Client{URL: server, Token: token}, nil
}

func (c *Call) loginCommand() *cobra.Command {
	var tokenFrom string
	cmd := c.Command("login [SERVER]", "Keep a server's address and a token for later commands",
		"landfall login https://landfall.example.com --token-file token\nlandfall login < token\nlandfall login",
		func(ctx context.Context, in Operands) error {
			c.server = in["server"]
			server, err := c.address(login{})
			if err != nil {
				return err
			}
			token, err := c.loginToken(server, tokenFrom)
			if err != nil {
				return err
			}
			var status client.Status
			if err := (&client.Client{URL: server, Token: token}).Do(ctx, http.MethodGet, "/status", nil, &status); err != nil {
				return err
			}
			file, err := login{server, token}.write()
			if err != nil {
				return err
			}
			return c.Print(status, func(t *Table) {
				t.Row(fmt.Sprintf("logged in to %s as %s (%s); kept in %s", server, status.Token, status.Scope, file))
			})
		})
	cmd.Long = `Keep a server's address and a token for later commands.

The token is read from --token-file, from standard input, or, for a server on this machine, from its data
folder.`
	cmd.Flags().StringVar(&tokenFrom, "token-file", "", "file that holds the token")
	return cmd
}

// loginToken reads the token for a login: from the file, from a pipe, from the data folder, from a person.
func (c *Call) loginToken(server, file string) (string, error) {
	if file != "" {
		c.source = "the file " + file + "; " + whereItIs
		return readSecret(file)
	}
	const maxToken = 4096
	if !IsTerminal(c.Stdin) {
		data, err := io.ReadAll(io.LimitReader(c.Stdin, maxToken))
		if err != nil {
			return "", Invalid("the token cannot be read from standard input: %v", err)
		}
		if token := strings.TrimSpace(string(data)); token != "" {
			c.source = "standard input; " + whereItIs
			return token, nil
		}
	}
	if token := c.dataToken(server); token != "" {
		return token, nil
	}
	if f, ok := c.Stdin.(*os.File); ok && IsTerminal(f) && IsTerminal(c.Stderr) {
		fmt.Fprint(c.Stderr, "Token: ")
		data, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(c.Stderr)
		if err == nil && len(data) > 0 {
			return strings.TrimSpace(string(data)), nil
		}
	}
	return "", Invalid("there is no token: name its file with --token-file, or give it on standard input")
}

func (c *Call) statusCommand() *cobra.Command {
	return c.get("status", "Show the server and who you are to it", "landfall status\nlandfall status -o json",
		func(ctx context.Context, cl *client.Client, _ Operands) error {
			return ask(ctx, cl, http.MethodGet, "/status", nil, c.showStatus)
		})
}

func (c *Call) showStatus(s client.Status) error {
	return c.Print(s, func(t *Table) {
		t.field("server", s.URL)
		t.field("releases", "APP."+s.Domain)
		t.field("token", s.Token+" ("+s.Scope+")")
		t.field("apps", strconv.Itoa(s.Apps))
		t.field("roles here", strings.Join(s.Roles, ", "))
		t.field("sandbox", s.Sandbox)
		for _, what := range s.Lacks {
			t.field("  without", what)
		}
		t.field("functions' network", s.Network)
		t.field("proxy", s.Proxy)
		t.field("git remote", map[bool]string{true: "on", false: "off: the server has no git"}[s.Remote])
		t.field("workers", map[bool]string{true: "none is alive: runs wait for one"}[s.Waiting])
		t.field("oldest unfinished run", Local(s.Oldest))
		for _, problem := range s.Problems {
			t.field("problem", problem)
		}
	})
}
