package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (c *Call) releaseCommand() *cobra.Command {
	return c.group("release", "Show releases, and say which is live",
		"landfall release list shop\nlandfall release rollback shop",
		c.get("list APP", "List an app's releases, newest first", "landfall release list shop", c.releaseList),
		c.get("show APP RELEASE", "Show one release, named by its id, a tag, live, latest or a commit",
			"landfall release show shop live", c.releaseShow),
		c.releaseCreate(),
		c.releaseMove("live", "live APP RELEASE", "Make a release live, and end a hold", "landfall release live shop beta"),
		c.releaseMove("rollback", "rollback APP [RELEASE]",
			"Make the release that was live before live again, or the one named, and hold it there",
			"landfall release rollback shop\nlandfall release rollback shop owf2k7qa --reason 'broken checkout'\n"+
				"landfall release rollback shop --group owf2k7qa"),
		c.get("log APP [POINTER]", "Show every move of live and of tags, newest first, with who did it and why",
			"landfall release log shop\nlandfall release log shop live\nlandfall release log shop beta", c.releaseLog),
		c.get("hold APP", "Keep live where it is: pushes make releases, but do not move it", "landfall release hold shop",
			c.hold(true)),
		c.get("resume APP", "Let live follow pushes again", "landfall release resume shop", c.hold(false)),
		c.releaseTag(), c.releaseUntag(),
		c.releaseExpire(), c.releaseExport(), c.releaseImport(), c.releaseCanary(),
		c.get("diff APP A B", "Show what differs between two releases", "landfall release diff shop owf2k7qa live",
			c.appDiff),
	)
}

func (c *Call) releaseList(ctx context.Context, cl *client.Client, in Operands) error {
	releases, err := client.List[client.Release](ctx, cl, appPath(in, "releases"), nil)
	heading := []string{"RELEASE", "CREATED", "COMMIT", "BRANCH", "LINE", "NAMES", "KEPT", "OWN", "SHARED", "URL"}
	return printRows(c, releases, err, heading, func(r client.Release) []string {
		kept, own, shared := "", "", ""
		if r.Kept != nil {
			kept = keptBy(*r.Kept)
			own, shared = strconv.FormatInt(r.Kept.Own, 10), strconv.FormatInt(r.Kept.Shared, 10)
		}
		return []string{string(r.ID), Local(r.Created), r.Commit.Short(), r.Branch, string(r.Line), namesOf(r), kept, own,
			shared, r.URL}
	})
}

// keptBy says why a release is accessible, and for how long.
func keptBy(k client.Kept) string {
	switch {
	case k.After == nil:
		return strings.Join(k.By, ", ")
	case *k.After == 0:
		return "until the next one"
	}
	return "for " + landfall.Count(*k.After, "more release")
}

func (c *Call) releaseExpire() *cobra.Command {
	var dry bool
	cmd := c.get("expire APP RELEASE", "Expire a release: its address answers 410",
		"landfall release expire shop owf2k7qa\nlandfall release expire shop owf2k7qa --dry-run",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if !dry {
				return c.move(ctx, cl, http.MethodDelete, appPath(in, "releases", in["release"]), nil)
			}
			path := appPath(in, "collection") + "?expired=" + url.QueryEscape(in["release"])
			return ask(ctx, cl, http.MethodGet, path, nil, c.showCollection)
		})
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only tell what would go with it, and how many bytes")
	return cmd
}

func (c *Call) collectCommand() *cobra.Command {
	var dry bool
	cmd := c.get("collect APP", "Take away what no release and nothing else of an app holds",
		"landfall collect shop --dry-run\nlandfall collect shop",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			method := http.MethodPost
			if dry {
				method = http.MethodGet
			}
			return ask(ctx, cl, method, appPath(in, "collection"), nil, c.showCollection)
		})
	cmd.Long = `Take away what no release and nothing else of an app holds: releases that are more than release.keep, versions
that only they had, and stored files. The server does so by itself every 10 minutes, and when a release
expires. With --dry-run it only tells what would go. Why a release is kept is shown by landfall release list.`
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only tell what would go")
	return cmd
}

