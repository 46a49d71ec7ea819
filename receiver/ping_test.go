package receiver_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestChecksOfTheURLBringNoEvent: HEAD at own schemes and where a vendor sends it, and what the
// configuration lists.
func TestChecksOfTheURLBringNoEvent(t *testing.T) {
	t.Parallel()
	signed := func(name, field string, pings ...string) producer.Producer {
		return producer.Producer{
			Name: name, Key: producer.BodyDigest(), Contract: producer.Webhook, Pings: pings,
			Scheme: &verify.HMAC{Headers: []string{field}, Encoding: verify.Hex, Secrets: verify.Secrets(secret17)},
		}
	}
	inURL := producer.Producer{Name: "mailchimp", Key: producer.BodyDigest(), Contract: producer.Webhook,
		Scheme: &verify.Static{In: verify.InQuery, Name: "k", Secrets: verify.Secrets(secret17)},
		Pings:  []string{"GET", "form:test=yes"}}
	graph := producer.Producer{Name: "graph", Key: producer.BodyDigest(), Contract: producer.Webhook,
		Scheme: inURL.Scheme, Echo: &producer.Echo{Query: "validationToken", Methods: []string{"POST"}}}
	producers := []producer.Producer{
		graph, signed("woo", "X-WC-Webhook-Signature"), signed("bitbucket", "X-Hub-Signature"), inURL,
		signed("own", "X-Sig", "json:test=true", "query:check"), signed("strict", "X-Sig"),
	}
	producers[len(producers)-1].Methods = []string{"POST", "HEAD"}
	for _, vendor := range preset.All() {
		if p := vendor.Open(preset.Settings{Name: "preset-" + vendor.Name}); p.Err == nil {
			producers = append(producers, p)
		}
	}
	checked := preset.GitHub(secret17)
	checked.Name, checked.Methods = "checked", []string{"POST", "HEAD"}
	cloud := preset.With("bitbucket", secret17)
	cloud.Name = "cloud"
	producers = append(producers, checked, cloud, preset.With("woocommerce", secret17),
		preset.With("intercom", secret17), preset.With("shopify", secret17), preset.With("twilio", secret17))
	store := memstore.New(memstore.Options{})
	rx := opened(t, receiver.Config{Store: store, Producers: producers, URL: "https://hooks.example"})
	for _, p := range producers {
		w := answer(rx, httptest.NewRequest(http.MethodHead, "/webhooks/"+p.Name, nil))
		if p.Preset != "" && !slices.Contains([]string{"intercom", "bitbucket", "woocommerce"}, p.Preset) &&
			p.Name != "checked" {
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s: HEAD gets %d", p.Name, w.Code)
			}
		} else if w.Code != http.StatusOK || w.Body.Len() > 0 || w.Header().Get("Content-Length") != "0" {
			t.Errorf("%s: %d %v %s", p.Name, w.Code, w.Header(), w.Body)
		}
	}
	const form, key = "application/x-www-form-urlencoded", "X-Event-Key"
	for _, row := range []struct {
		method, target, body string
		header               []string
		want                 int
	}{
		{"POST", "woo", "webhook_id=12", []string{"Content-Type", form}, 200},
		{"POST", "woo", `{"id":12}`, nil, 401},
		{"POST", "woo", "webhook_id=12", []string{"Content-Type", form, "X-WC-Webhook-Signature", "00"}, 401},
		{"POST", "strict", "webhook_id=12", []string{"Content-Type", form}, 401},
		{"POST", "bitbucket", `{"test": true}`, []string{key, "diagnostics:ping"}, 200},
		{"POST", "bitbucket", `{"test": true}`, []string{key, "repo:push"}, 401},
		{"POST", "woocommerce", "webhook_id=12", []string{"Content-Type", form}, 200},
		{"POST", "woocommerce", `{"id":12}`, nil, 401},
		{"POST", "cloud", `{"test": true}`, []string{key, "diagnostics:ping"}, 200},
		{"POST", "cloud", `{"test": true}`, []string{key, "repo:push"}, 401},
		{"POST", "own", `{"test":true}`, nil, 200},
		{"POST", "own", `{"test":false}`, nil, 401},
		{"POST", "own?check=1", "", nil, 200},
		{"POST", "own", `{"test":true,"x":"` + strings.Repeat("a", producer.MaxChallengeBody) + `"}`, nil, 401},
		{"GET", "own", "", nil, 405},
		{"GET", "mailchimp", "", nil, 200},
		{"GET", "mailchimp?k=" + secret17, "", nil, 200},
		{"POST", "mailchimp?k=" + secret17, "test=yes", []string{"Content-Type", form}, 200},
		{"POST", "mailchimp", "type=subscribe", []string{"Content-Type", form}, 401},
	} {
		r := post(row.target, row.body, row.header...)
		if r.Method = row.method; row.method == http.MethodGet {
			r.Body, r.ContentLength = http.NoBody, 0
		}
		if w := answer(rx, r); w.Code != row.want || row.want == 200 && w.Body.Len() > 0 {
			t.Errorf("%s %s %.40q %v: %d %s", row.method, row.target, row.body, row.header, w.Code, w.Body)
		}
	}
	const token = "graph?validationToken=tea+17"
	for _, target := range []string{token, token + "&k=" + secret17} {
		r := httptest.NewRequest(http.MethodPost, "/webhooks/"+target, nil)
		if w := answer(rx, r); w.Code != http.StatusOK || w.Body.String() != "tea 17" {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if found := recordsOf(t, store); len(found) > 0 {
		t.Errorf("%d events", len(found))
	}
	if !slices.Contains(strings.Split(answer(rx, httptest.NewRequest(http.MethodPut, "/webhooks/own", nil)).
		Header().Get("Allow"), ", "), http.MethodHead) {
		t.Error("Allow does not list HEAD")
	}
}
