package runner_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/runtime/wasm/wasmtest"
	"landfall.dev/landfall/secret"
)

// Whatever a function does with a secret, neither its log nor what is said of its failure has it.
func TestSecretIsHidden(t *testing.T) {
	t.Parallel()
	const value = "canary/6f1d2c+\"7e"
	encoded := base64.StdEncoding.EncodeToString([]byte(value))
	for name, bad := range map[string]string{
		"logs it":                                       `echo "the key is $KEY and $ENCODED." >&2; ` + answer,
		"logs it in two pieces":                         `printf %s "${KEY%????????}" >&2; printf '%s\n' "${KEY#?????????}" >&2; ` + answer,
		"logs half of it at its end":                    `printf %s "${KEY%????????}" >&2; ` + answer,
		"logs much before it":                           `i=0; while [ $i -lt 400 ]; do echo "$i $KEY" >&2; i=$((i+1)); done; exit 3`,
		"throws it":                                     `echo "ValueError: $KEY" >&2; exit 1`,
		"throws half of it":                             `printf 'ValueError: %s' "${KEY%????????}" >&2; exit 1`,
		"prints it":                                     `echo "$KEY"`,
		"prints it far to the right":                    `printf '%70s\n' x"$KEY"`,
		"answers what is no event":                      `printf '{"specversion":"1.0","%s":1}\n' "$ENCODED"`,
		"answers with it as an error":                   `printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","error":{"message":"m %s","type":"%s","trace":"at %s"}}\n' "$ENCODED" "$ENCODED" "$ENCODED"`,
		"answers with it as an error without a message": `printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","error":{"type":"%s","trace":"at %s"}}\n' "$ENCODED" "$ENCODED"`,
		"answers with it as a field of an error":        `printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","error":{"message":"%s","type":{"%s":1}}}\n' "$ENCODED" "$ENCODED"`,
		"answers with it as an error that is text":      `printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","error":"%s"}\n' "$ENCODED"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := newLogs()
			r := start(t, &runner.Runner{Logs: log, Limits: runner.Limits{Log: 5000}})
			f := counter(t, bad)
			f.Env = map[string]string{"KEY": value, "ENCODED": encoded}
			f.Hide = secret.NewRedactor(map[string]secret.Text{"KEY": value})
			e, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", "x")})
			fault, _, _ := event.ErrorOf(e)
			told := fmt.Sprint(log.of("x"), log.of(""), err, function.EventError(err), fault, e)
			for _, leak := range []string{value[:9], value[len(value)-8:], encoded[:8], "2c+\\\"7e"} {
				if strings.Contains(told, leak) {
					t.Errorf("%q is in %q", leak, told)
				}
			}
			// E-041: a mark stands where the secret was
			if !strings.Contains(told, "[secret KEY]") && !strings.Contains(landfall.MessageOf(err), "has a secret in it") {
				t.Errorf("nothing says that a secret was there: %q", told)
			}
		})
	}
}

// A module's log, and what is said of its failure, have none either: what it logs, whole or the beginning, and what it
// writes that is no event.
func TestSecretOfModuleIsHidden(t *testing.T) {
	t.Parallel()
	const value = "canary-6f1d2c"
	for _, text := range []string{"the key is " + value + ".", "the key is " + value[:7]} {
		logged, printed := wasmtest.Says(text), wasmtest.Says(text)
		logged.Body[1] = 2 // to standard error
		r, functions := modules(t, logged, printed)
		for i, f := range functions {
			f.Hide = secret.NewRedactor(map[string]secret.Text{"KEY": value})
			_, err := r.Run(t.Context(), f, function.Call{Event: ask("good", "x")})
			log, ok := r.Logs.(*logs)
			if !ok {
				t.Fatal("the logs are others")
			}
			told := fmt.Sprint(log.of("x"), err, function.EventError(err))
			if err == nil || strings.Contains(told, value[:7]) || !strings.Contains(told, "[secret KEY]") {
				t.Errorf("%q, by %d: told is %q, want a mark in its place", text, i, told)
			}
		}
	}
}

// What a function answers to its caller is its own affair.
func TestSecretInAnswer(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{})
	f := counter(t, `printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","data":"%s"}\n' "$KEY"`)
	f.Env = map[string]string{"KEY": "canary-6f1d2c"}
	f.Hide = secret.NewRedactor(map[string]secret.Text{"KEY": "canary-6f1d2c"})
	e, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", "")})
	if err != nil || !strings.Contains(string(e.Data()), "canary-6f1d2c") {
		t.Errorf("got %s and the error %v", e.Data(), err)
	}
}
