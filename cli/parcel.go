package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (c *Call) releaseExport() *cobra.Command {
	cmd := c.get("export APP RELEASE FILE", "Write a release into one file, which another installation can import",
		"landfall release export shop live shop.tar", c.export)
	cmd.Long = `Write a release into one file, which another installation can import.

The file is an OCI image layout as a tar archive: the files and packages of the release by their digests,
and a description with its commit, its branch and who made it. It has the names of secrets, and no values.`
	return cmd
}

// export writes the archive beside the file, which is there only when it is whole.
func (c *Call) export(ctx context.Context, cl *client.Client, in Operands) error {
	if _, err := os.Lstat(in["file"]); err == nil {
		return landfall.Errorf("cli", landfall.Conflict, "%s is there already: name another file, or remove it", in["file"])
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(in["file"]), ".landfall-export-*")
	if err != nil {
		return Invalid("%s cannot be written: %v", in["file"], err)
	}
	n, err := cl.Export(ctx, in["app"], in["release"], file)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), in["file"])
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return c.Print(map[string]any{"file": in["file"], "bytes": n}, func(t *Table) {
		t.Row(fmt.Sprintf("wrote %s (%d bytes)", in["file"], n))
	})
}

func (c *Call) releaseImport() *cobra.Command {
	var name string
	var live bool
	cmd := c.get("import FILE", "Make a release of a file that was exported",
		"landfall release import shop.tar --app shop\nlandfall release import shop.tar --app shop --live",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if name == "" {
				return Invalid("name the app that gets the release: landfall release import %s --app NAME", in["file"])
			}
			file, err := os.Open(in["file"])
			if err != nil {
				return Invalid("%s cannot be read: %v", in["file"], err)
			}
			defer file.Close()
			err = cl.Do(ctx, http.MethodGet, appPath(Operands{"app": name}), nil, nil)
			create := landfall.Is(err, landfall.NotFound)
			if err != nil && !create {
				return err
			}
			made, err := cl.Import(ctx, name, file, url.Values{"live": {strconv.FormatBool(live)},
				"create": {strconv.FormatBool(create)}, "namespace": {in["namespace"]}})
			if err != nil {
				return err
			}
			if create {
				fmt.Fprintf(c.Stderr, "made the app %s\n", printable(name))
			}
			for _, note := range made.Notes {
				fmt.Fprintln(c.Stderr, printable(note))
			}
			if c.output != "" {
				return c.Print(made, nil)
			}
			return c.showRelease(made.Release)
		})
	cmd.Long = `Make a release of a file that was exported, here or on another installation.

All of the file is checked before anything is stored. The app is made when it is not there. Its releases stay
as they are: the new one answers at its own address, and counts among those of branches other than
production. With --live it becomes live, and a hold ends. Secrets are not in a file: the app must have those
that the functions read.`
	cmd.Flags().StringVar(&name, "app", "", "the app that gets the release")
	cmd.Flags().String("namespace", "", "of an app that is made (default: default)")
	cmd.Flags().BoolVar(&live, "live", false, "make it live, which ends a hold")
	return cmd
}
