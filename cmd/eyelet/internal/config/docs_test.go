package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
)

// TestEverySettingIsDocumented takes the settings from the schema. Those with _file follow from
// their own.
func TestEverySettingIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/config.md")
	check(t, err)
	seen := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			settings, _ := v["properties"].(map[string]any)
			for name := range settings {
				seen[name] = true
			}
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(schemaAsJSON(t))
	for name := range seen {
		base := strings.TrimSuffix(strings.TrimSuffix(name, "s"), "_file")
		if !strings.Contains(string(text), "`"+name+"`") && !strings.Contains(string(text), name+":") &&
			(base == name || !seen[base]) {
			t.Errorf("docs/config.md does not name the setting %q", name)
		}
	}
	if len(seen) < 150 {
		t.Fatalf("only %d settings found", len(seen))
	}
}

// TestDocumentedHMACProducerVerifies signs with both secrets of the producer in docs/producers.md.
func TestDocumentedHMACProducerVerifies(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/producers.md")
	check(t, err)
	_, rest, _ := strings.Cut(string(text), "## A producer that has no preset")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/producers.md has no example")
	}
	s, err := Source{
		Environ: []string{"TABAPAY_SECRET=new-0123456789abcdef", "TABAPAY_OLD_SECRET=old-0123456789abcdef"},
	}.Parse("e.yaml", []byte(example))
	check(t, err)
	p, err := s.Build(t.Context(), BuildOptions{Stdout: io.Discard})
	check(t, err)
	defer p.Close() //nolint:errcheck // it holds no key set that fetches
	const body = `{"eventType":"transaction.completed"}`
	for _, version := range []string{"v1=new", "v2=old", "v3=new", "v1=bad"} {
		name, secret, _ := strings.Cut(version, "=")
		mac := hmac.New(sha256.New, []byte(secret+"-0123456789abcdef"))
		mac.Write([]byte("1784000000." + body))
		r := httptest.NewRequest("POST", "https://hooks.example/webhooks/tabapay", nil)
		r.Header.Set("Idempotency-Key", "tp-17")
		r.Header.Set("X-HMAC-Signature", fmt.Sprintf("t=1784000000,%s=%x", name, mac.Sum(nil)))
		made := &p.Producers[0]
		id, err := made.Scheme.Verify(r, func() ([]byte, error) { return []byte(body), nil })
		if good := version == "v1=new" || version == "v2=old"; (err == nil) != good {
			t.Errorf("%s: %v", version, err)
			continue
		} else if !good {
			continue
		}
		items, err := made.Items(&producer.Delivery{Request: r, Body: []byte(body), Identity: id})
		if err != nil || items[0].ID != "tp-17" || items[0].Type != "transaction.completed" ||
			id.SignedAt.Unix() != 1784000000 {
			t.Errorf("%s: %+v, %v", version, items, err)
		}
	}
}
