package builder

import (
	"testing"

	"golang.org/x/crypto/ssh"

	"landfall.dev/landfall/test/testkit"
)

// The keys of GitHub that are built in have the fingerprints that it publishes.
func TestGitHubKeys(t *testing.T) {
	t.Parallel()
	var got []string
	for _, line := range publishedKeys("github.com") {
		got = append(got, ssh.FingerprintSHA256(testkit.Must(readHostKey(line))(t)))
	}
	// S12: whoever has another key is not GitHub
	testkit.EqualList(t, "fingerprints", got, []string{
		"SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU", // Ed25519
		"SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM", // ECDSA
		"SHA256:uNiVztksCsDhcc0u9e8BujQXVUpKZIDTMczCvj3tD2s", // RSA
	})
}
