package cli

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// newVersion is what a person says of a version that is to be made.
type newVersion struct {
	client.NewVersion

	version                string
	code, source, deployed string // paths or addresses
	checksum               string // of what one of them names, or empty
	noWait                 bool
	describes              bool // a description is given to a version that there is, if nothing else is said
}

// makeCommand is the command that makes a version of a function or package by hand.
func (c *Call) makeCommand(k unitKind, use, short, example string, as client.NewVersion) *cobra.Command {
	n := newVersion{NewVersion: as}
	var cmd *cobra.Command
	cmd = c.getIn(use, short, example, func(ctx context.Context, cl *client.Client, in Operands) error {
		n.describes = n.Update && cmd.Flags().Changed("description")
		return c.make(ctx, cl, k, in, n)
	})
	cmd.Long = short + ".\n\n" + wordsOfLimits
	flags := cmd.Flags()
	flags.StringVar(&n.Environment, "env", "", "environment: nodejs, python, go, binary, … (default: as before)")
	flags.StringVar(&n.source, "src", "",
		"what the environment builds from: a zip archive, a folder, a file, or the address of an archive")
	flags.StringVar(&n.deployed, "deploy", "",
		"what runs as it is: a zip archive, a folder, a file, or the address of an archive")
	flags.StringVar(&n.checksum, "checksum", "", "that of the file, or of what is at the address: sha256:HEX")
	flags.StringVar(&n.Build, "buildcmd", "", "command that builds the source")
	flags.StringVar(&n.Description, "description", "", "what people read beside the version")
	flags.BoolVar(&n.NoRelease, "no-release", false, "make no release of the app that owns it")
	flags.BoolVar(&n.noWait, "no-wait", false, "do not wait for the build")
	if k.name == "package" {
		flags.StringVar(&n.version, "version", "", "label of the new version")
		return cmd
	}
	flags.StringVar(&n.code, "code", "", "what runs as it is: a file, a zip archive, a folder, or the address of a file")
	flags.StringVar(&n.Entrypoint, "entrypoint", "", "what of the code is called (default: as before)")
	flags.StringVar(&n.Package, "pkg", "", "a package that there is, in place of code")
	flags.StringVar(&n.Tag, "tag", "", "function tag that is to name the version; it is made if it is not there")
	flags.StringVar(&n.version, "version", "", "with --pkg the version of the package, else the label of the new version")
	return cmd
}

// wordsOfLimits are what people should know of what they send.
const wordsOfLimits = `A file, an archive, or what is at an address has at most 100 MiB, unless the server says otherwise
(LANDFALL_MAX_FILE_BYTES). A label and a function tag have at most 100 characters, without spaces, slashes,
commas, =, ?, # and %; a description has at most 1,000.`

// make makes a version, and shows it when it is there.
func (c *Call) make(ctx context.Context, cl *client.Client, k unitKind, in Operands, n newVersion) error {
	if n.describes && n.code+n.source+n.deployed+n.checksum+n.Package+n.Environment+n.Entrypoint+n.Build == "" {
		if n.Tag != "" || n.NoRelease {
			return Invalid("a description makes no version: --tag and --no-release are for one that is made " +
				"(landfall tag update lets a function tag name another)")
		}
		return c.describe(ctx, cl, k, in, n)
	}
	if n.Package != "" {
		n.PackageVersion = n.version
	} else {
		n.Label = n.version
	}
	given := []struct {
		what    string
		content **client.Content
		archive bool
	}{{n.code, &n.Code, false}, {n.source, &n.Source, true}, {n.deployed, &n.Deployment, true}}
	contents := 0
	for _, from := range given {
		if from.what != "" {
			*from.content = &client.Content{}
			contents++
		}
	}
	if err := n.Check(); err != nil { // before anything is sent
		return err
	}
	var digest landfall.Digest
	if n.checksum != "" {
		var err error
		if digest, err = landfall.ParseDigest(strings.ToLower(n.checksum)); err != nil {
			return Invalid("--checksum is %q; right would be sha256: and 64 hex digits", n.checksum)
		}
		if contents != 1 {
			return Invalid("--checksum is of one file or address, and %d are named with --code, --src and --deploy", contents)
		}
	}
	for _, from := range given {
		if from.what == "" {
			continue
		}
		var err error
		if *from.content, err = c.contentOf(ctx, cl, from.what, from.archive, digest); err != nil {
			return err
		}
	}
	var made client.MadeVersion
	query := "?" + ofNamespace(in).Encode()
	before, err := latestLabel(ctx, cl, k.unitPath(in["name"], "versions", "latest")+query, n.NewVersion)
	if err != nil {
		return err
	}
	if err := cl.Do(ctx, http.MethodPost, k.unitPath(in["name"], "versions")+query, n.NewVersion, &made); err != nil {
		return err
	}
	if made.Version != nil {
		c.noteLabel(n.Label, before)
		return c.showMade(made)
	}
	if n.noWait {
		return c.showRun(*made.Run)
	}
	run, err := c.follow(ctx, cl, *made.Run)
	if err != nil {
		return err
	}
	err = runError(run)
	if err != nil || c.output == "" { // programs read the version, or the run that made none
		err = c.finished(run)
	}
	if err != nil {
		fmt.Fprintf(c.Stderr, "the run: landfall run show %s\n", run.ID)
		return err
	}
	c.noteLabel(n.Label, before)
	// not the latest: somebody else may have made one since
	return ask(ctx, cl, http.MethodGet, k.unitPath(in["name"], "versions", string(run.UID))+query, nil, c.showVersion)
}

