package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/backup"
	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

var _ api.Keeper = (*delivery)(nil)

// Backup implements api.Keeper. It fails when another process won the database meanwhile, and may have collected; the
// archive says so.
func (s *delivery) Backup(ctx context.Context, w io.Writer, objects bool) error {
	owner, notOwner := s.db.Leader(ctx)
	return s.upkeep.WithoutCollection(ctx, func() error {
		_, err := s.writeBackup(ctx, w, objects, func(ctx context.Context) error {
			if notOwner != nil {
				return notOwner
			}
			return owner.Update(ctx, func(*store.Tx) error { return nil })
		})
		return err
	})
}

// writeBackup writes an archive while nothing is collected. check is asked at the end, unless it is nil.
func (s *state) writeBackup(ctx context.Context, w io.Writer, objects bool,
	check func(context.Context) error) (backup.Totals, error) {
	b := &backup.Backup{DB: s.db, Scratch: filepath.Join(s.config.Data, "scratch"), Now: time.Now, Check: check}
	if objects {
		b.Objects = s.objects
	}
	if s.repos != nil {
		b.Repositories = s.repos
	}
	token, err := os.ReadFile(filepath.Join(s.config.Data, cli.TokenFile))
	if err == nil {
		b.Token = token
	} else if !errors.Is(err, fs.ErrNotExist) {
		return backup.Totals{}, err
	}
	return b.Write(ctx, w)
}

// stateSettings are those that say where a server keeps what it has.
func stateSettings() []string {
	return []string{"DATA", databaseSetting, "S3_ENDPOINT", "S3_BUCKET", "S3_REGION", "S3_INSECURE", "S3_STYLE"}
}

// offlineFlags gives a command the flag --offline, with the settings that it needs, and returns what opens the state of
// a server that is stopped, and reports whether that was asked for.
func offlineFlags(c *cli.Call, cmd *cobra.Command) func(ctx context.Context) (s *stopped, asked bool, err error) {
	var offline bool
	cmd.Flags().BoolVar(&offline, "offline", false,
		"read the data folder itself, of a server that is stopped; the settings are those of landfall serve")
	configured := settingFlags(c, cmd, stateSettings()...)
	return func(ctx context.Context) (*stopped, bool, error) {
		if !offline {
			return nil, false, settingsNeedOffline(cmd)
		}
		config, err := configured()
		if err != nil {
			return nil, true, err
		}
		s, err := openStopped(ctx, config)
		return s, true, err
	}
}

// settingsNeedOffline refuses settings of a server that is asked to do the work: it has its own.
func settingsNeedOffline(cmd *cobra.Command) error {
	for _, name := range append(stateSettings(), "CONFIG") {
		if flag := flagOf(name); cmd.Flags().Changed(flag) {
			return cli.Invalid("--%s needs --offline: without it the running server does the work, of its own data folder; "+
				"see: %s --help", flag, cmd.CommandPath())
		}
	}
	return nil
}

// stopped is the state of a server that is stopped.
type stopped struct {
	*state

	secrets *secret.Keeper // nil: there is no key
}

