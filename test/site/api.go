package site

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/testkit"
)

// Refused calls the API, which must refuse, and returns how.
func (s *Site) Refused(method, path string, in any) *landfall.Error {
	s.T.Helper()
	err := s.Do(context.Background(), method, path, in, nil)
	if err == nil {
		s.T.Fatalf("%s %s was not refused", method, path)
	}
	return &landfall.Error{Kind: landfall.KindOf(err), Message: landfall.MessageOf(err)}
}

// Call calls the API and fails the test on an error.
func (s *Site) Call(method, path string, in, out any) {
	s.T.Helper()
	if err := s.Do(context.Background(), method, path, in, out); err != nil {
		s.T.Fatalf("%s %s: %v", method, path, err)
	}
}

// App makes an app.
func (s *Site) App(name string) client.App {
	s.T.Helper()
	var app client.App
	s.Call(http.MethodPost, "/apps", client.NewApp{Name: name}, &app)
	return app
}

// ShowApp returns an app as it is now.
func (s *Site) ShowApp(name string) client.App {
	s.T.Helper()
	var app client.App
	s.Call(http.MethodGet, "/apps/"+name, nil, &app)
	return app
}

// Pages are the items of a list, over all pages. The path has a query.
func Pages[T any](s *Site, path string) iter.Seq[T] {
	return func(yield func(T) bool) {
		s.T.Helper()
		for cursor := ""; ; {
			var p struct {
				Items []T    `json:"items"`
				Next  string `json:"next"`
			}
			s.Call(http.MethodGet, path+cursor, nil, &p)
			for _, item := range p.Items {
				if !yield(item) {
					return
				}
			}
			if p.Next == "" {
				return
			}
			cursor = "&cursor=" + url.QueryEscape(p.Next)
		}
	}
}

// List returns the items of a list's first page.
func List[T any](s *Site, path string) []T {
	s.T.Helper()
	var p struct {
		Items []T `json:"items"`
	}
	s.Call(http.MethodGet, path, nil, &p)
	return p.Items
}

// Measures are what /metrics says, by name with labels.
type Measures map[string]float64

// Metrics asks for /metrics with a token.
func (s *Site) Metrics(token string) (status int, got Measures) {
	s.T.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.URL+"/metrics", nil)
	if err != nil {
		s.T.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	c := http.Client{Transport: client.LocalTransport(), Timeout: testkit.Patience}
	defer c.CloseIdleConnections()
	resp, err := c.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	got = Measures{}
	for line := range strings.Lines(string(body)) {
		at := strings.LastIndexByte(line, ' ')
		if value, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64); err == nil && !strings.HasPrefix(line, "#") {
			got[line[:at]] = value
		}
	}
	return resp.StatusCode, got
}

// Messages returns what is kept at a topic.
func (s *Site) Messages(app, topic string) []client.Message {
	s.T.Helper()
	all, err := client.List[client.Message](context.Background(), s.Client,
		"/apps/"+app+"/messages/"+url.PathEscape(topic), nil)
	if err != nil {
		s.T.Fatal(err)
	}
	return all
}

// Texts returns the sorted data of messages.
func Texts(all []client.Message) []string {
	var data []string
	for _, m := range all {
		data = append(data, m.Data)
	}
	slices.Sort(data)
	return data
}

// Firings returns how many firings of a trigger the log has with a word.
func (s *Site) Firings(trigger, word string) int {
	n := 0
	for line := range strings.Lines(s.Log.String()) {
		if strings.Contains(line, "time trigger fired") && strings.Contains(line, `"trigger":"`+trigger+`"`) &&
			strings.Contains(line, word) {
			n++
		}
	}
	return n
}