// showCollection shows what a collection takes away.
func (c *Call) showCollection(gone client.Collection) error {
	return c.Print(gone, func(t *Table) {
		t.Row("WHAT", "NAME", "VERSION")
		for _, uid := range gone.Releases {
			t.Row("release", string(uid))
		}
		for _, v := range gone.Versions {
			t.Row(string(v.Unit.Kind), v.Unit.Name, string(v.UID))
		}
		t.Row("stored", landfall.Count(gone.Folders, "folder"), strconv.FormatInt(gone.Bytes, 10)+" bytes")
	})
}

// namesOf returns what a release is called beside its id.
func namesOf(r client.Release) string {
	var names []string
	if !r.Expired.IsZero() {
		names = append(names, "expired")
	}
	if r.Latest {
		names = append(names, landfall.Latest)
	}
	return strings.Join(append(names, r.Tags...), ", ")
}

func (c *Call) releaseShow(ctx context.Context, cl *client.Client, in Operands) error {
	return ask(ctx, cl, http.MethodGet, appPath(in, "releases", in["release"]), nil, c.showRelease)
}

func (c *Call) showRelease(r client.Release) error {
	return c.Print(r, func(t *Table) {
		t.field("release", string(r.ID))
		t.field("app", r.App)
		t.field("url", r.URL)
		t.field("commit", string(r.Commit))
		t.field("branch", r.Branch)
		t.field("line", string(r.Line))
		t.field("names", namesOf(r))
		t.field("created", Local(r.Created))
		t.field("expired", Local(r.Expired))
		t.section("KIND", "NAME", "VERSION", "NUMBER")
		for _, u := range r.Units {
			t.Row(string(u.Unit.Kind), u.Unit.Name, string(u.UID), strconv.FormatInt(u.Number, 10))
		}
	})
}

func (c *Call) releaseCreate() *cobra.Command {
	var tag string
	cmd := c.get("create APP VERSION", "Make a version of an app reachable (again)",
		"landfall release create shop --version owf2k7qa\nlandfall release create shop --version owf2k7qa --tag christmas",
		func(ctx context.Context, cl *client.Client, in Operands) error { return c.reach(ctx, cl, in, tag) })
	cmd.Long = `Make a version of an app reachable (again).

It counts among the releases that stay reachable (release.keep) as the newest of its line: when so many
newer ones were made it expires again, unless it is live or a tag names it. With --tag it gets one.`
	cmd.Flags().StringVar(&tag, "tag", "", "name it so: a release with a tag does not expire")
	return cmd
}

// reach makes a version reachable, and gives it a tag if one is wanted.
func (c *Call) reach(ctx context.Context, cl *client.Client, in Operands, tag string) error {
	var reached client.Reached
	body := map[string]string{"version": in["version"]}
	if err := cl.Do(ctx, http.MethodPost, appPath(in, "releases"), body, &reached); err != nil {
		return err
	}
	var made landfall.UID
	if reached.Run == nil {
		made = reached.Release.ID
	} else {
		run, err := c.follow(ctx, cl, *reached.Run)
		if err != nil {
			return err
		}
		if run.Release == "" {
			return c.finished(run)
		}
		made = run.Release
	}
	if tag != "" {
		if err := cl.Do(ctx, http.MethodPut, appPath(in, "tags", tag), pointer{Release: string(made)}, nil); err != nil {
			return err
		}
	}
	return ask(ctx, cl, http.MethodGet, appPath(in, "releases", string(made)), nil, func(r client.Release) error {
		if len(r.Tags) == 0 {
			fmt.Fprintf(c.Stderr, "it expires again when enough newer releases are made; a tag keeps it: landfall release tag "+
				"%s %s NAME\n", r.App, r.ID)
		}
		return c.showRelease(r)
	})
}

