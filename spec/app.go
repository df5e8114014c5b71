package spec

import (
	"cmp"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

func readApp(d *document, o Object, spec map[string]any, n nodes) {
	if err := landfall.CheckAppName(o.Name); err != nil {
		d.problemf(n.at("metadata", "name"), "%s", landfall.MessageOf(err))
	}
	var known struct {
		Config  json.RawMessage        `json:"config"`
		Build   *Build                 `json:"build"`
		Static  []Static               `json:"static"`
		Release landfall.ReleasePolicy `json:"release"`
	}
	if !d.finish(&o, spec, &known) {
		return
	}
	app := &App{Object: o, Config: known.Config, Build: known.Build, Static: known.Static, Release: known.Release}
	d.spec.App = app
	d.checkBuild(app.Build, n)
	d.checkStatic(app.Static, n)
	d.checkRelease(app.Release, spec, n)
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (d *document) checkBuild(b *Build, n nodes) {
	if b == nil {
		return
	}
	if strings.TrimSpace(b.Command) == "" {
		d.problemf(n.at("spec", "build", "command"), "build needs a command")
	}
	if len(b.Outputs) == 0 {
		d.problemf(n.at("spec", "build", "outputs"), "build needs outputs: the files and folders that it makes")
	}
	if b.Environment != "" && !isObjectName(b.Environment) {
		d.problemf(n.at("spec", "build", "environment"), "build.environment: %s is no environment's name",
			quote(b.Environment))
	}
	d.globs(n, b.Inputs, "spec", "build", "inputs")
	d.globs(n, b.Outputs, "spec", "build", "outputs")
	for _, name := range sortedKeys(b.Env) {
		if !variable.MatchString(name) {
			d.problemf(n.at("spec", "build", "env", name), "build.env: %s is no name of a variable", quote(name))
		}
	}
}

// checkStatic checks the entries of "static:", sets their positions and sorts them.
func (d *document) checkStatic(entries []Static, n nodes) {
	list, _ := child(n.node, "spec")
	list, _ = child(list, "static")
	seen := map[string]Position{}
	for i := range entries {
		s := &entries[i]
		entry := nodes{d, list.Content[i]}
		s.Pos = entry.pos(entry.node)
		d.checkEntry(s, entry)
		if first, ok := seen[s.Path]; ok && s.Path != "" {
			d.problemf(entry.at("path"), "static path %s is already served by the entry at %s", quote(s.Path), first)
		} else {
			seen[s.Path] = entry.at("path")
		}
	}
	slices.SortStableFunc(entries, func(a, b Static) int { return cmp.Compare(a.Path, b.Path) })
}

func (d *document) checkEntry(s *Static, entry nodes) {
	if s.Src == "" {
		d.problemf(entry.pos(entry.node), "a static entry needs a src")
	} else if wrong := checkGlob(s.Src); wrong != "" {
		d.problemf(entry.at("src"), "static src %s %s", quote(s.Src), wrong)
	}
	s.Src = path.Clean(s.Src)
	if s.Path == "" {
		d.problemf(entry.pos(entry.node), "a static entry needs a path")
	} else if wrong := checkAddress(s.Path); wrong != "" {
		d.problemf(entry.at("path"), "static path %s %s", quote(s.Path), wrong)
	}
	d.globs(entry, s.Exclude, "exclude")
	if s.Fallback == "" {
		return
	}
	if wrong := checkPath(s.Fallback); wrong != "" {
		d.problemf(entry.at("fallback"), "static fallback %s %s", quote(s.Fallback), wrong)
	}
	s.Fallback = path.Clean(s.Fallback)
}

func (d *document) checkRelease(p landfall.ReleasePolicy, spec map[string]any, n nodes) {
	written, _ := spec["release"].(map[string]any)
	if _, ok := written["keep"]; ok && p.Keep < landfall.MinKeep {
		d.problemf(n.at("spec", "release", "keep"), "release.keep is %d; it must be at least %d", p.Keep, landfall.MinKeep)
	}
	switch p.Live {
	case "", landfall.LiveAuto, landfall.LiveManual:
	default:
		d.problemf(n.at("spec", "release", "live"), "release.live is %s; it must be %s or %s", quote(string(p.Live)),
			landfall.LiveAuto, landfall.LiveManual)
	}
	if _, err := landfall.ParseRefName(landfall.BranchPrefix + p.Production); p.Production != "" && err != nil {
		d.problemf(n.at("spec", "release", "production"), "release.production: %s is no branch's name", quote(p.Production))
	}
	if _, err := landfall.ParseAge(string(p.KeepFiles)); written["keep_files"] != nil && err != nil {
		d.problemf(n.at("spec", "release", "keep_files"),
			"release.keep_files is %s; it must be a length of time such as 24h or 7d, or 0 for never",
			quote(string(p.KeepFiles)))
	}
	d.globs(n, p.Branches, "spec", "release", "branches")
	d.globs(n, p.SkipPaths, "spec", "release", "skip_paths")
}
