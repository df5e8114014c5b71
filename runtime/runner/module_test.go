package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/runtime/wasm"
	"landfall.dev/landfall/runtime/wasm/wasmtest"
	"landfall.dev/landfall/test/testkit"
)

// modules returns a runner of modules, and a function of each source.
func modules(t testing.TB, sources ...wasmtest.Source) (*runner.Runner, []runner.Function) {
	t.Helper()
	m, err := wasm.Open(t.Context(), filepath.Join(t.TempDir(), "wasm"), wasm.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	r := &runner.Runner{Modules: m, Logs: newLogs()}
	t.Cleanup(func() {
		r.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	var functions []runner.Function
	for _, s := range sources {
		file := filepath.Join(t.TempDir(), "main.wasm")
		if err := os.WriteFile(file, s.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		module, err := m.Load(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		functions = append(functions, runner.Function{Function: landfall.Function{ID: file}, Module: module,
			Args: []string{"main.wasm"}})
	}
	return r, functions
}

// A module gets an event and answers it, in an instance that nobody else had or gets.
func TestModule(t *testing.T) {
	t.Parallel()
	r, f := modules(t, wasmtest.Echo())
	for _, id := range []string{"one", "two"} {
		answer, err := r.Run(t.Context(), f[0], function.Call{Event: ask(id, "")})
		if err != nil || answer.Type() != id {
			t.Errorf("the answer to %s is %v, %v", id, answer, err)
		}
	}
	if processes, _ := r.Count(f[0].ID); processes != 0 {
		t.Errorf("%d executions are counted, want none", processes)
	}
}

// What a module does wrong is said as it is of a process.
func TestModuleFaults(t *testing.T) {
	t.Parallel()
	const whole = `{"specversion":"1.0","id":"1","source":"/me","type":"t"}`
	loop := wasmtest.Source{Body: []byte{0x03, 0x40, 0x0c, 0, 0x0b}}
	after := wasmtest.Says(whole)
	after.Body = append(after.Body, loop.Body...)
	tests := []struct {
		source  wasmtest.Source
		reason  function.Reason
		message string
	}{
		{loop, function.ReasonTimeout, "within 200ms"},
		{after, function.ReasonTimeout, "within 200ms"},
		{wasmtest.Source{Body: []byte{0x00}}, function.ReasonExit, "unreachable"},
		{wasmtest.Says(""), function.ReasonExit, "exit code 0 before it answered"},
		{wasmtest.Says(whole[:20]), function.ReasonExit, "in the middle of its answer"},
		{wasmtest.Says("hello"), function.ReasonProtocol, `"hello"; a log belongs on standard error`},
		{wasmtest.Says(whole + whole), function.ReasonProtocol, "more than one"},
		{wasmtest.Says(`{"id":1}`), function.ReasonProtocol, "no event"},
		{wasmtest.Source{Body: []byte{0x41, 0x80, 0xa0, 1, 0x40, 0, 0x41, 0x7f, 0x46, 0x04, 0x40, 0x00, 0x0b}},
			function.ReasonMemory, "more memory"},
	}
	var sources []wasmtest.Source
	for _, test := range tests {
		sources = append(sources, test.source)
	}
	r, f := modules(t, sources...)
	for i, test := range tests {
		f[i].Resources = landfall.Resources{Timeout: testkit.Patience}
		if test.reason == function.ReasonTimeout {
			f[i].Resources.Timeout = 200 * time.Millisecond
		}
		_, err := r.Run(t.Context(), f[i], function.Call{Event: ask("1", "")})
		fault := function.EventError(err)
		if fault.Type != string(test.reason) || !strings.Contains(fault.Message, test.message) {
			t.Errorf("%d: the error is %+v, want %s with %q", i, fault, test.reason, test.message)
		}
	}
}

// A module that is called more often than it may be is busy; a runner that is closed ends what runs.
func TestModuleBusy(t *testing.T) {
	t.Parallel()
	r, f := modules(t, wasmtest.Source{Body: []byte{0x03, 0x40, 0x0c, 0, 0x0b}})
	f[0].Resources = landfall.Resources{Concurrency: 1, Timeout: testkit.Patience}
	ctx, giveUp := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var errs [2]error
	group.Go(func() { _, errs[0] = r.Run(ctx, f[0], function.Call{Event: ask("1", "")}) })
	testkit.Eventually(t, "it runs", func() bool { n, _ := r.Count(f[0].ID); return n == 1 })
	_, err := r.Run(t.Context(), f[0], function.Call{Event: ask("2", "")})
	if fault := function.EventError(err); fault.Type != string(function.ReasonBusy) {
		t.Errorf("the error is %+v, want that it is busy", fault)
	}
	giveUp()
	group.Wait()
	group.Go(func() { _, errs[1] = r.Run(t.Context(), f[0], function.Call{Event: ask("3", "")}) })
	testkit.Eventually(t, "it runs", func() bool { n, _ := r.Count(f[0].ID); return n == 1 })
	r.Close()
	group.Wait()
	for i, err := range errs {
		if landfall.KindOf(err) != landfall.Canceled {
			t.Errorf("call %d: the error is %v, want that it was canceled", i, err)
		}
	}
}

// A module that does not care that the body of its request broke off ends in a moment, and not when its time is over.
func TestModuleBrokenUpload(t *testing.T) {
	t.Parallel()
	r, f := modules(t, wasmtest.Source{
		Imports: [][2]string{{wasmtest.Preview1, "fd_read"}},
		Body: []byte{
			0x03, 0x40, // for ever
			0x41, 4, 0x41, 0xe0, 0xd4, 3, 0x36, 2, 0, // 60,000 at 4
			0x41, 0, 0x41, 0, 0x41, 1, 0x41, 8, 0x10, 0, 0x1a, // from 0, into one text at 0; how many bytes, to 8
			0x0c, 0, 0x0b,
		},
	})
	f[0].Body, f[0].Resources.Timeout = mib, 10*time.Second
	b := newFlow()
	go func() {
		_ = b.to.CloseWithError(&landfall.Error{Kind: landfall.Canceled, Message: "the caller went away"})
	}()
	_, err := send(t, r, f[0], b)
	if landfall.KindOf(err) != landfall.Canceled ||
		!strings.Contains(landfall.MessageOf(err), "broke off: the caller went away") {
		t.Errorf("got %v; want that the body broke off", err)
	}
	f[0].Resources.Timeout = 100 * time.Millisecond
	if _, err := send(t, r, f[0], newFlow()); reason(err) != function.ReasonTimeout {
		t.Errorf("got %v for a body that does not come; want that it took too long", err)
	}
}
