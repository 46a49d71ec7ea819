package main

import (
	"net/http"
	"os"
	"testing"

	"github.com/eyelet-dev/eyelet/testdata"
)

// TestADescribedProducerNeedsOnlyItsFieldAndItsSecret: settings with a default in docs/config.md
// may be left out.
func TestADescribedProducerNeedsOnlyItsFieldAndItsSecret(t *testing.T) {
	t.Parallel()
	file := configured(t, "  pay: {scheme: hmac, header: [X-Hub-Signature-256], secret: octo-secret, pattern: "+
		"\"sha256={sig}\"}\n")
	r := launch(t, "serve", "--config", file)
	request := pushRequest(t, r.deliveries, "g-1", "{}")
	request.URL.Path = "/webhooks/pay"
	res, err := http.DefaultClient.Do(request)
	check(t, err)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
}

// unpacked writes the test data to a folder and returns it.
func unpacked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.CopyFS(dir, testdata.Files()))
	return dir
}
