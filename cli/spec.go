package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/preflight"
	"landfall.dev/landfall/spec"
)

func (c *Call) specCommand() *cobra.Command {
	var from apply
	diff := c.Command("diff", "Show what applying this work tree would change",
		"landfall spec diff\nlandfall spec diff --app shop --branch main", func(ctx context.Context, _ Operands) error {
			from.dryRun = true
			return c.apply(ctx, from)
		})
	diff.Flags().StringVar(&from.app, "app", "", appHelp)
	diff.Flags().StringVar(&from.branch, "branch", "", branchHelp)
	return c.group("spec", "Check and apply spec files", "landfall spec validate\nlandfall spec version apply",
		c.specValidate(), diff,
		c.group("version", "Make versions of what a work tree declares", "landfall spec version apply", c.specApply()))
}

const (
	appHelp    = "app (default: the name in the App document, else the folder's)"
	branchHelp = "branch that it belongs to (default: the work tree's)"
)

func (c *Call) specApply() *cobra.Command {
	var from apply
	cmd := c.Command("apply", "Make versions, and a release, of the work tree",
		"landfall spec version apply\nlandfall spec version apply --app shop --branch feature\n"+
			"landfall spec version apply --dry-run",
		func(ctx context.Context, _ Operands) error { return c.apply(ctx, from) })
	cmd.Long = `Make versions, and a release, of the work tree.

The commit of a work tree without changes is applied as it is. Of one with changes, a commit of its own
is made, with all files that git does not ignore; your index and your branches stay as they are. Where
git ignores every file of an entry of static, the output of a build, these files are applied too. The app
is made when it is not there.

The exit code tells what became of it: 0 done, 1 internal error, 2 the change is wrong, 4 superseded or
over the plan of the namespace, 7 the release was made, but live is held and did not move to it, 130
cancelled.`
	flags := cmd.Flags()
	flags.StringVar(&from.app, "app", "", appHelp)
	flags.StringVar(&from.branch, "branch", "", branchHelp)
	flags.BoolVar(&from.noWait, "no-wait", false, "print the run and do not wait for it")
	flags.BoolVar(&from.noRelease, "no-release", false, "make versions only: no address, and live stays where it is")
	flags.BoolVar(&from.dryRun, "dry-run", false, "only show what would change")
	return cmd
}

func (c *Call) specValidate() *cobra.Command {
	var specs string
	cmd := c.Command("validate [FOLDER]", "Check the spec files of a folder, without a server",
		"landfall spec validate\nlandfall spec validate --specs deploy/specs ../shop",
		func(ctx context.Context, in Operands) error {
			folder := in["folder"]
			if folder == "" {
				folder = "."
			}
			s, err := readSpec(folder, specs)
			if err != nil {
				return err
			}
			files, err := filesBelow(ctx, folder)
			if err != nil {
				return err
			}
			warnings := []string{}
			problems, found, err := preflight.Check(ctx, os.DirFS(folder), s, files)
			for _, w := range slices.Concat(s.Warnings, environment.WithoutNetwork(s), found) {
				warnings = append(warnings, w.String())
				fmt.Fprintf(c.Stderr, "warning: %s\n", printable(w.String()))
			}
			if err := cmp.Or(err, spec.ErrorOf(problems)); err != nil {
				return err
			}
			counts := countsOf(s, warnings)
			return c.Print(counts, func(t *Table) {
				t.Row("valid: " + strings.Join([]string{
					landfall.Count(counts.Functions, "function"), landfall.Count(counts.Packages, "package"),
					landfall.Count(counts.Environments, "environment"), landfall.Count(counts.Triggers, "trigger"),
					landfall.Count(counts.Static, "static unit")}, ", "))
				if len(counts.Network) > 0 {
					t.Row("may reach the network: " + strings.Join(counts.Network, ", "))
				}
			})
		})
	cmd.Flags().StringVar(&specs, "specs", spec.DefaultFolder, "folder of the spec files, within FOLDER")
	return cmd
}

// counts says what a spec declares.
type counts struct {
	App          string   `json:"app"`
	Functions    int      `json:"functions"`
	Packages     int      `json:"packages"`
	Archives     int      `json:"archives"`
	Environments int      `json:"environments"`
	Triggers     int      `json:"triggers"`
	Static       int      `json:"static"`
	Network      []string `json:"network,omitempty"` // functions that may reach it
	Warnings     []string `json:"warnings"`
}

func countsOf(s *spec.Spec, warnings []string) counts {
	n := counts{
		Functions: len(s.Functions), Packages: len(s.Packages), Archives: len(s.Archives), Environments: len(s.Environments),
		Triggers: len(s.Triggers),
		Network:  spec.NetworkFunctions(s), Warnings: warnings,
	}
	if s.App != nil {
		n.App, n.Static = s.App.Name, len(s.App.Static)
	}
	return n
}

