package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"landfall.dev/landfall/cli"
)

// A word that is no command is named as such at every depth, whatever flags come with it.
func TestNoSuchCommand(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"ap":                                `there is no command "landfall ap"; did you mean "app"?`,
		"ap --x":                            `there is no command "landfall ap"; did you mean "app"?`,
		"ap -z":                             `there is no command "landfall ap"; did you mean "app"?`,
		"--server http://localhost ap --x":  `there is no command "landfall ap"; did you mean "app"?`,
		"nosuch -o json":                    `there is no command "landfall nosuch"; known: `,
		"-o json nosuch":                    `there is no command "landfall nosuch"; known: `,
		"nosuch --output":                   `there is no command "landfall nosuch"; known: `,
		"nosuch --json":                     `there is no command "landfall nosuch"; known: `,
		"app nosuch --limit 3":              `there is no command "landfall app nosuch"; known: `,
		"app nosuch --limit=3 -f":           `there is no command "landfall app nosuch"; known: `,
		"fn nosuch --x":                     `there is no command "landfall function nosuch"; known: `,
		"spec versoin apply --dry-run":      `there is no command "landfall spec versoin"; did you mean "version"?`,
		"spec version aply --dry-run --x=y": `there is no command "landfall spec version aply"; did you mean "apply"?`,
		"app list --x":                      `unknown flag: --x; see: landfall app list --help`,
		"app list --json":                   `unknown flag: --json; JSON is printed with -o json`,
		"--x":                               `unknown flag: --x; see: landfall --help`,
	} {
		var stdout, stderr bytes.Buffer
		c := &cli.Call{Stdout: &stdout, Stderr: &stderr}
		code := c.Run(t.Context(), strings.Fields(args))
		if code != 2 || !strings.HasPrefix(stderr.String(), "landfall: "+want) || stdout.Len() > 0 {
			t.Errorf("landfall %s: got exit code %d, %q and %q; want 2 and %q", args, code, &stdout, &stderr, want)
		}
	}
}
