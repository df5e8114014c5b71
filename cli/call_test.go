package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"landfall.dev/landfall/cli"
)

// Help is there for every command.
func TestHelp(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"help": "Available Commands:", "help app list": "landfall app list",
		"help app": "landfall app", "help function create": "A label and a function tag have at most 100 characters",
		"help package version update": "(LANDFALL_MAX_FILE_BYTES)"} {
		var stdout, stderr bytes.Buffer
		c := &cli.Call{Stdout: &stdout, Stderr: &stderr}
		if code := c.Run(t.Context(), strings.Fields(args)); code != 0 || !strings.Contains(stdout.String(), want) {
			t.Errorf("landfall %s: got exit code %d, %q and %q; want %q", args, code, &stdout, &stderr, want)
		}
	}
}

// A word that is no command is named as such at every depth, whatever flags come with it, and a flag with a wrong value
// by its name.
func TestNoSuchCommand(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"ap":                                       `there is no command "landfall ap"; did you mean "app"?`,
		"ap --x":                                   `there is no command "landfall ap"; did you mean "app"?`,
		"ap -z":                                    `there is no command "landfall ap"; did you mean "app"?`,
		"--server http://localhost ap --x":         `there is no command "landfall ap"; did you mean "app"?`,
		"nosuch -o json":                           `there is no command "landfall nosuch"; known: `,
		"-o json nosuch":                           `there is no command "landfall nosuch"; known: `,
		"nosuch --output":                          `there is no command "landfall nosuch"; known: `,
		"nosuch --json":                            `there is no command "landfall nosuch"; known: `,
		"app nosuch --limit 3":                     `there is no command "landfall app nosuch"; known: `,
		"app nosuch --limit=3 -f":                  `there is no command "landfall app nosuch"; known: `,
		"fn nosuch --x":                            `there is no command "landfall function nosuch"; known: `,
		"spec versoin apply --dry-run":             `there is no command "landfall spec versoin"; did you mean "version"?`,
		"spec version aply --dry-run --x=y":        `there is no command "landfall spec version aply"; did you mean "apply"?`,
		"app list --x":                             `unknown flag: --x; see: landfall app list --help`,
		"app list --json":                          `unknown flag: --json; JSON is printed with -o json`,
		"run list --limit x":                       `--limit is "x"; right would be a whole number`,
		"run list --state foo":                     `--state is "foo"; right would be queued, running, waiting, succeeded,`,
		"execution list --state bar":               `--state is "bar"; right would be queued, running, succeeded or failed`,
		"app set web --previews foo":               `--previews is "foo"; right would be public or signed-in`,
		"app create web --previews foo":            `--previews is "foo"; right would be public or signed-in`,
		"app set web --keep-files abc":             `--keep-files is "abc"; right would be a length of time such as 24h or 7d, or 0 for never`,
		"token create x --scope read --app=":       `--app is empty; give it a value, or leave it out`,
		"token create x --scope read --namespace=": `--namespace is empty; `,
		"token create x --scope read --expires=":   `--expires is empty; `,
		"function version delete hello --version=": `VERSION is missing: landfall function version delete`,
		"help fo":                                  `there is no command "landfall fo"; `,
		"help app fo":                              `there is no command "landfall app fo"; `,
		"logs web":                                 `there is no command "landfall logs"; there are: landfall execution logs ID, landfall function logs NAME, landfall run logs ID`,
		"--x":                                      `unknown flag: --x; see: landfall --help`,
	} {
		var stdout, stderr bytes.Buffer
		c := &cli.Call{Stdout: &stdout, Stderr: &stderr, Getenv: func(name string) string {
			// Nobody asks the server.
			return map[string]string{"LANDFALL_SERVER": "http://127.0.0.1:1", "LANDFALL_TOKEN": "none"}[name]
		}}
		code := c.Run(t.Context(), strings.Fields(args))
		if code != 2 || !strings.HasPrefix(stderr.String(), "landfall: "+want) || stdout.Len() > 0 {
			t.Errorf("landfall %s: got exit code %d, %q and %q; want 2 and %q", args, code, &stdout, &stderr, want)
		}
	}
}
