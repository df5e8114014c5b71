package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"landfall.dev/landfall/secret"
)

// awkward is a value that every encoding writes differently.
const awkward = `p/w+"é\ 𝄞&<x>=%'~!`

var percent = regexp.MustCompile(`%[0-9A-F]{2}`)

// encodings are how values leave by accident.
func encodings(value string) map[string]string {
	encoded, err := json.Marshal(value)
	if err != nil {
		encoded = []byte("there is no JSON of it")
	}
	all := map[string]string{
		"plain":               value,
		"JSON":                string(encoded[1 : len(encoded)-1]),
		"quoted":              fmt.Sprintf("%q", value),
		"base64":              base64.StdEncoding.EncodeToString([]byte(value)),
		"base64 for URLs":     base64.URLEncoding.EncodeToString([]byte(value)),
		"base64 with more":    base64.StdEncoding.EncodeToString([]byte("user:" + value + "\n")),
		"base64 one before":   base64.StdEncoding.EncodeToString([]byte(":" + value)),
		"base64 two before":   base64.StdEncoding.EncodeToString([]byte("::" + value + "::")),
		"hexadecimal":         hex.EncodeToString([]byte(value)),
		"HEXADECIMAL":         strings.ToUpper(hex.EncodeToString([]byte(value))),
		"a query":             url.QueryEscape(value),
		"a path":              url.PathEscape(value),
		"encodeURIComponent":  strings.NewReplacer("+", "%20", "%21", "!", "%27", "'").Replace(url.QueryEscape(value)),
		"Python's quote":      strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(value)),
		"HTML":                html.EscapeString(value),
		"a query, lower case": percent.ReplaceAllStringFunc(url.QueryEscape(value), strings.ToLower),
	}
	return all
}

func TestRedact(t *testing.T) {
	t.Parallel()
	r := secret.NewRedactor(map[string]secret.Text{"KEY": awkward, "OTHER": "0123456789abcdef", "SHORT": "1234567",
		"ENOUGH": "87654321"})
	for what, text := range encodings(awkward) {
		got := r.String("before " + text + " after")
		if !strings.Contains(got, "[secret KEY]") || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s: %q became %q", what, text, got)
		}
	}
	for text, want := range map[string]string{
		"":                                 "",
		"nothing":                          "nothing",
		"1234567":                          "1234567", // too short to be hidden
		"87654321":                         "[secret ENOUGH]",
		"x 0123456789abcdef y":             "x [secret OTHER] y",
		"0123456789abcdef0123456789abcdef": "[secret OTHER]", // which looks like one long one
		"0123456789abcdex":                 "0123456789abcdex",
		"012345670123456789abcdef":         "01234567[secret OTHER]",
		"it ends with 0123":                "it ends with [secret OTHER]", // it may have been cut there
		"it ends with 012":                 "it ends with 012",
	} {
		if got := r.String(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	var none *secret.Redactor
	if got := none.String("x") + string(none.Stream().Next([]byte("y"))) + string(none.Stream().End()); got != "xy" ||
		none.Finds([]byte("x")) {
		t.Errorf("without values: got %q", got)
	}
	if secret.NewRedactor(map[string]secret.Text{"SHORT": "1234567"}) != nil {
		t.Error("there is nothing to look for, and something does")
	}
}

// Any number of values may begin alike, as addresses and keys of one kind do: each is hidden, however it is written.
func TestRedactAlike(t *testing.T) {
	t.Parallel()
	values := map[string]secret.Text{}
	for i := range 200 {
		values[fmt.Sprintf("HOOK_%03d", i)] = secret.Text(fmt.Sprintf("https://hooks.example.com/services/T%d/B%d?a=1&b=%d",
			i, i*7919, i+1000))
	}
	r := secret.NewRedactor(values)
	for name, value := range values {
		for what, text := range encodings(value.Reveal()) {
			if got := r.String("before " + text); strings.Contains(got, text[len(text)-8:]) {
				t.Errorf("%s, %s: %q became %q", name, what, text, got)
			}
		}
	}
}

// A long value is hidden also where it is cut or wrapped, and each line of one of several lines by itself.
func TestRedactLong(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 40 {
		lines = append(lines, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(i), byte(i * 7), byte(i * 13)}, 16)))
	}
	value := "-----BEGIN PRIVATE KEY-----\n" + strings.Join(lines, "\n") + "\n-----END PRIVATE KEY-----\n"
	r := secret.NewRedactor(map[string]secret.Text{"PEM": secret.Text(value)})
	if got := r.String("a " + value + "b"); strings.Contains(got, lines[3]) || !strings.HasPrefix(got, "a [secret PEM]") ||
		!strings.HasSuffix(got, "b") {
		t.Errorf("as a whole it becomes %q", got)
	}
	for _, line := range lines {
		if got := r.String("> " + line + " <"); got != "> [secret PEM] <" {
			t.Errorf("a line becomes %q", got)
		}
	}
	if got := r.String(value[:700]); strings.Contains(got, lines[2]) || strings.Contains(got, value[640:660]) {
		t.Errorf("its beginning becomes %q", got)
	}
	if text := "-----BEGIN PRIVATE KEY----- is a heading"; r.String(text) != text {
		t.Errorf("a heading becomes %q", r.String(text))
	}
	if text := strings.Repeat("a",
		300); secret.NewRedactor(map[string]secret.Text{"A": secret.Text(strings.Repeat("-", 500))}).String(text) != text {
		t.Error("a line of dashes hides other text")
	}
}

