package verify

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestStableDigestIgnoresTheTime: two signatures of one message share it; messages that differ
// elsewhere do not.
func TestStableDigestIgnoresTheTime(t *testing.T) {
	t.Parallel()
	base := func() *HMAC {
		return &HMAC{Headers: []string{"Sig"}, Encoding: Hex, Secrets: Secrets("0123456789abcdef")}
	}
	digest := func(h *HMAC, url, tenant, body string, at int64) Identity {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Tenant", tenant)
		if err := h.Sign(r, []byte(body), time.Unix(at, 0)); err != nil {
			t.Fatal(err)
		}
		id, err := h.Verify(r, func() ([]byte, error) { return []byte(body), nil })
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for _, row := range []struct {
		content     string
		timed       bool
		url, tenant bool // whether they are part of the digest
	}{
		{"{body}", false, false, false},
		{"{timestamp}.{body}", true, false, false},
		{"{timestamp}.{header:Tenant}\n{body}", true, false, true},
		{"{url}\n{body}", false, true, false},
	} {
		h := base()
		h.Content = row.content
		if row.timed {
			h.TimestampHeaders = []string{"Time"}
		}
		first := digest(h, "https://a.example/x", "ours", "body", 1700000000)
		if b := h.Binds(); b.Time != row.timed || !b.Content {
			t.Errorf("%s binds %+v", row.content, b)
		}
		later := digest(h, "https://a.example/x", "ours", "body", 1700000099)
		if !bytes.Equal(first.Stable, later.Stable) || row.timed == bytes.Equal(first.Signed, later.Signed) {
			t.Errorf("%s: %x, later %x", row.content, first.Stable, later.Stable)
		}
		alone := strings.Count(row.content, "{") == 1+strings.Count(row.content, "{timestamp}")
		sum := sha256.Sum256([]byte("body"))
		if alone && first.Stable != nil && !bytes.Equal(first.Stable, sum[:]) {
			t.Errorf("%s: %x is not the body's", row.content, first.Stable)
		}
		if row.url == bytes.Equal(first.Stable, digest(h, "https://a.example/y", "ours", "body", 1700000000).Stable) {
			t.Errorf("%s: the URL counts: %t", row.content, !row.url)
		}
		if row.tenant == bytes.Equal(first.Stable,
			digest(h, "https://a.example/x", "theirs", "body", 1700000000).Stable) {
			t.Errorf("%s: the field counts: %t", row.content, !row.tenant)
		}
	}
}
