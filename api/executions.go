package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

// Executions are the executions of functions, as far as they are not in the store.
type Executions interface {
	// Accept stores an event with that JSON as its data, which a function is to answer, and returns the execution.
	// It has the given id; for an empty one, a new one. When there is an execution of that id, that is returned.
	Accept(ctx context.Context, id string, function landfall.Reference, input json.RawMessage) (landfall.Execution, error)
	// Resend has a dead letter run again. Conflict when the execution is none.
	Resend(ctx context.Context, id string) (landfall.Execution, error)
	// Flush stores what this process knows of executions and the store does not.
	Flush(ctx context.Context) error
}

func (a *api) registerExecutions(h huma.API) {
	register(h, reading("list-executions", "/executions", "Executions of functions, newest first"), a.listExecutions)
	register(h, operation{id: "create-execution", method: http.MethodPost, path: "/executions",
		scope: landfall.ScopeInvoke, status: http.StatusCreated, makes: "{id}",
		summary: "Run a function, on record from the start"},
		a.createExecution)
	registerOn(a, h, reading("show-execution", "/executions/{id}", "One execution"), a.showExecution)
	registerOn(a, h, deploying("delete-execution", http.MethodDelete, "/executions/{id}",
		"Delete an execution and its log; one that waits is not run").
		answering(http.StatusNoContent), a.deleteExecution)
	registerOn(a, h, invoking("retry-execution", http.MethodPost, "/executions/{id}/retry",
		"Send a dead letter again, which is an accepted execution that failed for good"), a.retryExecution)
	registerOn(a, h, reading("execution-log", "/executions/{id}/log",
		"Its log until it is over: server-sent events, or text if that is accepted"), a.executionLog)
	register(h, reading("function-log", "/functions/{name}/log",
		"What the executions of a version logged: server-sent events, or text if that is accepted"), a.functionLog)
}

// function fails unless a function is there for a token with a scope on its app.
func (a *api) function(ctx context.Context, ref landfall.Reference, scope landfall.Scope) error {
	id := landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name}
	row, err := a.DB.UnitInNamespace(ctx, ref.Namespace, id)
	if err != nil && landfall.KindOf(err) != landfall.NotFound {
		return err
	}
	if err != nil || !caller(ctx).Allows(scope, row.App) {
		return landfall.Errorf("api", landfall.NotFound, "there is no %s in the namespace %q", id, ref.Namespace)
	}
	return nil
}

// parseFunction reads a reference to a function, and fills in the default namespace.
func parseFunction(text string) (landfall.Reference, error) {
	ref, err := landfall.ParseReference(text)
	if ref.Namespace == "" {
		ref.Namespace = landfall.DefaultNamespace
	}
	return ref, err
}

// named returns the function that the body of a request names, for a token with a scope on its app.
func (a *api) named(ctx context.Context, n client.FunctionName, scope landfall.Scope) (landfall.Reference, error) {
	if (n.Function == "") == (n.ID == "") {
		return landfall.Reference{}, landfall.Errorf("api", landfall.Invalid,
			"say in function which function is meant, such as hello or team/hello:3 (function_id is the same)")
	}
	ref, err := parseFunction(n.Function + n.ID)
	if err != nil {
		return ref, err
	}
	if n.Number > 0 {
		ref.Selector = strconv.FormatInt(n.Number, 10)
	}
	return ref, a.function(ctx, ref, scope)
}

// version returns a function's version for a token with a scope on its app.
func (a *api) version(ctx context.Context, ref landfall.Reference, scope landfall.Scope) (landfall.Version, error) {
	if err := a.function(ctx, ref, scope); err != nil {
		return landfall.Version{}, err
	}
	return versioning.Find(ctx, a.DB, ref.Namespace, landfall.FunctionUnit, ref)
}

// flush lets what follows see what was answered before. Without it, it would a moment later.
func (a *api) flush(ctx context.Context) {
	if err := a.Executions.Flush(ctx); err != nil {
		a.Logger.DebugContext(ctx, "executions that are over are not shown yet", "error", err)
	}
}

// ofFunction narrows executions to those of a function or of one version of it, and for a token that is bound to those
// of the app that has the function now: another may have had one of this name before.
func (a *api) ofFunction(ctx context.Context, like *landfall.Execution, function string) error {
	ref, err := parseFunction(function)
	if err != nil {
		return err
	}
	like.Namespace, like.Function = ref.Namespace, ref.Name
	if strings.Contains(function, ":") {
		v, err := a.version(ctx, ref, landfall.ScopeRead)
		if err != nil {
			return err
		}
		like.Number = v.Number
	} else if err := a.function(ctx, ref, landfall.ScopeRead); err != nil {
		return err
	}
	if token := caller(ctx); like.AppID != "" || token.App+token.Namespace == "" {
		return nil
	}
	row, err := a.DB.UnitInNamespace(ctx, ref.Namespace, landfall.UnitID{Kind: landfall.FunctionUnit, Name: ref.Name})
	like.AppID = row.App
	return err
}