// Wherever a stream is cut, what comes out is what the whole text becomes, and no encoding of a value is in it.
func TestRedactStream(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringN(8, 90, 200).Filter(func(s string) bool { return len(s) >= secret.Shortest }).Draw(t, "value")
		forms := encodings(value)
		names := []string{"plain", "JSON", "base64", "hexadecimal", "a query", "HTML"}
		var text strings.Builder
		for range rapid.IntRange(0, 6).Draw(t, "parts") {
			text.WriteString(rapid.StringMatching(`[a-z \n]{0,12}`).Draw(t, "between"))
			if rapid.Bool().Draw(t, "begins") {
				text.WriteString(value[:rapid.IntRange(0, len(value)-1).Draw(t, "prefix")])
				text.WriteString("|")
			}
			text.WriteString(forms[rapid.SampledFrom(names).Draw(t, "form")])
		}
		text.WriteString(value[:rapid.IntRange(0, len(value)-1).Draw(t, "cut off")])
		r := secret.NewRedactor(map[string]secret.Text{"KEY": secret.Text(value)})
		stream := r.Stream()
		for round := range 2 { // a stream begins anew after its end
			var got strings.Builder
			for rest := text.String(); rest != ""; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
				got.Write(stream.Next([]byte(rest[:n])))
				rest = rest[n:]
			}
			got.Write(stream.End())
			if want := r.String(text.String()); got.String() != want {
				t.Fatalf("round %d: %q became %q, want %q", round, text.String(), got.String(), want)
			}
			for _, name := range names {
				if len(forms[name]) < 72 && strings.Contains(strings.ReplaceAll(got.String(), "[secret KEY]", ""), forms[name]) {
					t.Fatalf("%s of the value is in %q", name, got.String())
				}
			}
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	values := map[string]secret.Text{}
	for i := range 20 {
		values[fmt.Sprintf("KEY_%d", i)] = secret.Text(fmt.Sprintf("sk_live_%032x", i*7919))
	}
	text := bytes.Repeat([]byte("2026-11-20T15:00:00Z INFO an order of 3 items was taken, the total is 42.00 EUR\n"),
		13_000)
	stream := secret.NewRedactor(values).Stream()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		stream.Next(text)
	}
}
