package web

import (
	"net/url"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// appLine is one app at a glance.
type appLine struct {
	client.App
	LiveGroup *client.Group // what is live; nil when nothing is, or long ago
	Run       *client.Run   // the newest
	Spark     []bar         // how long the newest runs took, by what they came to
}

// How much of each app the overview looks at.
const (
	glanceRuns   = 16
	glanceGroups = 30
)

// overview shows all apps.
func overview(r *request) (*view, error) {
	var status client.Status
	if err := r.get("/status", &status); err != nil {
		return nil, err
	}
	apps, err := everything[client.App](r, "/apps")
	if err != nil {
		return nil, err
	}
	lines := make([]appLine, 0, len(apps))
	for _, app := range apps {
		line, err := glance(r, app)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return &view{page: "overview", title: "Apps", follow: later, data: struct {
		Status client.Status
		Apps   []appLine
	}{status, lines}}, nil
}

func glance(r *request, app client.App) (appLine, error) {
	line := appLine{App: app}
	path := "/apps/" + url.PathEscape(app.Name)
	runs, err := items[client.Run](r, "/runs?"+query("app", app.Name, "limit", glanceRuns))
	if err != nil {
		return line, err
	}
	if len(runs) > 0 {
		line.Run = &runs[0]
	}
	line.Spark = spark(runs)
	groups, err := items[client.Group](r, path+"/groups?"+query("limit", glanceGroups))
	for _, g := range groups {
		if g.UID == app.Live {
			line.LiveGroup = &g
		}
	}
	return line, err
}

// spark draws the newest runs, given newest first.
func spark(runs []client.Run) []bar {
	stacks := []stack{}
	for _, r := range slices.Backward(runs) {
		if !r.State.Final() {
			continue
		}
		took := r.Finished.Sub(r.Created)
		stacks = append(stacks, stack{[]float64{max(took.Seconds(), 0.001)}, []string{"bar " + tone(r.State)}, ""})
	}
	return draw(stacks, glanceRuns)
}

// tone is the colour of a run's state.
func tone(state landfall.RunState) string {
	switch state {
	case landfall.RunSucceeded:
		return "good"
	case landfall.RunFailed, landfall.RunError:
		return "bad"
	case landfall.RunQueued, landfall.RunRunning, landfall.RunWaiting:
		return "busy"
	case landfall.RunSuperseded, landfall.RunSkipped, landfall.RunCancelled, landfall.RunDeclined,
		landfall.RunExpired:
		return "idle"
	}
	return "idle"
}
