package event_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"landfall.dev/landfall/event"
)

// answers are events whose members are strings, or nearly so: the rest is read in another way.
func answers() []string {
	return []string{
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","datacontenttype":"text/plain","data":"a","execution":"x","protocol":"{\"type\":\"http\"}"}`,
		"\t{ \"specversion\" : \"1.0\" ,\r\n\"id\":\"\\u00e9\\n\", \"source\":\"/shop\",\"type\":\"order\"} \n",
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","config":"{}","trigger":"{\"a\":1}","function":"f","error":"{\"message\":\"m\"}"}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","config":"\x","function":"f"}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","config":"\ud800"}`,
		`{"specversion":"1.0","id":"\ud800","source":"/shop","type":"order"}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","datacontenttype":"text/plain","data":"\q"}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","datacontenttype":"text/plain","data":"\ud83d\ude00 é"}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","datacontenttype":"text/plain","data":"` +
			"a long text with one byte that is none \xff" + `"}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","datacontenttype":"text/plain","data":"` +
			"a long text with a line's end \n in it" + `"}`,
		`{"specversion":"1.0","id":"7","id":"7","source":"/shop","type":"order"}`,
		`{"specversion":"1.0","\u0069d":"7","source":"/shop","type":"order"}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order",}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order"} {}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","subject":"\`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","subject":"\"`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","number":7}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","config":{"a":"b"},"data":{"a":1}}`,
		`{"cloud-events-version":"0.1","event-id":"7","source":"/shop","event-type":"order"}`,
		`{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","i":"","j":"","k":"","l":"","m":"","n":"","o":"","p":"","specversion":"1.0"}`,
		`{}`, `}`, `{`, `{"`, `{"a"`, `{"a":`, `{"a":"`, ``, ` `, `[]`,
	}
}

// readTheSame fails the test unless the ways of reading an event agree about a text: as one whose members are strings,
// as any JSON, and as an answer.
func readTheSame(t *testing.T, text string) {
	t.Helper()
	want, _, err := event.ParseSlowly([]byte(text))
	got, _, gotErr := event.Parse([]byte(text))
	message := cmp.Transformer("message", func(err error) string { return err.Error() })
	if diff := cmp.Diff(err, gotErr, message); diff != "" {
		t.Errorf("%q is refused otherwise:\n%s", text, diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%q is read otherwise:\n%s", text, diff)
	}
	answer, answerErr := event.ParseAnswer([]byte(text))
	if diff := cmp.Diff(err, answerErr, message); diff != "" {
		t.Errorf("the answer %q is refused otherwise:\n%s", text, diff)
	}
	if err == nil {
		event.Strip(&want)
	}
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("the answer %q is read otherwise:\n%s", text, diff)
	}
}

// What has only strings in it is read as everything else is.
func TestTexts(t *testing.T) {
	t.Parallel()
	for _, text := range append(answers(), texts()...) {
		readTheSame(t, text)
	}
}

// Nothing that is read of an answer is changed by what is read next, and an answer that is long is whole.
func TestAnswerStays(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(`é\n`, 10_000)
	text := []byte(`{"specversion":"1.0","id":"7","source":"/shop","type":"order","protocol":"` + long +
		`","datacontenttype":"text/plain","data":"abc"}`)
	e, err := event.ParseAnswer(text)
	if err != nil {
		t.Fatal(err)
	}
	clear(text)
	want := strings.ReplaceAll(long, `\n`, "\n")
	if e.Extensions()["protocol"] != want || e.ID() != "7" || string(e.Data()) != "abc" {
		t.Errorf("got %.100v", e)
	}
}

func FuzzTexts(f *testing.F) {
	for _, text := range append(answers(), texts()...) {
		f.Add(text)
	}
	f.Fuzz(readTheSame)
}
