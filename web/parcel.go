package web

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// importPage asks for the archive of a release, and shows what became of it.
type importPage struct {
	App  client.App
	Made *client.Imported // nil until it is there
}

func (p importPage) view(status int) *view {
	return &view{page: "import", title: "Import a release into " + p.App.Name, status: status,
		crumbs: append(appCrumbs(p.App.Name), crumb{"Import", appURL(p.App.Name) + "/import"}), data: p}
}

// askArchive asks for an archive.
func askArchive(r *request) (*view, error) {
	app, err := changeable(r, appPath(r))
	return importPage{App: app}.view(0), err
}

// importRelease makes a release of the archive of a form, which is read as it comes: what else the form says stands
// before it.
func importRelease(r *request) (*view, error) {
	app, err := changeable(r, appPath(r))
	if err != nil {
		return nil, err
	}
	form, err := r.MultipartReader()
	if err != nil {
		return nil, landfall.Wrapf("web", landfall.Invalid, err,
			"This is no form with a file: open the page and do it again.")
	}
	live := false
	for {
		part, err := form.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return nil, landfall.Errorf("web", landfall.Invalid, "No file was chosen: nothing was imported.")
		case err != nil:
			return nil, landfall.Wrapf("web", landfall.Invalid, err, "The form was cut off: nothing was imported.")
		case part.FormName() == "live":
			live = true
		case part.FileName() != "":
			return imported(r, app, part, live)
		}
	}
}

// imported imports an archive, and shows the release.
func imported(r *request, app client.App, archive *multipart.Part, live bool) (*view, error) {
	query := url.Values{}
	if live {
		query.Set("live", "true")
	}
	made, err := r.api.Import(r.Context(), app.Name, archive, query)
	return importPage{app, &made}.view(http.StatusCreated), err
}
