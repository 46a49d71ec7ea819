package receiver

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

func (s *site) policy(query string, header http.Header) (string, http.Header) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.srv.URL+"/policy"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header = header
	resp, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatal(resp.StatusCode, err)
	}
	return string(body), resp.Header
}

func TestEveryProblemTypeIsAnAnchorOfThePolicy(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	page, _ := s.policy("", nil)
	for _, a := range []req{
		{}, {path: "/x"}, {method: "GET"}, {id: "k1", header: http.Header{"Sig": {"key_unknown"}}},
		{header: http.Header{"Sig": nil}},
	} {
		var p struct{ Type string }
		if err := json.Unmarshal([]byte(s.send(a).body), &p); err != nil {
			t.Fatal(err)
		}
		anchor, ok := strings.CutPrefix(p.Type, "https://hooks.example/policy#")
		if !ok || !strings.Contains(page, `id="`+anchor+`"`) {
			t.Errorf("%q does not resolve", p.Type)
		}
	}
	// Every row is an anchor, once, and every code has a row.
	for _, row := range problems {
		if n := strings.Count(page, `id="`+string(row.Code)+`"`); n != 1 {
			t.Errorf("%s: %d anchors", row.Code, n)
		}
	}
	for code, want := range refusedSignatures {
		if row := problemFor(code); (row.Code == codeInternal) != (want.status == 500) || row.Status < 400 {
			t.Errorf("%s has no row", code)
		}
	}
}

func TestPolicyDescribesTheConfiguration(t *testing.T) {
	t.Parallel()
	p := apiProducer()
	p.Window, p.MaxBody, p.Tolerance.Past = 72*time.Hour, 4242, 10*time.Minute
	p.Nonce, p.SecretQuery = producer.NonceUnique, []string{"token"}
	s := serve(t, p, nil)
	page, header := s.policy("", nil)
	if !strings.HasPrefix(header.Get("Content-Type"), "text/html") || header.Get("Content-Security-Policy") == "" {
		t.Errorf("%v", header)
	}
	for _, want := range []string{
		"3 days", "4242 bytes", "up to 10 min back and 1 min ahead", "1 to 1,024 characters",
		"less the parameters token",
		"https://hooks.example/webhooks/shop", "Idempotency-Replayed: true", "refused for another event", "stored and",
		"&#34;@method&#34;", "success is 202, in flight is 409",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	loads := regexp.MustCompile(`(?i)<script|https?://[a-z]+\.(com|net|org)/[a-z]+\.(js|css)`)
	if odd := loads.FindString(page); odd != "" {
		t.Errorf("the page loads or runs %q", odd)
	}
	for _, way := range []struct {
		query  string
		accept string
	}{{"?format=json", ""}, {"", "application/json"}, {"", "application/json, text/html;q=0.5"}} {
		data, header := s.policy(way.query, http.Header{"Accept": {way.accept}})
		var doc policyDoc
		if err := json.Unmarshal([]byte(data), &doc); err != nil || header.Get("Content-Type") != "application/json" {
			t.Fatal(err, header)
		}
		if len(doc.Endpoints) != 1 || doc.Endpoints[0].Window != "3 days" || !doc.Endpoints[0].Required ||
			len(doc.Problems) != len(problems) {
			t.Errorf("%+v", doc)
		}
	}
	if page, _ := s.policy("", http.Header{"Accept": {"text/html, application/json"}}); !strings.HasPrefix(page,
		"<!DOCTYPE html>") {
		t.Error("a browser gets JSON")
	}
	if g := s.send(req{method: "POST", path: "/policy"}); g.status != 405 || g.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("%+v", g)
	}
}

// TestThePolicyNamesTheFieldOfTheAgent among the components that a signature must cover, as do
// responses to unsigned deliveries.
func TestThePolicyNamesTheFieldOfTheAgent(t *testing.T) {
	t.Parallel()
	for field, component := range map[string]string{
		"UCP-Agent": `"ucp-agent"`, "": `"signature-agent";key="sig1"`,
	} {
		listed := []string{"https://bot.example/keys"}
		agents, err := verify.NewDirectories(verify.DirectoriesConfig{Field: field, URLs: listed})
		if err != nil {
			t.Fatal(err)
		}
		s := serve(t, producer.Signed("shop", agents), nil)
		var doc policyDoc
		page, _ := s.policy("?format=json", nil)
		if err := json.Unmarshal([]byte(page), &doc); err != nil {
			t.Fatal(err)
		}
		got := s.send(req{header: http.Header{"Sig": nil}})
		for _, demanded := range []string{doc.Endpoints[0].Coverage, got.header.Get("Accept-Signature")} {
			if !strings.Contains(demanded, component) {
				t.Errorf("%q: %d, %s is not in %s", field, got.status, component, demanded)
			}
		}
	}
}

func TestTransientStatusesAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	for _, row := range problems {
		if row.Retryable != (row.Status == 503 || row.Status == 409 || row.Status == 429) {
			t.Errorf("%s: %d and retryable %v", row.Code, row.Status, row.Retryable)
		}
	}
}
