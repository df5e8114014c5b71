package webhook_test

import (
	"testing"

	"landfall.dev/landfall/webhook"
)

// An address is compared with those of the payload, however either is written.
func TestMatches(t *testing.T) {
	t.Parallel()
	github := webhook.Repository{Owner: "harbor", Name: "shop", URLs: []string{
		"https://github.com/harbor/shop.git", "https://github.com/harbor/shop",
		"git://github.com/harbor/shop.git", "git@github.com:harbor/shop.git",
	}}
	own := webhook.Repository{Owner: "Harbor", Name: "Shop",
		URLs: []string{"http://127.0.0.1:4100/harbor/shop.git", "ssh://git@git.example.com:2222/harbor/shop.git"}}
	for _, c := range []struct {
		repository webhook.Repository
		address    string
		want       bool
	}{
		{github, "https://github.com/harbor/shop.git", true},
		{github, "https://github.com/harbor/shop", true},
		{github, "https://github.com/harbor/shop/", true},
		{github, "https://GitHub.com/Harbor/Shop.git", true},
		{github, "https://github.com:443/harbor/shop", true},
		{github, "https://x-access-token:abc@github.com/harbor/shop", true},
		{github, "http://github.com/harbor/shop", true},
		{github, "git@github.com:harbor/shop.git", true},
		{github, "git@github.com:/harbor/shop", true},
		{github, "github.com:harbor/shop.git", true},
		{github, "ssh://git@github.com/harbor/shop.git", true},
		{github, "ssh://git@github.com:22/harbor/shop", true},
		{github, "git://github.com:9418/harbor/shop.git", true},
		{own, "http://127.0.0.1:4100/harbor/shop.git", true},
		{own, "ssh://git.example.com:2222/harbor/shop", true},

		{github, "", false},
		{github, "https://github.com/harbor/shop2", false},
		{github, "https://github.com/harbor/sho", false},
		{github, "https://github.com/harbour/shop", false},
		{github, "https://github.com/x/harbor/shop", false},
		{github, "https://github.com/harbor/shop/tree/main", false},
		{github, "https://github.com/harbor/shop.git.git", false},
		{github, "https://github.com/", false},
		{github, "https://github.com.example.com/harbor/shop", false},
		{github, "https://example.com/github.com/harbor/shop", false},
		{github, "https://github.com@example.com/harbor/shop", false},
		{github, "https://github.com:8443/harbor/shop", false},
		{github, "https://github.com/harbor/shop?x=github.com/harbor/shop", false},
		{github, "https://github.com/harbor/shop#x", false},
		{github, "ftp://github.com/harbor/shop", false},
		{github, "file:///github.com/harbor/shop", false},
		{github, "/harbor/shop", false},
		{github, "harbor/shop", false},
		{github, "https://github.com/harbor/sh%zzop", false},
		{own, "http://127.0.0.1:4101/harbor/shop.git", false},
		{own, "ssh://git.example.com/harbor/shop", false},
		{webhook.Repository{}, "", false},
		{webhook.Repository{Owner: "srv", Name: "shop", URLs: []string{"", "not an address", "file:///srv/shop"}},
			"file:///srv/shop", false}, {webhook.Repository{Owner: "harbor", Name: "vault",
			URLs: []string{"https://github.com/harbor/shop"}}, "https://github.com/harbor/shop", false},
		{webhook.Repository{Owner: "bor", Name: "shop", URLs: []string{"https://github.com/harbor/shop"}},
			"https://github.com/harbor/shop", false},
	} {
		// N-005: an app is found only by an address that names the payload's repository
		if got := c.repository.Matches(c.address); got != c.want {
			t.Errorf("%q among %q: got %t, want %t", c.address, c.repository.URLs, got, c.want)
		}
	}
}
