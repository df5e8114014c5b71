package s3test_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets/s3"
	"landfall.dev/landfall/assets/s3/s3test"
)

// open opens a bucket.
func open(t *testing.T, c s3.Config) *s3.Store {
	t.Helper()
	store, err := s3.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func create(store *s3.Store, key, content string) error {
	_, err := store.Create(context.Background(), key, bytes.NewReader([]byte(content)), int64(len(content)))
	return err
}

func read(store *s3.Store, key string) (string, error) {
	object, err := store.Open(context.Background(), key)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(object)
	return string(data), errors.Join(err, object.Close())
}

const content = "what was stored"

// Each fault is what its name says: 0 is the status of what the server was not asked.
func TestLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault  s3test.Fault
		read   bool // it is tried with an object that is there
		answer []int
	}{
		"none": {fault: func(w http.ResponseWriter, r *http.Request, server http.Handler) {
			server.ServeHTTP(w, r)
		}, answer: []int{200}},
		"slow down":   {fault: s3test.Refuse(http.StatusServiceUnavailable, "SlowDown"), answer: []int{0, 200}},
		"a conflict":  {fault: s3test.Refuse(http.StatusConflict, "ConditionalRequestConflict"), answer: []int{0, 200}},
		"lost answer": {fault: s3test.Lose, answer: []int{200, 412}},
		"other bytes": {fault: s3test.GarbleRequest, answer: []int{403}},
		"truncated":   {fault: s3test.Truncate, read: true, answer: []int{200, 206}},
		"shortened":   {fault: s3test.Shorten, read: true, answer: []int{200}},
		"garbled":     {fault: s3test.Garble, read: true, answer: []int{200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, c := s3test.NewFaultProxy(t, s3test.Bucket(t))
			store := open(t, c)
			matches := s3test.Writes
			if test.read {
				matches = s3test.Reads
				if err := create(store, "a/b", content); err != nil {
					t.Fatal(err)
				}
			}
			line.Requests()
			line.Spoil(1, test.fault, matches)
			var got string
			var err error
			if test.read {
				got, err = read(store, "a/b")
			} else {
				err = create(store, "a/b", content)
			}
			var statuses []int
			for _, r := range line.Requests() {
				statuses = append(statuses, r.Status)
			}
			if !slices.Equal(statuses, test.answer) {
				t.Errorf("the server answered %v (%v, %q), want %v", statuses, err, got, test.answer)
			}
			line.Clear()
			if name == "other bytes" {
				if landfall.KindOf(err) != landfall.Unavailable {
					t.Errorf("got %v, want that the store refuses", err)
				}
				return
			}
			if got, err := read(store, "a/b"); got != content || err != nil {
				t.Errorf("without a fault: got %q (%v), want %q", got, err, content)
			}
		})
	}
}

// A line that breaks after some bytes, and one that is whole again.
func TestToxic(t *testing.T) {
	t.Parallel()
	toxic, c := s3test.NewToxic(t, s3test.Bucket(t))
	store := open(t, c)
	toxic.Spoil("limit_data", "upstream", map[string]any{"bytes": 100})
	if err := create(store, "a/b", content); landfall.KindOf(err) != landfall.Unavailable || err == nil {
		t.Errorf("over a line that breaks: got %v, want an error of kind %s", err, landfall.Unavailable)
	}
	toxic.Clear()
	if err := create(store, "a/b", content); err != nil {
		t.Error(err)
	}
	if got, err := read(store, "a/b"); got != content || err != nil {
		t.Errorf("over a line that is whole: got %q (%v), want %q", got, err, content)
	}
}
