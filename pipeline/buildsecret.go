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

// buildSecrets are the secrets for the builds of a run. Builds of forks get none; every other push gets them.
type buildSecrets struct {
	values map[string]secret.Text // by name
	marks  map[string]string      // fingerprints, which only the holder of the key can compute
	images map[string]secret.Text // by the names of secrets: passwords of registries for images, which no command gets
	none   string                 // why there are none; empty: there may be some
}

// findBuildSecrets finds the newest values for the builds of a line. It leaves out revoked ones.
func (s source) findBuildSecrets(ctx context.Context, line landfall.Line) (buildSecrets, error) {
	building := buildSecrets{values: map[string]secret.Text{}, images: map[string]secret.Text{},
		marks: map[string]string{}}
	if s.run.Fork != 0 {
		building.none = "and a fork gets no secrets"
		return building, nil
	}
	versions := map[string]secret.Text{} // all values, by the names that logs show
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
		if name == secret.DockerConfig || slices.ContainsFunc(s.spec.Environments, func(e spec.Environment) bool {
			return pullSecret(e) == name
		}) {
			building.images[name] = value
			continue
		}
		building.values[name] = value
		building.marks[name] = hex.EncodeToString(s.Secrets.Fingerprint(owner, value))
	}
	s.hide, err = s.redactor(ctx, s.app, versions) // a secret may have been set since the run began
	return building, err
}

// pullSecret returns the name of the secret with which an environment's image is pulled; empty when it is not pulled,
// or names none.
func pullSecret(e spec.Environment) string {
	read, _, err := spec.ReadEnvironmentVersion(e.Name, e.Spec)
	if err != nil || environment.PullImage(e.Name, read.Image) == "" {
		return ""
	}
	return spec.ReadPullSecret(e.Spec)
}

// logins returns the passwords of registries, by their hosts, for the image of an environment. Invalid, with what to
// do, when the image names a secret that does not exist.
func (b buildSecrets) logins(e spec.Environment) (map[string]secret.Login, error) {
	name := cmp.Or(pullSecret(e), secret.DockerConfig)
	config, found := b.images[name]
	if pullSecret(e) != "" && b.none != "" {
		return nil, landfall.Errorf("pipeline.logins", landfall.Invalid, "its image needs the secret %s, %s", name, b.none)
	}
	if !found && name != secret.DockerConfig {
		return nil, landfall.Errorf("pipeline.logins", landfall.Invalid,
			"its imagepullsecret %s is no secret of builds of this app; type: landfall secret set APP %s --build, with the "+
				"text of a config.json of Docker", name, name)
	}
	if !found {
		return map[string]secret.Login{}, nil
	}
	return secret.Logins(config)
}

// addTo adds the secrets to a command and its environment. A secret that is a file is written to the sandbox's home,
// which is never a part of the output and is deleted with the command.
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

// checkOutputs fails when a build output contains a secret of the build, in the file or its name.
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
			return landfall.Errorf("pipeline.build", landfall.Invalid,
				"the build of %s made %s, which shows %s: what a build makes is served or run, so let it write such a file "+
					"below $HOME, or remove it at the end", job.what, find.String(f.Path), mark)
		}
	}
	return nil
}

// markIn returns the mark of a secret that a file contains, or its path; empty when there is none.
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