// latestLabel returns the label of the latest version, if a version with a label is to come after it.
func latestLabel(ctx context.Context, cl *client.Client, path string, n client.NewVersion) (string, error) {
	if n.Label == "" || n.New {
		return "", nil
	}
	var latest client.Version
	err := cl.Do(ctx, http.MethodGet, path, nil, &latest)
	return latest.Label, landfall.Ignore(err, landfall.NotFound)
}

// noteLabel tells a person whose new version has a lower label than the one before it, as semantic versions, that
// labels have no order; the v may be missing in both.
func (c *Call) noteLabel(label, before string) {
	number := func(label string) string { return "v" + strings.TrimPrefix(label, "v") }
	if semver.IsValid(number(label)) && semver.IsValid(number(before)) &&
		semver.Compare(number(label), number(before)) < 0 {
		fmt.Fprintf(c.Stderr, "note: %s comes after %s: the latest version is the one that was made last\n", label,
			printable(before))
	}
}

// contentOf sends a file or a folder, and returns how a version takes it; an address is the server's to fetch. What it
// names must have the digest, if there is one.
func (c *Call) contentOf(ctx context.Context, cl *client.Client, what string, archive bool,
	digest landfall.Digest) (*client.Content, error) {
	if strings.HasPrefix(what, "https://") || strings.HasPrefix(what, "http://") {
		return &client.Content{URL: what, Digest: digest}, nil
	}
	info, err := os.Stat(what)
	if err != nil {
		return nil, Invalid("%s cannot be read: %v", what, err)
	}
	if digest != "" {
		if err := checkDigest(what, info, digest); err != nil {
			return nil, err
		}
	}
	content := &client.Content{Name: filepath.Base(what)}
	path := what
	if info.IsDir() || archive && !strings.EqualFold(filepath.Ext(what), ".zip") {
		if path, err = zipped(what, info); err != nil {
			return nil, err
		}
		defer func() { _ = os.Remove(path) }()
		content.Name += ".zip"
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, Invalid("%v", err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, Invalid("%s is empty", what)
	}
	content.Upload, err = cl.Upload(ctx, f, info.Size(), c.sent(content.Name, info.Size()))
	return content, err
}

// checkDigest fails unless a file has a digest.
func checkDigest(what string, info fs.FileInfo, digest landfall.Digest) error {
	if info.IsDir() {
		return Invalid("%s is a folder, which has no checksum: name a file or an archive", what)
	}
	f, err := os.Open(filepath.Clean(what))
	if err != nil {
		return Invalid("%v", err)
	}
	defer f.Close()
	got, err := landfall.DigestOfReader(f)
	switch {
	case err != nil:
		return Invalid("%s cannot be read: %v", what, err)
	case got != digest:
		return Invalid("%s has the digest %s, not %s", what, got, digest)
	}
	return nil
}

// sent returns what shows how much of a file was sent; nil where nobody watches.
func (c *Call) sent(name string, size int64) func(int64) {
	if !IsTerminal(c.Stderr) {
		return nil
	}
	return func(sent int64) {
		const percent = 100
		fmt.Fprintf(c.Stderr, "\r%s: %d%%", printable(name), percent*sent/size)
		if sent == size {
			fmt.Fprintln(c.Stderr)
		}
	}
}

// zipped writes a file, or the files below a folder, into an archive, and returns its path.
func zipped(what string, info fs.FileInfo) (path string, err error) {
	to, err := os.CreateTemp("", "landfall-*.zip")
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, to.Close()); err != nil {
			_ = os.Remove(to.Name())
		}
	}()
	z := zip.NewWriter(to)
	if !info.IsDir() {
		err = addFile(z, what, filepath.Base(what), info)
		return to.Name(), errors.Join(err, z.Close())
	}
	err = filepath.WalkDir(what, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		name, err := filepath.Rel(what, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return addFile(z, path, filepath.ToSlash(name), info)
	})
	return to.Name(), errors.Join(err, z.Close())
}

// addFile adds a regular file or a symbolic link to an archive.
func addFile(z *zip.Writer, path, name string, info fs.FileInfo) error {
	header := &zip.FileHeader{Name: name, Method: zip.Deflate}
	header.SetMode(info.Mode())
	w, err := z.CreateHeader(header)
	if err != nil {
		return err
	}
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, target)
		return err
	case !info.Mode().IsRegular():
		return Invalid("%s is no regular file", path)
	}
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

func (c *Call) versionCreate(k unitKind) *cobra.Command {
	example := "landfall function version create --name hello --env nodejs --code hello1.js --version v1.0.0\n" +
		"landfall function version create hello --pkg hello-pkg --version 3"
	if k.name == "package" {
		example = "landfall package version create --name src-pkg --src src-archive.zip --env python --buildcmd ./build.sh"
	}
	return c.makeCommand(k, "create NAME", "Make a version of a "+k.name+" by hand", example, client.NewVersion{})
}

func (c *Call) functionCreate(k unitKind) *cobra.Command {
	return c.makeCommand(k, "create NAME", "Make a function by hand",
		"landfall function create hello --env nodejs --code hello.js\n"+
			"landfall function create --name foo --env nodejs --code foo.js --tag v1.0.0\n"+
			"landfall function create tool --env binary --deploy https://example.com/tool.zip --checksum sha256:HEX",
		client.NewVersion{New: true})
}
