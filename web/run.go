package web

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// runPage is a run with its steps, log and diff.
type runPage struct {
	client.Run
	Owner client.App
	May   bool
	Took  time.Duration // until now, while it is not over
	Steps []stepLine
	Diff  difference
	Lines []line
	Left  int  // lines that are left out before them
	Cut   bool // lines can be left out
}

// stepLine is one step with its place in the time that the run took.
type stepLine struct {
	Name        landfall.Step
	Attempt     int64
	Message     string
	Took        time.Duration
	Running     bool
	Left, Width string // of the drawing, which is 100 wide
}

// line is one line of a log.
type line struct {
	Seq   int64
	Time  time.Time
	Step  landfall.Step
	Spans []span
}

// lastLines is how much of a log is shown unless all of it is asked for.
const lastLines = 2000

// run shows a run.
func run(r *request) (*view, error) {
	p := runPage{}
	id := url.PathEscape(r.PathValue("id"))
	if err := r.get("/runs/"+id, &p.Run); err != nil {
		return nil, err
	}
	if err := r.get("/apps/"+url.PathEscape(p.App), &p.Owner); err != nil {
		return nil, err
	}
	p.May = r.may(p.Owner)
	end := p.Finished
	if end.IsZero() {
		end = r.now
	}
	p.Took = end.Sub(p.Created)
	p.Steps = stepLines(p.Run, end)
	p.Diff.add(p.Changes)
	var follow time.Duration
	if !p.State.Final() {
		follow = soon
	}
	if follow == 0 && len(p.Diff.Changes) > 0 {
		var err error
		if p.Diff.Files, err = list[client.ChangedFile](r, "/runs/"+id+"/files?"+query("limit", pageFiles)); err != nil {
			return nil, err
		}
	}
	v := &view{
		page: "run", title: "Run of " + p.Commit.Short() + ", " + p.App, follow: follow,
		crumbs: append(appCrumbs(p.App), crumb{"Run of " + p.Commit.Short(), "/runs/" + id}),
		tail:   &tail{read: func(ctx context.Context, after int64) ([]line, error) { return lines(ctx, r.api, id, after) }},
	}
	if r.Header.Get("Accept") != "text/event-stream" { // who follows gets the lines by themselves
		all, err := v.tail.read(r.Context(), 0)
		if err != nil {
			return nil, err
		}
		p.Cut = r.URL.Query().Get("log") != "all"
		if p.Cut && len(all) > lastLines {
			p.Left = len(all) - lastLines
			all = all[p.Left:]
		}
		p.Lines = all
	}
	v.data = p
	return v, nil
}

// lines reads what there is of a run's log behind a line.
func lines(ctx context.Context, api *client.Client, id string, after int64) ([]line, error) {
	var all []line
	err := api.Follow(ctx, id, after, true, func(l landfall.LogLine) error {
		all = append(all, line{l.Seq, l.Time, l.Step, spans(l.Text)})
		return nil
	})
	return all, err
}

// stepLines places the steps of a run that was made at its creation, up to the end.
func stepLines(r client.Run, end time.Time) []stepLine {
	whole := max(end.Sub(r.Created), time.Millisecond)
	for _, s := range r.Steps { // the report may come after the end
		whole = max(whole, s.Finished.Sub(r.Created))
	}
	all := make([]stepLine, 0, len(r.Steps))
	for _, s := range r.Steps {
		l := stepLine{Name: s.Step, Attempt: s.Attempt, Message: s.Message, Running: s.Finished.IsZero() && !r.State.Final()}
		until := s.Finished
		if until.IsZero() {
			until = end
		}
		l.Took = max(until.Sub(s.Started), 0)
		left := 100 * min(1, max(0, float64(s.Started.Sub(r.Created))/float64(whole)))
		l.Left, l.Width = number(left), number(min(100-left, max(0.6, 100*float64(l.Took)/float64(whole))))
		all = append(all, l)
	}
	return all
}

// runURL is the address of a run's page.
func runURL(run client.Run) string { return "/runs/" + url.PathEscape(run.ID) }

// doRun does something with a run, and goes to what became of it.
func doRun(operation string) func(*request) (string, error) {
	return func(r *request) (string, error) {
		var after client.Run
		path := "/runs/" + url.PathEscape(r.PathValue("id")) + operation
		err := r.api.Do(r.Context(), http.MethodPost, path, nil, &after)
		return runURL(after), err
	}
}
