package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/reconcile"
)

// shopAPI serves the list of the page's shop: two pages of one order each, sent an hour ago.
func shopAPI(t *testing.T, token string) *httptest.Server {
	t.Helper()
	sent := time.Now().Add(-time.Hour).Unix()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != token || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		n, next := 1, `{"next": "/v1/events?page=2"}`
		if r.URL.Query().Get("page") == "2" {
			n, next = 2, `{}`
		}
		const page = `{"data": [{"sent_at": %d, "event": {"id": "order-%d", "type": "order.paid"}}], "links": %s}`
		_, _ = fmt.Fprintf(w, page, sent, n, next)
	}))
	t.Cleanup(api.Close)
	return api
}

// shopFile writes the configuration of the page, with the API of the test.
func shopFile(t *testing.T, api string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/howto/reconcile.md")
	check(t, err)
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(page, -1)
	text := string(blocks[len(blocks)-1][1])
	for from, to := range map[string]string{
		"https://api.shop.example": api, "${SHOP_SECRET}": "a secret that is long enough",
		"${SHOP_TOKEN}": "shop-token",
	} {
		if !strings.Contains(text, from) {
			t.Fatalf("the page does not have %s", from)
		}
		text = strings.ReplaceAll(text, from, to)
	}
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	text = "listen: 127.0.0.1:0\noperations: 127.0.0.1:0\nlog: {level: warn}\n" + text
	check(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func reconcileNow(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: &o, Err: &e}
	code = p.Run(context.Background(), append([]string{"reconcile"}, args...)...)
	return code, o.String(), e.String()
}

func TestTheExampleOfReconcileRuns(t *testing.T) {
	t.Parallel()
	api := shopAPI(t, "shop-token")
	file := shopFile(t, api.URL)
	if code, _, errs := reconcileNow(t, "shop", "--config", file); code == 0 ||
		!strings.Contains(errs, "no server runs") {
		t.Errorf("without a server: %d %s", code, errs)
	}
	r := launch(t, "serve", "--config", file)
	if code, _, errs := reconcileNow(t, "shop", "--since", "24h", "--config", file); code == 0 ||
		!strings.Contains(errs, "this store serves the producer since then") {
		t.Errorf("beyond the first start: %d %s", code, errs)
	}
	if code, _, errs := reconcileNow(t, "other", "--config", file); code == 0 ||
		!strings.Contains(errs, "reconcile: {token") {
		t.Errorf("an unknown producer: %d %s", code, errs)
	}
	adopt := time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)
	code, out, errs := reconcileNow(t, "shop", "--dry-run", "--adopt-before", adopt, "--config", file)
	if code != 0 || !strings.Contains(out, "2 events since") || !strings.Contains(out, "2 missed") ||
		!strings.Contains(errs, "1 event listed") {
		t.Errorf("dry run: %d %s%s", code, out, errs)
	}
	code, out, errs = reconcileNow(t, "shop", "--adopt-before", adopt, "--config", file, "-o", "json")
	var last reconcile.Progress
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || code != 0 || len(lines) != 3 ||
		last.Missed != 2 || last.Ended.IsZero() {
		t.Fatalf("%d %s%s %v", code, out, errs, err)
	}
	eventually(t, "both events", func() bool { return strings.Count(r.out.String(), `"fetched":true`) == 2 })
	if text := r.errs.String(); strings.Contains(text, "shop-token") {
		t.Errorf("the log has the token: %s", text)
	}
	if code, out, _ := reconcileNow(t, "shop", "--since", "24h", "--config", file); code != 0 ||
		!strings.Contains(out, "0 missed") {
		t.Errorf("again: %d %s", code, out)
	}
	_, text := get(t, r.operations+"/metrics")
	if !strings.Contains(text, `eyelet_missed_total{endpoint="shop",result="fetched"} 2`) ||
		!strings.Contains(text, `eyelet_reconcile_last_success_timestamp_seconds{endpoint="shop"}`) {
		t.Errorf("metrics: %s", text)
	}
}

func TestAListThatRefusesTheTokenIsReported(t *testing.T) {
	t.Parallel()
	api := shopAPI(t, "another token")
	file := shopFile(t, api.URL)
	launch(t, "serve", "--config", file)
	code, _, errs := reconcileNow(t, "shop", "--config", file)
	if code == 0 || !strings.Contains(errs, "answers 401") || strings.Contains(errs, "shop-token") {
		t.Errorf("%d %s", code, errs)
	}
	text, err := os.ReadFile(file)
	check(t, err)
	change := func(from, to string) {
		check(t, os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
	}
	change("fingerprint: none", "drop_body: false")
	if code, _, errs := reloadNow(t, file); code != exitUsage || !strings.Contains(errs, "cannot be fetched") {
		t.Errorf("a producer that cannot be fetched: %d %s", code, errs)
	}
	change(`token: "shop-token"`, "every: 1h")
	if code, _, errs := reloadNow(t, file); code != exitUsage || !strings.Contains(errs, "needs the token") {
		t.Errorf("without a token: %d %s", code, errs)
	}
}
