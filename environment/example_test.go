package environment_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"landfall.dev/landfall/event"
	"landfall.dev/landfall/test/testkit"
)

// examples are the two functions that each language has: one that answers a request, and one that answers an event.
func examples() []struct{ language, plain, event, shell string } {
	return []struct{ language, plain, event, shell string }{
		{"python", "hello.main", "greet.main", "python3 .landfall/adaptor.py greet.main"},
		{"nodejs", "hello", "greet.handler", "node .landfall/adaptor.cjs greet.handler"},
		{"binary", "exec:hello", "greet", "./greet"},
		{"go", "Handler", "greet", "./greet"},
		{"wasm", "hello.wasm", "greet.wasm", "$WAZERO run greet.wasm"},
	}
}

// A person writes a function as the language has it, and runs it in a shell. The runner runs the same function: events
// come in by the process that stays, answers go out, and what it prints is its log.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"confined", "off"} {
		for _, test := range examples() {
			t.Run(test.language+"/"+kind, func(t *testing.T) {
				t.Parallel()
				r, log := start(t, kind)
				plain := runnable(t, test.language, test.plain, example(t, test.language))
				for _, name := range []string{"Ada", "Bo"} {
					answer := run(t, r, plain, get(t, name, "http://shop.localhost/hello?name="+name))
					if got, want := string(answer.Data()), "Hello, "+name+"!\n"; got != want {
						t.Errorf("the answer is %q, want %q", got, want)
					}
					// E-017: the answer has what its protocol knows
					if p := protocol(t, answer); p.Status != 200 || len(p.Headers["Content-Type"]) != 1 {
						t.Errorf("the answer's protocol is %+v, want a status and a content type", p)
					}
				}
				greet := runnable(t, test.language, test.event, example(t, test.language))
				greet.ID += " greet"
				for _, name := range []string{"Cy", "Di"} {
					answer := run(t, r, greet, arrival(t, name, `{"name":"`+name+`"}`))
					// E-015, E-016: a stream of events in, a stream of events out
					if got, want := string(answer.Data()), `{"text":"Hello, `+name+`!"}`; got != want || answer.Type() != "greeting" {
						t.Errorf("the answer is %s with %s, want a greeting with %s", answer.Type(), got, want)
					}
				}
				if processes, _ := r.Count(greet.ID); greet.Module == nil && processes != 1 {
					t.Errorf("%d processes answered, want one", processes)
				}
				for _, name := range []string{"Ada", "Bo", "Cy", "Di"} {
					// E-013: what it prints is the log, not the answer
					if got, want := log.of(name), "greeting "+name+"\n"; got != want {
						t.Errorf("the log of %s is %q, want %q", name, got, want)
					}
				}
			})
		}
	}
}

// In a shell a function gets events from standard input, one a line, and its answers are on standard output.
func TestShell(t *testing.T) {
	t.Parallel()
	for _, test := range examples() {
		t.Run(test.language, func(t *testing.T) {
			t.Parallel()
			f := runnable(t, test.language, test.event, example(t, test.language))
			shell := exec.CommandContext(t.Context(), "sh", "-c",
				`printf '%s\n%s' "$EVENT" "$EVENT" | `+test.shell+` 2>/dev/null`)
			shell.Dir = f.Dir
			shell.Env = append(shell.Environ(), "PATH=/usr/bin:/bin",
				`EVENT={"specversion":"1.0","id":"1","source":"/me","type":"arrival","data":{"name":"Ada"}}`)
			if test.language == "wasm" {
				shell.Env = append(shell.Env, "WAZERO="+wazero(t))
			}
			out, err := shell.Output()
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if test.language == "binary" { // read does not take a line without an end
				lines = append(lines, lines[0])
			}
			if len(lines) != 2 {
				t.Fatalf("it prints %d lines, want 2: %s", len(lines), out)
			}
			for _, line := range lines {
				answer, _, err := event.Parse([]byte(line))
				// E-011: it runs standalone, from a shell
				if err != nil || string(answer.Data()) != `{"text":"Hello, Ada!"}` {
					t.Errorf("it prints %s, %v", line, err)
				}
			}
		})
	}
}

// What is no event is said to be none, to who types it. The function goes on.
func TestNoEvent(t *testing.T) {
	t.Parallel()
	for _, test := range examples()[:2] {
		f := runnable(t, test.language, test.event, example(t, test.language))
		shell := exec.CommandContext(t.Context(), f.Args[0], f.Args[1:]...)
		shell.Dir, shell.Stdin = f.Dir, strings.NewReader("nonsense\n\n[]\nnull\n"+
			`{"specversion":"1.0","id":"1","source":"/me","type":"t","execution":"x1","data":{"name":"Ada"}}`)
		out, err := shell.Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) != 4 {
			t.Fatalf("%s: it prints %d lines, want 4: %s", test.language, len(lines), out)
		}
		for i, line := range lines {
			answer, _, err := event.Parse([]byte(line))
			if err != nil {
				t.Fatalf("%s: %v: %s", test.language, err, line)
			}
			fault, ok, err := event.ErrorOf(answer)
			if ok != (i < 3) || err != nil ||
				(ok && !strings.Contains(fault.Message, "one event as a JSON object on each line")) {
				t.Errorf("%s: answer %d is %s", test.language, i+1, line)
			}
			if execution := event.ExecutionOf(answer); !ok && execution != "x1" {
				t.Errorf("%s: the answer is of execution %q, want the event's", test.language, execution)
			}
		}
	}
}

// A function ends with its input, whatever it left open.
func TestEnds(t *testing.T) {
	t.Parallel()
	f := runnable(t, "nodejs", "", files{"index.js": "setInterval(() => {}, 1000); exports.handler = () => 5"})
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	shell := exec.CommandContext(ctx, f.Args[0], f.Args[1:]...)
	shell.Dir, shell.Stdin = f.Dir, strings.NewReader(`{"specversion":"1.0","id":"1","source":"/me","type":"t"}`)
	if out, err := shell.Output(); err != nil || !strings.Contains(string(out), `"data":5`) {
		t.Errorf("it prints %s, %v", out, err)
	}
}
