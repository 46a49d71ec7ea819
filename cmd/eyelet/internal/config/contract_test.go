package config

import (
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
)

// A contract moves the defaults that the documentation ties to it, for every scheme. What is
// written counts in either case.
func TestAContractMovesItsDefaults(t *testing.T) {
	t.Parallel()
	const token = "secret: 0123456789abcdef-own"
	const bearer = "scheme: bearer, " + token
	issuer := "scheme: jwt, jwks_url: https://login.example/keys, issuers: [https://login.example], audience: [us]"
	schemes := map[string]string{
		"bearer": bearer, "basic": "scheme: basic, username: a, password: 0123456789abcdef-own",
		"static": "scheme: static, header: X-Key, " + token, "hmac": "scheme: hmac, header: X-Sig, " + token,
		"jwt": issuer, "mtls": "scheme: mtls, fingerprints: [" + strings.Repeat("ab", 32) + "], header: X-Cert",
		"rfc9421":    "scheme: rfc9421, keys: [{id: k, alg: hmac-sha256, secret: 0123456789abcdef0123456789abcdef}]",
		"ed25519":    "scheme: ed25519, header: X-Sig, template: '{body}', public_key: " + strings.Repeat("3d", 32),
		"all":        "scheme: all, schemes: [{" + bearer + "}, {scheme: hmac, header: X-Sig, " + token + "}]",
		"any":        "scheme: any, schemes: [{" + bearer + "}, {scheme: static, header: X-Key, " + token + "}]",
		"body_claim": "scheme: jwt, jwks_url: https://login.example/keys, header: X-Token, body_claim: sum",
		"in_body":    issuer + ", in_body: true", "preset": "preset: github, secret: [another-long-secret]",
	}
	typeOf := func(p producer.Producer) string {
		if p.Type == nil {
			return ""
		}
		return p.Type.String()
	}
	for name, settings := range schemes {
		for contract, api := range map[string]bool{"api": true, "webhook": false} {
			p, errs := buildRate(t, settings+", contract: "+contract)
			if errs != "" {
				t.Errorf("%s: %s", name, errs)
				continue
			}
			key, kind := "digest:body", ""
			switch {
			case name == "in_body":
				key = "jwt:jti"
			case name == "preset":
				key, kind = "header:X-GitHub-Delivery", "header:X-GitHub-Event"
			case api:
				key, kind = producer.IdempotencyKey{}.String(), "json:type"
			}
			required := api || name == "preset"
			if p.KeyRequired != required || p.StaleKnown == api || p.Key.String() != key || typeOf(p) != kind {
				t.Errorf("%s under %s: key %v, required %v, stale known %v, type %v", name, contract, p.Key,
					p.KeyRequired, p.StaleKnown, typeOf(p))
			}
			p, errs = buildRate(t, settings+", type: json:t, key: json:id, key_required: false, "+
				"stale_known: false, contract: "+contract)
			if errs != "" || p.KeyRequired || p.StaleKnown || p.Key.String() != "json:id" || typeOf(p) != "json:t" {
				t.Errorf("%s under %s with settings: %+v, %s", name, contract, p, errs)
			}
		}
	}
}

func TestTheBodyOfAnAcceptance(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]struct{ body, media string }{
		github + "accepted_body: none":                                {"", ""},
		github + "accepted_body: success":                             {"success", "text/plain; charset=utf-8"},
		github + `accepted_body: "<Response/>"`:                       {"<Response/>", "text/xml"},
		github + `accepted_body: '{"code":"SUCCESS"}'`:                {`{"code":"SUCCESS"}`, "application/json"},
		"preset: slack, secret: [another-long-secret], ":              {"", ""},
		"preset: twilio, secret: [another-long-secret], ":             {"<Response/>", "text/xml"},
		"preset: adyen, secret: [" + strings.Repeat("0b", 32) + "], ": {"[accepted]", "text/plain"},
		"preset: slack, secret: [a-long-secret], accepted_body: ok":   {"ok", "text/plain; charset=utf-8"},
	} {
		p, errs := buildRate(t, strings.TrimSuffix(settings, ", "))
		if got := p.Accepted; errs != "" || got.Body == nil || string(got.Body) != want.body ||
			got.Header.Get("Content-Type") != want.media {
			t.Errorf("%s: %+v, %s", settings, got, errs)
		}
	}
	if p, errs := buildRate(t, github+"window: 24h"); p.Accepted.Body != nil || errs != "" {
		t.Errorf("without a setting: %+v, %s", p.Accepted, errs)
	}
	if _, errs := buildRate(t, github+"accepted: 204, accepted_body: ok"); !strings.Contains(errs, "has no body") {
		t.Error(errs)
	}
}