func (a *api) listExecutions(ctx context.Context, in *struct {
	Paging
	App      string `query:"app" doc:"name of the app; empty: all"`
	Function string `query:"function" doc:"NAME or NAMESPACE/NAME; with :VERSION, only those of the version"`
	State    string `query:"state" enum:"queued,running,succeeded,failed" doc:"only executions in this state"`
	Dead     bool   `query:"dead" doc:"only dead letters: they were accepted, failed for good, and can be sent again"`
}) (*body[page[landfall.Execution]], error) {
	like := landfall.Execution{State: landfall.ExecutionState(in.State), Dead: in.Dead}
	if in.App != "" {
		app, err := a.app(ctx, in.App, landfall.ScopeRead)
		if err != nil {
			return nil, err
		}
		like.AppID = app.ID
	}
	if in.Function != "" {
		if err := a.ofFunction(ctx, &like, in.Function); err != nil {
			return nil, err
		}
	}
	if in.App == "" && in.Function == "" {
		if err := readsAll(ctx); err != nil {
			return nil, err
		}
	}
	var before landfall.Execution
	var err error
	if before.Created, before.ID, err = readCursor(in.Cursor); err != nil {
		return nil, err
	}
	a.flush(ctx)
	all, err := a.DB.ExecutionsLike(ctx, like, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return answer(pageOf(all, in.Limit, func(x landfall.Execution) string { return cursorOf(x.Created, x.ID) }), nil)
}

// cursorOf is the cursor behind what was made at a time and has an id.
func cursorOf(created time.Time, id string) string {
	return strconv.FormatInt(created.UnixMicro(), 10) + "." + id
}

// readCursor reads a cursor as cursorOf writes it; an empty one is the begin.
func readCursor(text string) (created time.Time, id string, err error) {
	if text == "" {
		return created, "", nil
	}
	at, id, ok := strings.Cut(text, ".")
	us, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !ok {
		return created, "", wrongCursor()
	}
	return time.UnixMicro(us), id, nil
}

// ExecutionPath names an execution.
type ExecutionPath struct {
	ID string `path:"id" doc:"the id, or 8 or more of its first characters, as logs show them"`
}

// find returns an execution. The beginning of an id names it, too, when it is the only one of which the caller may
// know.
func (p ExecutionPath) find(ctx context.Context, a *api, scope landfall.Scope) (landfall.Execution, error) {
	id := p.ID
	a.flush(ctx)
	x, err := a.DB.Execution(ctx, id)
	if err == nil && !caller(ctx).Allows(scope, x.AppID) {
		return landfall.Execution{}, noExecution(id)
	}
	if err == nil || landfall.KindOf(err) != landfall.NotFound || !beginsExecution(id) {
		return x, err
	}
	const many = 100
	found, err := a.DB.ExecutionsFrom(ctx, id, many)
	if err != nil {
		return landfall.Execution{}, err
	}
	found = slices.DeleteFunc(found, func(x landfall.Execution) bool { return !caller(ctx).Allows(scope, x.AppID) })
	switch len(found) {
	case 0:
		return landfall.Execution{}, noExecution(id)
	case 1:
		return a.DB.Execution(ctx, found[0].ID)
	}
	return landfall.Execution{}, landfall.Errorf("api", landfall.Invalid,
		"more than one execution begins with %s, such as %s and %s: write more of it", id, found[0].ID, found[1].ID)
}

func noExecution(id string) error {
	return landfall.Errorf("api", landfall.NotFound, "there is no execution %s", id)
}

// beginsExecution reports whether a text may be the beginning of an execution's id: it is as long as logs show it, or
// longer.
func beginsExecution(text string) bool {
	const shown, whole = 8, 36
	return len(text) >= shown && len(text) < whole && strings.Trim(text, "0123456789abcdef-") == ""
}

func (a *api) showExecution(_ context.Context, x landfall.Execution,
	_ *ExecutionPath) (*body[landfall.Execution], error) {
	return answer(x, nil)
}

func (a *api) deleteExecution(ctx context.Context, x landfall.Execution, _ *ExecutionPath) (*struct{}, error) {
	return nil, a.DB.Update(ctx, func(tx *store.Tx) error { return tx.DeleteExecution(ctx, x.ID) })
}

func (a *api) retryExecution(ctx context.Context, x landfall.Execution,
	_ *ExecutionPath) (*body[landfall.Execution], error) {
	return answer(a.Executions.Resend(ctx, x.ID))
}

func (a *api) createExecution(ctx context.Context,
	in *struct{ Body client.NewExecution }) (*body[landfall.Execution], error) {
	ref, err := a.named(ctx, in.Body.FunctionName, landfall.ScopeInvoke)
	if err != nil {
		return nil, err
	}
	waits := in.Body.Sync == nil || *in.Body.Sync
	if waits {
		if err := a.waiters.Enter(ctx, caller(ctx)); err != nil {
			return nil, err
		}
	}
	x, err := a.Executions.Accept(ctx, identityOf(ctx), ref, in.Body.Input)
	if err != nil || !waits {
		return answer(x, err)
	}
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	for !x.State.Final() {
		select {
		case <-ctx.Done():
			return nil, landfall.Errorf("api", landfall.Canceled, "the execution %s goes on; nobody waits for it any more", x.ID)
		case <-tick.C:
		}
		if x, err = a.DB.Execution(ctx, x.ID); err != nil {
			return nil, err
		}
	}
	return answer(x, nil)
}

// LogReading is how a log is read.
type LogReading struct {
	After  int64  `query:"after" doc:"only what is behind the piece of this number"`
	Follow bool   `query:"follow" default:"true" doc:"wait for more"`
	Accept string `header:"Accept" doc:"text/plain: the log itself"`
}

func (a *api) executionLog(ctx context.Context, x landfall.Execution, in *struct {
	ExecutionPath
	LogReading
}) (*huma.StreamResponse, error) {
	return a.stream(ctx, in.LogReading, func(after int64) ([]landfall.ExecutionLog, bool, error) {
		now, err := a.DB.Execution(ctx, x.ID) // before its log: what was there when it ended is seen then
		if err != nil {
			return nil, false, err
		}
		log, err := a.DB.ExecutionLog(ctx, x.ID, after, logPage)
		return log, now.State.Final(), err
	})
}

func (a *api) functionLog(ctx context.Context, in *struct {
	UnitPath
	LogReading
	Version string `query:"version" doc:"uid, number, label, alias, latest or live; default: latest"`
}) (*huma.StreamResponse, error) {
	v, err := a.version(ctx, landfall.Reference{Namespace: in.Namespace, Name: in.Name, Selector: in.Version},
		landfall.ScopeRead)
	if err != nil {
		return nil, err
	}
	a.flush(ctx)
	return a.stream(ctx, in.LogReading, func(after int64) ([]landfall.ExecutionLog, bool, error) {
		log, err := a.DB.FunctionLog(ctx, in.Namespace, in.Name, v.Number, after, logPage)
		return log, false, err
	})
}

// stream answers with the pieces of a log that next returns, until it says that none will come. Functions made the
// bytes: no browser runs them.
func (a *api) stream(
	ctx context.Context, in LogReading, next func(after int64) ([]landfall.ExecutionLog, bool, error),
) (*huma.StreamResponse, error) {
	if in.Follow {
		if err := a.waiters.Enter(ctx, caller(ctx)); err != nil {
			return nil, err
		}
	}
	plain := strings.HasPrefix(in.Accept, "text/plain")
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		for name, value := range map[string]string{
			"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			"Content-Security-Policy": "sandbox; default-src 'none'", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			hctx.SetHeader(name, value)
		}
		if plain {
			hctx.SetHeader("Content-Type", "text/plain; charset=utf-8")
		}
		w := hctx.BodyWriter()
		err := eachPiece(ctx, w, in.After, in.Follow, followEvery, next, func(l landfall.ExecutionLog) (int64, error) {
			if !plain {
				return l.Seq, writeEvent(w, l.Seq, l)
			}
			_, err := io.WriteString(w, l.Text)
			return l.Seq, err
		})
		if err != nil {
			a.Logger.DebugContext(ctx, "a reader of a function's log left", "error", err)
		}
	}}, nil
}

// writeEvent writes a server-sent event with a number.
func writeEvent(w io.Writer, number int64, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", number, data)
	return err
}

// followEvery is how often it is looked for more of a log that is followed.
const followEvery = 200 * time.Millisecond

// eachPiece writes the pieces of a log behind a number, a page at a time, and with follow waits for more until next
// says that none will come. write returns the number of a piece.
func eachPiece[T any](
	ctx context.Context, w io.Writer, after int64, follow bool, every time.Duration,
	next func(after int64) (page []T, over bool, err error), write func(T) (number int64, err error),
) error {
	flusher, _ := w.(http.Flusher)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		page, over, err := next(after)
		if err != nil {
			return err
		}
		for _, piece := range page {
			if after, err = write(piece); err != nil {
				return err
			}
		}
		if flusher != nil {
			flusher.Flush()
		}
		switch {
		case len(page) == logPage:
			continue
		case over || !follow:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
