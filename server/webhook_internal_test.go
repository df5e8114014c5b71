package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/webhook"
)

// BenchmarkWebhookAccept measures from a signed request to its answer, over HTTP, while the pipeline works on what was
// accepted: each push is a new commit of one of eight apps, and the forge takes its time.
func BenchmarkWebhookAccept(b *testing.B) {
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	b.Cleanup(elsewhere.Close)
	env := map[string]string{
		"LANDFALL_DATA": b.TempDir(), "LANDFALL_LISTEN": "127.0.0.1:0", "LANDFALL_GITHUB_WEBHOOK_SECRET": forge.WebhookSecret,
		"LANDFALL_ALLOWED_HOSTS": strings.TrimPrefix(elsewhere.URL, "http://"),
	}
	config, err := loadConfig(defaultConfigFile, func(name string) string { return env[name] }, nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := newServer(ctx, config, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			b.Error(err)
		}
	})
	c := &client.Client{URL: s.config.URL.String(), Token: s.config.Token}
	const apps = 8
	for i := range apps {
		app := client.NewApp{Name: fmt.Sprintf("app-%d", i),
			Repository: fmt.Sprintf("%s/%d/harbor/shop.git", elsewhere.URL, i)}
		if err := c.Do(ctx, http.MethodPost, "/apps", app, nil); err != nil {
			b.Fatal(err)
		}
	}
	payload := string(forge.Fixture(b, "push_branch_update"))
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		body := []byte(strings.NewReplacer(
			"710200300", fmt.Sprint(1000+n%apps), "https://github.com/harbor/shop",
			fmt.Sprintf("%s/%d/harbor/shop", elsewhere.URL, n%apps),
			"c3d9a1f04b7e62855d0c9be1f3a76240d8e5917b", fmt.Sprintf("%040x", n+1)).Replace(payload))
		d := forge.Delivery{ID: fmt.Sprint("delivery-", n), Event: "push", Body: body}
		header := forge.Signature(forge.WebhookSecret, body)
		start := time.Now()
		got := forge.Post(b, c.URL+webhook.Path, d, header)
		took = append(took, time.Since(start))
		if got.Status != http.StatusAccepted || len(got.Runs) != 1 {
			b.Fatalf("got %+v, want 202 and a run", got)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-max")
}
