package pipeline

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
)

// buildSecrets are the secrets that the builds of a run get. Forks have no builds; every other push gets them.
type buildSecrets struct {
	values map[string]secret.Text // by name
	marks  map[string]string      // what tells the values apart, to who has the key
	images map[string]secret.Text // by the names of secrets: registries' passwords for images, which no command gets
}

// findBuildSecrets finds the values that builds of a line get: those that were set last. One that was revoked is left out.
func (s source) findBuildSecrets(ctx context.Context, line landfall.Line) (buildSecrets, error) {
	building := buildSecrets{values: map[string]secret.Text{}, images: map[string]secret.Text{}, marks: map[string]string{}}
	versions := map[string]secret.Text{} // all, by the names that logs show
	owned, err := s.DB.UnitsOf(ctx, s.app.ID)
	if err != nil {
		return building, err
	}
	for _, row := range owned {
		if row.Unit.Kind != landfall.SecretUnit {
			continue
		}
		name := row.Unit.Name
		v, err := deploy.NewestSecret(ctx, s.DB, row, line, true)
		if err != nil {
			if landfall.KindOf(err) == landfall.NotFound {
				continue
			}
			return building, err
		}
		content, err := secret.ReadContent(v.Content)
		if err != nil {
			return building, err
		}
		if !content.Revoked.IsZero() {
			s.logf("the secret %s (no. %d) was revoked: builds do not get it", name, v.Number)
			continue
		}
		if s.Secrets == nil {
			return building, deploy.NoKey("pipeline.findBuildSecrets")
		}
		owner := secret.Owner{App: s.app.ID, Name: name}
		value, err := s.Secrets.Open(owner, content.Sealed)
		if err != nil {
			return building, err
		}
		versions[fmt.Sprintf("%s:%d", name, v.Number)] = value
		if name == secret.DockerConfig || slices.ContainsFunc(s.spec.Environments, func(e spec.Environment) bool { return pullSecret(e) == name }) {
			building.images[name] = value
			continue
		}
		building.values[name] = value
		building.marks[name] = hex.EncodeToString(s.Secrets.Fingerprint(owner, value))
	}
	s.hide, err = s.redactor(ctx, s.app, versions) // one may have been set since the run began
	return building, err
}

// pullSecret returns the name of the secret by which an environment's image is pulled; empty: it is not pulled, or names none.
func pullSecret(e spec.Environment) string {
	read, _, err := spec.ReadEnvironmentVersion(e.Name, e.Spec)
	if err != nil || environment.PullImage(e.Name, read.Image) == "" {
		return ""
	}
	return spec.ReadPullSecret(e.Spec)
}

// logins returns the passwords of registries, by their hosts, for the image of an environment. Invalid, with what to do, when it names a
// secret that is none.
func (b buildSecrets) logins(e spec.Environment) (map[string]secret.Login, error) {
	name := cmp.Or(pullSecret(e), secret.DockerConfig)
	config, found := b.images[name]
	if !found && name != secret.DockerConfig {
		return nil, &landfall.Error{Op: "pipeline.logins", Kind: landfall.Invalid, Message: fmt.Sprintf(
			"its imagepullsecret %s is no secret of builds of this app; type: landfall secret set APP %s --build, with the text of a config.json of Docker",
			name, name)}
	}
	if !found {
		return map[string]secret.Login{}, nil
	}
	return secret.Logins(config)
}

// addTo returns a command and its environment with the secrets. Those that are files are written where the sandbox has its home, which
// no output has anything of, and which ends with the command.
func (b buildSecrets) addTo(command string, env map[string]string) (string, map[string]string) {
	if len(b.values) == 0 {
		return command, env
	}
	with := maps.Clone(env)
	if with == nil {
		with = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(b.values)) {
		with[secret.Variable(name)] = b.values[name].Reveal()
	}
	var files strings.Builder
	for _, f := range []struct{ name, path, then string }{
		{secret.NPMConfig, ".npmrc", "unset " + secret.NPMConfig},
		{secret.NetRC, ".netrc", "export " + secret.NetRC + `="$HOME/.netrc"`},
	} {
		if _, given := b.values[f.name]; given {
			fmt.Fprintf(&files, "(umask 077; printf '%%s\\n' \"$%s\" > \"$HOME/%s\"); %s\n", f.name, f.path, f.then)
		}
	}
	return files.String() + command, with
}

// checkOutputs fails when a file that a build made has a secret of the build in it, or in its name.
func (b buildSecrets) checkOutputs(dir string, job buildJob, files []landfall.File) error {
	find := secret.NewRedactor(secret.Passwords(b.values))
	if find == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, f := range files {
		mark, err := markIn(root, f.Path, find)
		if err != nil {
			return err
		}
		if mark != "" {
			return &landfall.Error{Op: "pipeline.build", Kind: landfall.Invalid, Message: fmt.Sprintf(
				"the build of %s made %s, which shows %s: what a build makes is served or run, so let it write such a file below $HOME, or remove it at the end",
				job.what, find.String(f.Path), mark)}
		}
	}
	return nil
}

// markIn returns what stands for the secret that a file has in it, or in its path; empty when there is none.
func markIn(root *os.Root, path string, find *secret.Redactor) (string, error) {
	if mark, err := find.Read(strings.NewReader(path)); mark != "" || err != nil {
		return mark, err
	}
	info, err := root.Lstat(filepath.FromSlash(path))
	if err != nil {
		return "", err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		target, err := root.Readlink(filepath.FromSlash(path))
		if err != nil {
			return "", err
		}
		return find.Read(strings.NewReader(target))
	}
	f, err := root.Open(filepath.FromSlash(path))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	return find.Read(f)
}