// pointer says where live or a tag goes.
type pointer struct {
	Release string `json:"release,omitempty"`
	Group   string `json:"group,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// move moves a pointer of an app, and shows where live is then.
func (c *Call) move(ctx context.Context, cl *client.Client, method, path string, body any) error {
	return ask(ctx, cl, method, path, body, func(app client.App) error {
		for _, note := range app.Notes {
			fmt.Fprintln(c.Stderr, printable(note))
		}
		return c.Print(app, func(t *Table) { showPointers(t, app) })
	})
}

// showPointers shows where live is.
func showPointers(t *Table, app client.App) {
	t.field("app", app.Name)
	t.field("live", live(app))
	t.field("url", app.URL)
}

func (c *Call) releaseTag() *cobra.Command {
	var reason string
	cmd := c.get("tag APP RELEASE TAG",
		"Make a tag name a release: it does not expire, and answers at the tag's address",
		"landfall release tag shop owf2k7qa beta", func(ctx context.Context, cl *client.Client, in Operands) error {
			return c.moveTag(ctx, cl, in, reason)
		})
	flagReason(cmd, &reason)
	return cmd
}

func (c *Call) releaseUntag() *cobra.Command {
	var reason string
	cmd := c.get("untag APP TAG", "Remove a tag", "landfall release untag shop beta",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			return c.move(ctx, cl, http.MethodDelete, appPath(in, "tags", in["tag"])+"?"+
				queryOf(map[string]string{"reason": reason}).Encode(), nil)
		})
	flagReason(cmd, &reason)
	return cmd
}

// moveTag makes a tag name a release, and shows where it answers.
func (c *Call) moveTag(ctx context.Context, cl *client.Client, in Operands, reason string) error {
	var app client.App
	to := pointer{Release: in["release"], Reason: reason}
	if err := cl.Do(ctx, http.MethodPut, appPath(in, "tags", in["tag"]), to, &app); err != nil {
		return err
	}
	address, err := url.Parse(app.URL)
	if err != nil {
		return err
	}
	address.Host = landfall.JoinedLabel(app.Name, in["tag"]) + strings.TrimPrefix(address.Host, app.Name)
	return c.Print(app, func(t *Table) {
		showPointers(t, app)
		t.field("tag", in["tag"])
		t.field("tag url", address.String())
	})
}

// releaseMove is a command that moves live, by an operation of the API.
func (c *Call) releaseMove(operation, use, short, example string) *cobra.Command {
	var reason, group string
	cmd := c.get(use, short, example, func(ctx context.Context, cl *client.Client, in Operands) error {
		return c.move(ctx, cl, http.MethodPost, appPath(in, operation), pointer{in["release"], group, reason})
	})
	if operation == "rollback" {
		cmd.Flags().StringVar(&group, "group", "",
			"an app version, all units of which are in force then; its release is made accessible if it has expired")
	}
	flagReason(cmd, &reason)
	return cmd
}

// releaseLog shows where live and tags pointed.
func (c *Call) releaseLog(ctx context.Context, cl *client.Client, in Operands) error {
	query := url.Values{}
	switch pointer := in["pointer"]; pointer {
	case "":
	case landfall.LivePointer:
		query.Set("pointer", pointer)
	default:
		query.Set("pointer", "tag "+pointer)
	}
	moves, err := client.List[client.Move](ctx, cl, appPath(in, "moves"), query)
	heading := []string{"TIME", "POINTER", "FROM", "TO", "BY", "WHY"}
	return printRows(c, moves, err, heading, func(m client.Move) []string {
		return []string{Local(m.At), m.Pointer, string(m.From), string(m.To), m.Actor, m.Reason}
	})
}

func (c *Call) hold(held bool) func(context.Context, *client.Client, Operands) error {
	return func(ctx context.Context, cl *client.Client, in Operands) error {
		var app client.App
		if err := cl.Do(ctx, http.MethodPut, appPath(in, "hold"), map[string]bool{"held": held}, &app); err != nil {
			return err
		}
		if app.Held && app.Live == "" {
			fmt.Fprintf(c.Stderr, "nothing of %[1]s is live yet, and no push makes it so: "+
				"landfall release live %[1]s RELEASE, or landfall release resume %[1]s\n", app.Name)
		}
		return c.Print(app, func(t *Table) { showPointers(t, app) })
	}
}
