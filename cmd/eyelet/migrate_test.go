package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTheExampleOfMigrateRuns forwards a forged delivery without credentials, and then the real one
// with the same identifier.
func TestTheExampleOfMigrateRuns(t *testing.T) {
	t.Parallel()
	const secret = "a secret that is long enough"
	got := make(chan *http.Request, 9)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r }))
	t.Cleanup(target.Close)
	page, err := os.ReadFile("../../docs/howto/migrate.md")
	check(t, err)
	text := string(regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindSubmatch(page)[1])
	until := regexp.MustCompile(`monitor_until: [0-9-]+`)
	write := func(days int) string {
		date := time.Now().UTC().Add(time.Duration(days) * 24 * time.Hour).Format(time.DateOnly)
		text := strings.NewReplacer("http://127.0.0.1:9000", target.URL, "${SHOP_SECRET}", secret, "${HOOK_TOKEN}",
			"token").Replace(until.ReplaceAllString(text, "monitor_until: "+date))
		file := filepath.Join(t.TempDir(), "eyelet.yaml")
		check(t, os.WriteFile(file, []byte("listen: 127.0.0.1:0\noperations: 127.0.0.1:0\n"+text), 0o600))
		return file
	}
	if code, _, errs := outcome(t, "config", "check", "--config", write(32)); code == 0 ||
		!strings.Contains(errs, `producer "shop": monitor_until: at most `) {
		t.Errorf("a late date: %d %s", code, errs)
	}
	file := write(20)
	r := launch(t, "serve", "--config", file)
	body := `{"paid":true}`
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	for _, one := range []struct{ signature, body, verified, authorization string }{
		{"00", `{"paid":"forged"}`, "no", ""},
		{hex.EncodeToString(mac.Sum(nil)), body, "", "Bearer token"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.deliveries+"/webhooks/shop",
			strings.NewReader(one.body))
		check(t, err)
		req.Header = http.Header{"X-Signature": {one.signature}, "X-Delivery": {"d1"}, "X-Event": {"paid"},
			"Eyelet-Verified": {"yes"}, "Content-Type": {"application/json"}}
		resp, err := http.DefaultClient.Do(req)
		check(t, err)
		check(t, resp.Body.Close())
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
		h := (<-got).Header
		if verified := strings.Join(h["Eyelet-Verified"], ","); verified != one.verified ||
			h.Get("Authorization") != one.authorization {
			t.Errorf("%s: forwarded with %v", one.body, h)
		}
	}
	code, _, errs := outcome(t, "events", "show", "d1", "--config", file)
	row := regexp.MustCompile(`Z +(1-[a-z0-9]+) .* UNVERIFIED +1 +d1`).FindStringSubmatch(errs)
	if code == 0 || strings.Count(errs, "UNVERIFIED") != 1 || row == nil {
		t.Fatalf("%d %s", code, errs)
	}
	if _, out, _ := outcome(t, "events", "show", row[1], "-o", "text", "--config", file); !regexp.MustCompile(
		`(?m)^UNVERIFIED +signature_mismatch$`).MatchString(out) {
		t.Error(out)
	}
	dir := t.TempDir()
	if code, _, errs := outcome(t, "events", "show", "--dir", dir, row[1], "--config", file); code != 0 {
		t.Fatal(errs)
	}
	all, err := filepath.Glob(filepath.Join(dir, "*.http"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	code, _, errs = outcome(t, "send", "--sign", all[0], "--config", file)
	if code == 0 || !strings.Contains(errs, "did not verify when it was received (signature_mismatch)") {
		t.Errorf("it is signed: %d %s", code, errs)
	}
}

func outcome(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = (&program{In: strings.NewReader(""), Out: &o, Err: &e}).Run(t.Context(), args...)
	return code, o.String(), e.String()
}