func openStopped(ctx context.Context, c config) (*stopped, error) {
	if _, err := os.Stat(c.Data); err != nil {
		return nil, badSetting("DATA", "is %q, which is no data folder: %v", c.Data, err)
	}
	s := &state{config: &c, logger: slog.New(slog.DiscardHandler)}
	err := s.open(ctx)
	key, err2 := s.readSecretKey(false)
	if err = errors.Join(err, err2); err == nil {
		err = s.checkInstallation(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &stopped{s, key}, nil
}

// alone runs f while the database is this process's.
func (s *state) alone(ctx context.Context, f func() error) error {
	_, release, err := s.own(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f()
}

func backupCommand(c *cli.Call) *cobra.Command {
	var without bool
	var offline func(context.Context) (*stopped, bool, error)
	cmd := c.Command("backup FILE", "Write all that is not made again into one file",
		"landfall backup backup.tar.zst\nlandfall backup - | ssh backup.example.com 'cat > backup.tar.zst'\n"+
			"landfall backup --offline --data /var/lib/landfall backup.tar.zst",
		func(ctx context.Context, in cli.Operands) error {
			stopped, asked, err := offline(ctx)
			if err != nil {
				return err
			}
			write := func(w io.Writer) (backup.Totals, error) { return fetchBackup(ctx, c, w, !without) }
			if asked {
				defer func() { _ = stopped.Close() }()
				write = func(w io.Writer) (totals backup.Totals, err error) {
					err = stopped.alone(ctx, func() error {
						totals, err = stopped.writeBackup(ctx, w, !without, nil)
						return err
					})
					return totals, err
				}
			}
			if in["file"] == "-" {
				if cli.IsTerminal(c.Stdout) {
					return cli.Invalid("a backup is nothing for a terminal: name a file, or send the output elsewhere")
				}
				_, err := write(c.Stdout)
				return err
			}
			totals, err := writeWhole(in["file"], write)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.Stderr, keyApart)
			return c.Print(totals, func(t *cli.Table) { t.Row(backedUp(totals) + " in " + in["file"]) })
		})
	cmd.Long = `Write all that is not made again into one file: the database, the objects, and the repositories of the
built-in remote.

The server goes on meanwhile. The file holds secrets: keep it as closed as the data folder. It has its
name only when it is whole; "-" is standard output. landfall restore reads it. Mirrors and caches are not
in it: they are made again. The secrets of apps are in it as they are sealed, and the key that opens them
is not: keep the file secret-key of the data folder (or LANDFALL_SECRET_KEY) apart.`
	cmd.Flags().BoolVar(&without, "without-objects", false,
		"leave the objects out: for a bucket that is kept in another way")
	offline = offlineFlags(c, cmd)
	return cmd
}

// keyApart is what whoever makes a backup must know.
const keyApart = "the key of the secrets is not in it: keep the file secret-key of the data folder (or " +
	"LANDFALL_SECRET_KEY) in another place"

func backedUp(t backup.Totals) string {
	repositories := "1 repository"
	if t.Repositories != 1 {
		repositories = strconv.Itoa(t.Repositories) + " repositories"
	}
	return fmt.Sprintf("%s, %s, %s, %d bytes", landfall.Count(int(t.Rows), "row"), repositories,
		landfall.Count(int(t.Objects), "object"), t.Bytes)
}

// fetchBackup lets the server write a backup, and reads along, so that one which is not whole is noticed.
func fetchBackup(ctx context.Context, c *cli.Call, w io.Writer, objects bool) (backup.Totals, error) {
	cl, err := c.Client()
	if err != nil {
		return backup.Totals{}, err
	}
	archive, err := cl.Stream(ctx, "/backup?objects="+strconv.FormatBool(objects))
	if err != nil {
		return backup.Totals{}, err
	}
	defer func() { _ = archive.Close() }()
	_, totals, err := backup.Reader{}.Read(ctx, io.TeeReader(archive, w))
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		err = landfall.Wrapf("cli", landfall.Unavailable, err,
			"the backup is not whole: the server broke it off, and its log says why; it does so when nothing is read for a "+
				"minute, so write to a file where the output may pause")
	}
	return totals, err
}

// writeWhole lets write fill a file that has its name only when it is whole, and on the disk.
func writeWhole(name string, write func(io.Writer) (backup.Totals, error)) (totals backup.Totals, err error) {
	folder := filepath.Dir(name)
	part, err := os.CreateTemp(folder, "."+filepath.Base(name)+".*.part") // for its user only
	if err != nil {
		return totals, cli.Invalid("%s cannot be written: %v", name, err)
	}
	defer os.Remove(part.Name())
	totals, err = write(part)
	if err := errors.Join(err, part.Sync(), part.Close()); err != nil {
		return totals, err
	}
	if err := os.Rename(part.Name(), name); err != nil {
		return totals, cli.Invalid("%s cannot be written: %v", name, err)
	}
	if f, err := os.Open(folder); err == nil {
		defer f.Close()
		return totals, f.Sync()
	}
	return totals, nil
}

func restoreCommand(c *cli.Call) *cobra.Command {
	var configured func() (config, error)
	cmd := c.Command("restore FILE", "Make a new data folder of what landfall backup wrote",
		"landfall restore --data /var/lib/landfall backup.tar.zst\nlandfall restore --data new - < backup.tar.zst",
		func(ctx context.Context, in cli.Operands) error {
			config, err := configured()
			if err != nil {
				return err
			}
			if config.File != "" {
				fmt.Fprintln(c.Stderr, "settings were read from "+config.File)
			}
			archive := c.Stdin
			if in["file"] != "-" {
				f, err := os.Open(filepath.Clean(in["file"]))
				if err != nil {
					return cli.Invalid("%s cannot be read: %v", in["file"], err)
				}
				defer f.Close()
				archive = f
			}
			return restore(ctx, c, config, archive)
		})
	cmd.Long = `Make a new data folder of what landfall backup wrote.

The data folder, the database and the bucket are those that landfall serve would use with the same
settings, and must be empty. They may be of another kind than where the backup was made: SQLite or
PostgreSQL, a folder or a bucket. Every byte is compared with what was written. Until all is there the
folder is not one that a server starts on.`
	configured = settingFlags(c, cmd, stateSettings()...)
	return cmd
}

// restore fills an empty installation from an archive.
func restore(ctx context.Context, c *cli.Call, config config, archive io.Reader) error {
	shown := &progress{w: c.Stderr, on: cli.IsTerminal(c.Stderr)}
	var objects objectStore
	defer func() {
		if objects != nil {
			_ = objects.Close()
		}
	}()
	r := &backup.Restore{
		Data: config.Data, Database: config.Database,
		Open: func(ctx context.Context) (_ assets.Store, _ backup.Importer, err error) {
			if objects, err = openObjects(ctx, &config); err != nil {
				return nil, nil, err
			}
			if git, err := remote.FindGit(); err == nil {
				repositories, err := remote.OpenRepositories(filepath.Join(config.Data, "git"), git)
				return objects, repositories, err
			}
			return objects, nil, nil
		},
		Progress: func(t backup.Totals) { shown.show(backedUp(t)) },
	}
	header, totals, err := r.Run(ctx, archive)
	shown.end()
	if err != nil {
		return err
	}
	return c.Print(totals, func(t *cli.Table) {
		t.Row(fmt.Sprintf("%s of %s are in %s", backedUp(totals), cli.Local(header.Made), config.Data))
		if !header.Objects {
			t.Row("the backup has no objects: see to it that they are in place before the server starts")
		}
	})
}

// progress is a line of a terminal that is written over.
type progress struct {
	w     io.Writer
	on    bool
	shown time.Time
}

const progressEvery = time.Second / 4

func (p *progress) show(text string) {
	if now := time.Now(); p.on && now.Sub(p.shown) >= progressEvery {
		p.shown = now
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
	}
}

func (p *progress) end() {
	if p.on && !p.shown.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
