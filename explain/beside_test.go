package explain_test

import (
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// anyPreset opens a preset with all settings that one of them may need.
func anyPreset(p preset.Preset) producer.Producer {
	return p.Open(preset.Settings{
		Name: "beside-" + p.Name, Secrets: []string{strings.Repeat("cd", 32)}, Account: []string{"WH-9"},
		Audience: []string{"a"}, Issuers: []string{"https://i.example"}, JWKSURL: "https://keys.example/jwks",
		Topics: []string{"arn:aws:sns:us-east-1:1:y"}, Keys: map[string]string{"k": strings.Repeat("cd", 32)},
		Username: "u", Password: "password-of-theirs", Token: "token-of-theirs",
	})
}

// besides returns nine other producers, four of which have their signature in the body.
func besides(t *testing.T) (all []producer.Producer) {
	t.Helper()
	for _, name := range []string{"mailgun", "adyen", "aws-sns", "yandex-pay", "yookassa", "webengage", "telegram",
		"paddle", "sendgrid"} {
		p, ok := preset.Find(name)
		if !ok {
			t.Fatalf("no preset %q", name)
		}
		all = append(all, anyPreset(p))
	}
	return all
}

// TestUnreadBodiesAreExplainedBesideEveryPreset explains deliveries that were refused before their
// body was read. A producer that asks for every body does not explain them.
func TestUnreadBodiesAreExplainedBesideEveryPreset(t *testing.T) {
	t.Parallel()
	own := preset.GitHub("s3cr3t-s3cr3t-s3cr3t")
	var all []producer.Producer
	for _, p := range preset.All() {
		all = append(all, anyPreset(p))
	}
	configs := [][]producer.Producer{{own}, append([]producer.Producer{own}, all...)}
	for _, p := range all {
		configs = append(configs, []producer.Producer{p, own})
	}
	good := "sha256=" + strings.Repeat("0", 64)
	for _, tc := range []struct {
		field  string
		values []string
		want   explain.Cause
		proved bool
	}{
		{"X-Nothing", []string{"1"}, "unsigned", true},
		{"X_hub_signature_256", []string{good}, "header_renamed", false},
		{"X-Hub-Signature-256", []string{good, good}, "header_repeated", true},
		{"X-Hub-Signature", []string{"sha1=" + strings.Repeat("0", 40)}, "hash", false},
		{"X-Hub-Signature-256", []string{"sha256=?"}, "signature_form", false},
		{"Stripe-Signature", []string{"t=1795319382,v1=" + strings.Repeat("0", 64)}, "other_vendor", false},
	} {
		for _, media := range []string{"application/json", "application/x-www-form-urlencoded"} {
			u, _ := url.Parse(public + "/webhooks/github?token=1")
			r := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{tc.field: tc.values,
				"Content-Type": {media}, "X-Github-Event": {"push"}, "X-Github-Delivery": {"1"}}, Body: http.NoBody}
			for i, config := range configs {
				if i > 1 && i%2 != len(media)%2 && os.Getenv("EYELET_LONG") == "" {
					continue // each preset with one media type
				}
				report := patient(config).Explain(t.Context(), explain.Delivery{Endpoint: "github", Request: r,
					Unread: true, Declared: 2, Now: signedAt})
				want := tc.want
				reader := slices.ContainsFunc(config, func(p producer.Producer) bool { return p.Preset == "stripe" })
				if want == "other_vendor" && reader {
					want = "other_endpoint" // it can read the field
				}
				switch first := firstOf(report); {
				case first.Cause != want || first.Proved != tc.proved:
					t.Errorf("%s %q beside %q, %d producers: %+v, want %s", media, tc.field, config[0].Name,
						len(config), report.Findings, want)
				case first.Cause == "other_endpoint" && first.Detail != `producer "beside-stripe"`:
					t.Errorf("%q", first.Detail)
				}
			}
		}
	}
}

func firstOf(report explain.Report) (first explain.Finding) {
	if len(report.Findings) > 0 {
		first = report.Findings[0]
	}
	return first
}
