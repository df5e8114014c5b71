package files_test

import (
	_ "embed"
	"math/rand/v2"
	"strings"
	"testing"

	"landfall.dev/landfall/runtime/gateway/files"
)

//go:embed testdata/names.txt
var unhashed string

// bundler makes names as a bundler does, whose hash is 8 characters.
type bundler struct {
	name     string
	digits   string  // of the hash
	first    float64 // how many values the first digit of the number has that the hash begins with
	patterns []string
}

// The hashes of Rollup and Rolldown are the first digits of a number of 128 bits, and those of esbuild the base32 of
// its bytes. The patterns of names are those of the bundlers' own configuration.
func bundlers() []bundler {
	const letters, base36, base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
		"abcdefghijklmnopqrstuvwxyz0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	const base64 = letters + "0123456789-_"
	return []bundler{
		{"Vite", base64, 4, []string{"/assets/index-*.js", "/assets/page-about-*.css", "/assets/picture-*.svg"}},
		{"Rollup, base64", base64, 4, []string{"/chunk-*.js", "/assets/logo-*.png"}},
		{"Rollup, base36", base36, 15.2, []string{"/chunk-*.js", "/assets/logo-*.png"}},
		{"Rollup, hex", "0123456789abcdef", 16, []string{"/chunk-*.js", "/assets/logo-*.png"}},
		{"esbuild", base32, 32, []string{"/chunk-*.js", "/main-*.css"}},
		{"VitePress", base64, 4, []string{"/assets/guide.md.*.js", "/assets/guide.md.*.lean.js", "/assets/chunks/theme.*.js",
			"/assets/inter-roman-latin.*.woff2"}},
		{"Astro", base64, 4, []string{"/_astro/about.*.css", "/_astro/say.*.js", "/_astro/photo.*_2aM1JQ.webp"}},
		{"Nuxt", base64, 4, []string{"/_nuxt/*.js", "/_nuxt/entry.*.css"}},
		{"SvelteKit", base64, 4, []string{"/_app/immutable/chunks/*.js", "/_app/immutable/nodes/0.*.js",
			"/_app/immutable/entry/start.*.js"}},
	}
}

// hash returns the next hash.
func (b bundler) hash(random *rand.Rand) string {
	var hash [8]byte
	for number, n := random.Float64()*b.first, 0; n < len(hash); {
		digit := int(number)
		number = (number - float64(digit)) * float64(len(b.digits))
		if n == 0 && digit == 0 && b.first != float64(len(b.digits)) {
			continue // a number does not begin with a zero
		}
		hash[n] = b.digits[digit]
		n++
	}
	return string(hash[:])
}

// ordinary reports whether a hash has neither a digit nor both capitals and small letters.
func ordinary(hash string) bool {
	return !strings.ContainsAny(hash, "0123456789") && (strings.ToLower(hash) == hash || strings.ToUpper(hash) == hash)
}

// What bundlers name by their content is known by its name.
func TestHashesOfBundlers(t *testing.T) {
	t.Parallel()
	const names, most = 200_000, 3.0
	for _, b := range bundlers() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, 2)) // the same names each time
			missed, asked := 0, 0
			for n := range names {
				hash := b.hash(random)
				if ordinary(hash) {
					continue
				}
				asked++
				if !files.Hashed(strings.Replace(b.patterns[n%len(b.patterns)], "*", hash, 1)) {
					missed++
				}
			}
			percent := 100 * float64(missed) / float64(asked)
			t.Logf("%.2f %% of %d names missed", percent, asked)
			// K-004: fewer than 3 % of the names are missed that have digits or capitals and small letters
			if percent >= most || asked < names/2 {
				t.Errorf("%.2f %% of %d names are not taken for hashes, want fewer than %.0f %%", percent, asked, most)
			}
		})
	}
}

// What people name is not taken for a hash, in any of 200 npm packages that name no file by its content; and neither
// are names that look like one.
func TestNamesWithoutHashes(t *testing.T) {
	t.Parallel()
	names := 0
	for name := range strings.Lines(unhashed) {
		name = strings.TrimSpace(name)
		if strings.HasPrefix(name, "#") {
			continue
		}
		names++
		// K-004: no name that people gave is taken for a hash
		if files.Hashed("/" + name) {
			t.Errorf("%q is taken for a name with a hash", name)
		}
	}
	if names < 4000 {
		t.Errorf("got %d names, want 4000 and more", names)
	}
	for _, name := range []string{
		"550e8400-e29b-41d4-a716-446655440000.jpg", "20240101a.js", "report-20241121.pdf", "photo-IMG_1234.jpg",
		"scan-DSC00012.png", "EPSG4326.js", "the-isAutoPx.js", "new-VPNavBar.css", "GraphQLs.js", "a-b-c-d-e-f-g.js",
		"v1.2.3-beta.4.js", "Adobe-GB1-UCS2.bin", "my-covid19x.json",
	} {
		if files.Hashed("/files/" + name) {
			t.Errorf("%q is taken for a name with a hash", name)
		}
	}
}