// filesBelow lists the files of a folder as a commit would have them, without those that git keeps for itself. A link
// to a file is that file; one that leads to no file of the repository is listed as a link, unless git ignores it.
func filesBelow(ctx context.Context, folder string) ([]landfall.File, error) {
	var files []landfall.File
	tree := os.DirFS(folder)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		const owner = 0o100 // the right that git keeps
		info, err := fs.Stat(tree, name)
		switch {
		case err != nil && d.Type() != fs.ModeSymlink:
			return err
		case d.Type() == fs.ModeSymlink && !leadsToFile(folder, name):
			if !ignored(ctx, folder, name) {
				files = append(files, landfall.File{Path: name, Mode: landfall.Symlink})
			}
			return nil
		case !info.Mode().IsRegular():
			return nil
		}
		file := landfall.File{Path: name, Mode: landfall.Regular, Size: info.Size()}
		if info.Mode()&owner != 0 {
			file.Mode = landfall.Executable
		}
		files = append(files, file)
		return nil
	})
	if err != nil {
		return nil, Invalid("the folder %s cannot be read: %v", folder, err)
	}
	return files, nil
}

// errNoSpecs is of a folder that has no specs at the usual place, where an app may be told to look at another one.
var errNoSpecs = errors.New("no specs")

// readSpec reads and checks the spec files in the folder specs of an app's folder.
func readSpec(folder, specs string) (*spec.Spec, error) {
	specs = path.Clean(filepath.ToSlash(specs))
	var names []string
	var size int64
	tree := os.DirFS(folder)
	if info, err := fs.Stat(tree, "."); err != nil || !info.IsDir() {
		return nil, Invalid("there is no folder %s", folder)
	}
	err := fs.WalkDir(tree, specs, func(name string, d fs.DirEntry, err error) error {
		if ext := path.Ext(name); err != nil || d.IsDir() || (ext != ".yaml" && ext != ".yml") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			names, size = append(names, name), size+info.Size()
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, Invalid("the folder %s cannot be read: %v", specs, err)
	}
	if err := (spec.Limits{}).CheckBytes(size); err != nil {
		return nil, err
	}
	sources := make([]spec.Source, len(names))
	for i, name := range names {
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, Invalid("the spec file %s cannot be read: %v", name, err)
		}
		sources[i] = spec.Source{Name: name, Data: data}
	}
	if len(sources) > 0 {
		s, err := spec.Parse(sources, spec.Limits{})
		if err == nil {
			err = s.ReadContracts(spec.Limits{}, func(name string) ([]byte, error) { return readNamed(tree, name) })
		}
		return s, err
	}
	if _, err := fs.Stat(tree, "index.html"); err == nil {
		return spec.Implicit(), nil
	}
	return nil, landfall.Wrapf("cli", landfall.Invalid, errNoSpecs,
		"there are neither spec files in %s nor an index.html: add one of them, or name the folder of the specs",
		strings.TrimSuffix(specs, "/")+"/")
}

// readNamed reads a file of an app's folder that a contract names.
func readNamed(tree fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(tree, path.Clean(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, Invalid("there is no such file")
	case err != nil:
		return nil, Invalid("it cannot be read: %v", err)
	case !info.Mode().IsRegular():
		return nil, Invalid("it is no regular file")
	case info.Size() > contract.MaxSchema:
		return nil, Invalid("it has %d bytes; the limit is %d", info.Size(), contract.MaxSchema)
	}
	return fs.ReadFile(tree, path.Clean(name))
}

// leadsToFile reports whether a link in a folder leads to a file of its repository, as links of a commit must. Where
// there is no repository, it must lead to a file in the folder.
func leadsToFile(folder, name string) bool {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return false
	}
	link := filepath.Join(folder, name)
	target, err := os.Readlink(link)
	if err != nil || filepath.IsAbs(target) {
		return false
	}
	meant, err := filepath.EvalSymlinks(link)
	if err != nil {
		return false
	}
	top := folder
	for dir := folder; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			top = dir
			break
		}
	}
	if top, err = filepath.EvalSymlinks(top); err != nil || !strings.HasPrefix(meant, top+string(filepath.Separator)) {
		return false
	}
	info, err := os.Stat(meant)
	return err == nil && info.Mode().IsRegular()
}

// ignored reports whether git ignores a file of a folder.
func ignored(ctx context.Context, folder, name string) bool {
	cmd := exec.CommandContext(ctx, "git", "--no-optional-locks", "check-ignore", "--quiet", "--", name)
	cmd.Dir = folder
	return cmd.Run() == nil
}
