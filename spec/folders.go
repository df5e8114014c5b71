package spec

import (
	"encoding/json"
	"path"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
)

// These are the folders in which functions find files as they do with Fission.
const (
	SecretsFolder = "/secrets"
	ConfigsFolder = "/configs"
)

// MaxFiles is how many files a function may have below the two folders, because a sandbox may need an open file for
// each when it starts.
const MaxFiles = 500

// folders returns the folders of a stored function: one for each secret and each config map that it names. The
// configmaps of earlier versions were never checked, so it ignores what is no list of names.
func folders(secrets []reference, configMaps json.RawMessage) []string {
	var all []string
	add := func(folder string, r reference) {
		namespace := r.Namespace
		if namespace == "" {
			namespace = landfall.DefaultNamespace
		}
		if isObjectName(namespace) && r.Name != "" && path.Base(r.Name) == r.Name && r.Name != ".." && r.Name != "." {
			all = append(all, path.Join(folder, namespace, r.Name))
		}
	}
	for _, r := range secrets {
		add(SecretsFolder, r)
	}
	var named []reference
	if json.Unmarshal(configMaps, &named) == nil {
		for _, r := range named {
			add(ConfigsFolder, r)
		}
	}
	return all
}

// configMaps returns the config maps that a function names.
func (d *document) configMaps(n nodes, function string, named []reference) []Named {
	if len(named) > MaxNamed {
		d.problemf(n.at("spec", "configmaps"), "Function %s names %d config maps; it may name %d", function, len(named),
			MaxNamed)
		return nil
	}
	var all []Named
	for i, r := range named {
		c := Named{Pos: itemOf(n, i, "spec", "configmaps"), Name: r.Name, Namespace: r.Namespace}
		if !isObjectName(c.Name) || !isObjectName(c.Namespace) {
			d.problemf(c.Pos, "Function %s: %s in the namespace %s is no name of a config map: it has a to z, 0 to 9, - and .",
				function, quote(c.Name), quote(c.Namespace))
			continue
		}
		all = append(all, c)
	}
	return all
}

// itemOf returns the position of an item of a list.
func itemOf(n nodes, i int, at ...string) Position {
	items := n.node
	for _, name := range at {
		items, _ = child(items, name)
	}
	if items != nil && i < len(items.Content) {
		return n.pos(items.Content[i])
	}
	return n.at(at...)
}

// checkConfigMaps reports the config maps that functions name and the configuration of the app does not have.
func (r *reader) checkConfigMaps() {
	config := map[string]json.RawMessage{}
	if app := r.spec.App; app != nil && len(app.Config) > 0 {
		_ = json.Unmarshal(app.Config, &config) // it was made here
	}
	for _, f := range r.spec.Functions {
		files := len(f.Secrets) // each secret has at least one key; the number is not known here
		for _, c := range f.ConfigMaps {
			keys := map[string]json.RawMessage{}
			value, found := config[c.Name]
			if !found || json.Unmarshal(value, &keys) != nil {
				r.problemf(c.Pos,
					"Function %s names the config map %s, which the configuration of the app does not have: write it as a mapping "+
						"below spec.config of the App, such as config: {%s: {KEY: value}}", f.Name, c.Name, c.Name)
				continue
			}
			if files += len(keys); files > MaxFiles {
				r.problemf(c.Pos,
					"Function %s names config maps and secrets with %d keys; it may have %d, each a file: put several values "+
						"into one key, as a mapping", f.Name, files, MaxFiles)
				break
			}
			for _, key := range sortedKeys(keys) {
				if !secret.IsFileName(key) {
					r.problemf(c.Pos,
						"Function %s names the config map %s, whose key %s can be no file: a key has letters, digits, -, _ and .",
						f.Name, c.Name, quote(key))
				}
			}
		}
	}
}
