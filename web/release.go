package web

import (
	"net/url"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// releasePage is a release with its units and files.
type releasePage struct {
	client.Release
	App     client.App
	May     bool
	Files   listed[client.File]
	Missing string // why its files cannot be listed
	At      string // cursor of the files that are shown
	Others  []client.Group
	Earlier bool         // it was made before the one that is live: to go to it is to go back
	From    landfall.UID // what it is compared with, unless another is chosen
	Diff    *difference  // from it; nil when there is none, or it cannot be read
}

// How many files one page shows, and among how many releases one can choose.
const (
	pageFiles  = 100
	choiceSize = 100
)

// release shows a release.
func release(r *request) (*view, error) {
	p := releasePage{At: r.URL.Query().Get("files")}
	path := appPath(r)
	if err := r.get(path, &p.App); err != nil {
		return nil, err
	}
	if err := r.get(path+"/releases/"+url.PathEscape(r.PathValue("uid")), &p.Release); err != nil {
		return nil, err
	}
	var err error
	p.Files, err = list[client.File](r, path+"/groups/"+string(p.ID)+"/files?"+query("limit", pageFiles, "cursor", p.At))
	if landfall.Is(err, landfall.NotFound) {
		p.Missing, err = landfall.MessageOf(err), nil
	}
	if err != nil {
		return nil, err
	}
	p.May = r.may(p.App)
	if p.Others, err = choices(r, path); err != nil {
		return nil, err
	}
	if p.App.Live != "" {
		var live client.Release
		if err := r.get(path+"/releases/"+string(p.App.Live), &live); err != nil {
			return nil, err
		}
		p.Earlier = p.Created.Before(live.Created)
	}
	if p.From = comparedWith(p.ID, p.App.Live, p.Others); p.From != "" {
		d, err := between(r, path, string(p.From), string(p.ID), "")
		if err != nil {
			return nil, err
		}
		p.Diff = &d
	}
	return &view{page: "release", title: string(p.ID) + " of " + p.App.Name, crumbs: append(appCrumbs(p.App.Name),
		crumb{string(p.ID), releaseURL(p.App.Name, p.ID)}), data: p}, nil
}

// comparedWith is what a version is compared with unless another is chosen: the live one, or for that the one before
// it.
func comparedWith(uid, live landfall.UID, newestFirst []client.Group) landfall.UID {
	if uid != live {
		return live
	}
	i := slices.IndexFunc(newestFirst, func(g client.Group) bool { return g.UID == uid })
	if i < 0 || i+1 == len(newestFirst) {
		return ""
	}
	return newestFirst[i+1].UID
}

func appPath(r *request) string { return "/apps/" + url.PathEscape(r.PathValue("app")) }

func appCrumbs(name string) []crumb { return []crumb{{"Apps", "/"}, {name, appURL(name)}} }

func releaseURL(app string, uid landfall.UID) string { return appURL(app) + "/releases/" + string(uid) }

// choices are the versions that can be compared.
func choices(r *request, path string) ([]client.Group, error) {
	return items[client.Group](r, path+"/groups?"+query("limit", choiceSize))
}

// difference is what differs between two versions.
type difference struct {
	Changes   []client.Change // without those that are the same
	Unchanged int
	Files     listed[client.ChangedFile]
	Commits   []client.Commit // only one of the two has them; none where they are not known
}

// between reads what differs between two versions of the app at path.
func between(r *request, path, from, to, cursor string) (d difference, err error) {
	sides := query("from", from, "to", to)
	all, err := items[client.Change](r, path+"/diff?"+sides)
	if err != nil {
		return d, err
	}
	d.add(all)
	d.Files, err = list[client.ChangedFile](r, path+"/diff/files?"+sides+"&"+query("limit", pageFiles, "cursor", cursor))
	if err != nil {
		return d, err
	}
	d.Commits, err = items[client.Commit](r, path+"/diff/commits?"+sides+"&"+query("limit", pageFiles))
	return d, landfall.Ignore(err, landfall.NotFound) // the repository's mirror is in another process
}

// add sorts changes from what is the same.
func (d *difference) add(all []client.Change) {
	for _, c := range all {
		if c.Change == landfall.Unchanged {
			d.Unchanged++
		} else {
			d.Changes = append(d.Changes, c)
		}
	}
}

// diffPage is two versions side by side.
type diffPage struct {
	App      client.App
	From, To string
	Others   []client.Group
	Diff     *difference // nil until both are chosen
	Next     string      // address of more files
}

// diff shows what differs between two versions.
func diff(r *request) (*view, error) {
	q := r.URL.Query()
	p := diffPage{From: q.Get("from"), To: q.Get("to")}
	path := appPath(r)
	if err := r.get(path, &p.App); err != nil {
		return nil, err
	}
	var err error
	if p.Others, err = choices(r, path); err != nil {
		return nil, err
	}
	if p.From != "" && p.To != "" {
		d, err := between(r, path, p.From, p.To, q.Get("files"))
		if err != nil {
			return nil, err
		}
		p.Diff = &d
		if d.Files.Next != "" {
			p.Next = "?" + query("from", p.From, "to", p.To, "files", d.Files.Next)
		}
	}
	if p.From == "" && p.To == "" && len(p.Others) > 0 { // what is likely wanted
		p.To = string(p.Others[0].UID)
		p.From = string(comparedWith(p.Others[0].UID, p.App.Live, p.Others))
	}
	return &view{page: "diff", title: "Compare releases of " + p.App.Name, crumbs: append(appCrumbs(p.App.Name),
		crumb{"Compare", appURL(p.App.Name) + "/diff"}), data: p}, nil
}
