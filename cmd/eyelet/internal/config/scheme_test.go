package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/testdata"
)

// TestErrorsOfSchemesNameTheirLine: each row is the producer in line 3 and the errors.
func TestErrorsOfSchemesNameTheirLine(t *testing.T) {
	t.Parallel()
	const keyHint = " | write PEM (PUBLIC KEY), or hexadecimal or base64 of 32 bytes or of the DER"
	tests := map[string]struct{ producer, want string }{
		"a misspelt scheme": {
			"scheme: baerer, secret: kettle", `e.yaml:3: unknown scheme "baerer" | did you mean "bearer"?`,
		},
		"a misspelt setting": {
			"scheme: basic, username: x, pasword: kettle", `e.yaml:3: unknown setting "pasword" in producers.x | ` +
				`did you mean "password"?`,
		},
		"no token": {"scheme: bearer", `e.yaml:3: producer "x": credential: no secret is set`},
		"a test key": {"scheme: bearer, secret: " + testdata.Secrets()[0], `e.yaml:3: producer "x" uses a published ` +
			`secret of the test data | make one of your own: eyelet keygen --alg hmac-sha256`},
		"no user": {
			"scheme: basic, password: kettle", `e.yaml:3: producer "x" has no user name | add username: NAME`,
		},
		"two places": {
			"scheme: static, header: X-A, query: a, secret: kettle", `e.yaml:3: producer "x" needs either the header ` +
				`field or the query parameter of its secret | write header: X-Api-Key, or query: key`,
		},
		"not a field": {
			`scheme: static, header: "X A", secret: kettle`,
			`e.yaml:3: producer "x": credential: "X A" is not a field name`,
		},
		"a certificate without TLS": {
			"scheme: mtls, names: [a.example]",
			`e.yaml:3: producer "x" needs client certificates, and there is no tls | ` +
				`add tls: {cert_file: ..., key_file: ..., client_ca_file: ...}, or proxy_header`,
		},
		"no certificate": {
			"scheme: mtls, proxy_header: X-Cert}\ntrusted_proxies: [192.0.2.1]\nlog: {level: info",
			`e.yaml:3: producer "x": mtls: no name ` +
				`and no fingerprint of a client's certificate`,
		},
		"any proxy": {
			"scheme: mtls, names: [a], proxy_header: X-Cert",
			`e.yaml:3: proxy_header without trusted_proxies: any client ` +
				`could write it | name the proxy in trusted_proxies`,
		},
		"names without an authority": {
			"scheme: mtls, names: [a]}\ntls: {cert_file: a, key_file: b",
			`e.yaml:3: names of certificates count only ` +
				`where their authority is checked | add tls: {client_ca_file: ...}, or write fingerprints`,
		},
		"an authority without effect": {
			"scheme: bearer, secret: kettle}\ntls: {cert_file: a, key_file: b, client_ca_file: c",
			`e.yaml:4: ` +
				`tls.client_ca_file has no effect: no producer is authenticated by its certificate | leave it out, ` +
				`or give a producer scheme: mtls`,
		},
		"an authority for one of several": {
			"scheme: all, schemes: [{scheme: mtls, names: [a]}, {scheme: bearer, secret: kettle}]}\n" +
				"tls: {cert_file: a, key_file: b, client_ca_file: c", "<nil>",
		},
		"no keys of tokens": {
			"scheme: jwt, issuers: [a], audience: [b]",
			`e.yaml:3: producer "x" needs either a jwks_url or a key set | ` +
				`add jwks_url: https://login.example/keys, or jwks_file: keys.json`,
		},
		"no issuer": {
			"scheme: jwt, audience: [b], jwks_url: https://a.example",
			`e.yaml:3: producer "x" names no issuer of its ` +
				`tokens | add issuers: [https://login.example]`,
		},
		"no audience": {
			"scheme: jwt, issuers: [a], jwks_url: https://a.example",
			`e.yaml:3: producer "x": jwt: neither an audience ` +
				`nor a claim restricts tokens to us`,
		},
		"a shared key of tokens": {
			"scheme: jwt, issuers: [a], audience: [b], algs: [HS256], jwks_url: https://a.example",
			`e.yaml:3: producer ` +
				`"x": jwt: algorithm "HS256" is not a signature with a public key (RFC 7518 section 3.1)`,
		},
		"keys in clear text": {
			"scheme: jwt, issuers: [a], audience: [b], jwks_url: http://a.example",
			`e.yaml:3: the JWKS URL at a.example ` +
				`must be https (http is for loopback addresses)`,
		},
		"no public key": {
			"scheme: ed25519, header: X-Sig",
			`e.yaml:3: producer "x" has no public key | add public_key: the text that ` +
				`the vendor shows, or public_key_file`,
		},
		"half a public key": {
			"scheme: ed25519, header: X-Sig, public_key: 00aa",
			`e.yaml:3: producer "x": public key: neither an Ed25519 ` +
				`key nor a SubjectPublicKeyInfo` + keyHint,
		},
		"a key of the other scheme": {
			"scheme: ecdsa, header: X-Sig, public_key: " + strings.Repeat("0b", 32),
			`e.yaml:3: producer "x": public key: ` +
				`not for scheme ecdsa | write scheme: ed25519, or ecdsa with a key of P-256`,
		},
		"a unit": {
			"scheme: hmac, header: X-Sig, secret: kettle-17, timestamp_header: X-T, timestamp_unit: rfc822, " +
				`template: "{timestamp}.{body}"`, `e.yaml:3: timestamp_unit is "rfc822" | known here: ms, rfc3339, s`,
		},
		"strict without the field": {
			"scheme: bearer, secret: kettle, strict: true, key: json:id",
			`e.yaml:3: strict has no meaning for a key that ` +
				`is not a quoted field | leave it out, or write key: idempotency-key`,
		},
		"two challenges": {
			"scheme: bearer, secret: kettle, challenge: {query: a, json: b}",
			`e.yaml:3: producer "x": challenge: set ` +
				`exactly one of a query parameter, a JSON member and a header field`,
		},
		"a challenge of a preset": {
			"preset: slack, secret: kettle, challenge: {json: b}",
			`e.yaml:3: producer "x": the preset has a handshake of ` +
				`its own, so a challenge cannot be set`,
		},
		"one of several": {
			"scheme: all, schemes: [{scheme: bearer, secret: kettle}]",
			`e.yaml:3: producer "x": scheme all needs at least two schemes | ` +
				`write schemes: [{scheme: basic, ...}, {scheme: hmac, ...}]`,
		},
		"any of three": {
			"scheme: any, schemes: [{scheme: bearer, secret: a}, {scheme: bearer, secret: b}, " +
				"{scheme: bearer, secret: c}]",
			`e.yaml:3: producer "x": scheme any takes two schemes | ` +
				`leave the old one and the new one: each costs a verification`,
		},
		"any within any": {
			"scheme: any, schemes: [{scheme: bearer, secret: a}, {scheme: any, schemes: []}]",
			`e.yaml:3: producers.x.schemes[1]: scheme any is within another | scheme any may have scheme all in it`,
		},
		"a preset of several": {
			"scheme: all, schemes: [{scheme: bearer, secret: a}, {scheme: bearer, preset: github}]",
			`e.yaml:3: producers.x.schemes[1]: a preset cannot be one of several schemes | write its scheme`,
		},
		"a misspelt scheme of several": {
			"scheme: all, schemes: [{scheme: bearer, secret: a}, {scheme: basc}]",
			`e.yaml:3: producers.x.schemes[1]: unknown scheme "basc" | did you mean "basic"?`,
		},
		"an error of one of several": {
			"scheme: any, schemes: [{scheme: bearer, secret: a}, {scheme: hmac, secret: b}]",
			`e.yaml:3: producer "x": headers: no field for the signature`,
		},
		"a setting of the producer in one of several": {
			"scheme: all, schemes: [{scheme: bearer, secret: a, window: 1h}, {scheme: bearer, secret: b}]",
			`e.yaml:3: unknown setting "window" in producers.x.schemes[0] | ` +
				`known here: allowed_ips, preset, query, scheme, secret, secrets`,
		},
		"addresses of one of several": {
			"scheme: any, schemes: [{scheme: bearer, secret: a, allowed_ips: [192.0.2.1]}, " +
				"{scheme: bearer, secret: b}]",
			`e.yaml:3: producer "x": a scheme of several has allowed_ips or in_body | ` +
				`write allowed_ips beside schemes, and a token in the body as the only scheme`,
		},
		"a nonce in one of two": {
			"scheme: any, schemes: [{scheme: bearer, secret: a}, {scheme: hmac, secret: b, " +
				`signature: "form:s", timestamp: "form:t", template: "{timestamp}{form:n}"}]`,
			`e.yaml:3: producer "x": one scheme of any has a nonce, and the other has none | ` +
				`use such a scheme alone, or in scheme: all`,
		},
		"a signature in the delivery without its time": {
			`scheme: hmac, secret: b, signature: "form:s", template: "{form:n}"`,
			`e.yaml:3: producer "x": signature: one in the delivery needs its place, ` +
				`that of its time, and how it is made`,
		},
		"a signature in two places": {
			`scheme: hmac, secret: b, header: X-Sig, signature: "form:s", timestamp: "form:t", ` +
				`template: "{timestamp}{form:n}"`,
			`e.yaml:3: producer "x": signature: one in the delivery has no fields of a header`,
		},
		"a body in its signature": {
			`scheme: hmac, secret: b, signature: "form:s", timestamp: "form:t", template: "{timestamp}{body}"`,
			`e.yaml:3: producer "x": content "{timestamp}{body}": {body} is neither {timestamp} nor ` +
				`an extractor such as {json:token}`,
		},
		"a signature of the time alone": {
			`scheme: hmac, secret: b, signature: "form:s", timestamp: "form:t", template: "{timestamp}"`,
			`e.yaml:3: producer "x": content "{timestamp}": needs {timestamp} and a value that differs ` +
				`between deliveries`,
		},
		"good": {"scheme: bearer, secret: kettle, strict: true, challenge: {json: challenge, reply: text}", "<nil>"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := unpacked(t)
			err := buildText(t, dir, "url: https://hooks.example\nproducers:\n  x: {"+tt.producer+"}\n")
			got := strings.ReplaceAll(withHints(err), dir+string(filepath.Separator), "")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSchemesAreShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "e.yaml")
	text := "producers:\n  a: {scheme: basic, username: kettle, password: tea-is-ready}\n" +
		"  b: {scheme: static, header: X-Key, secret: tea-is-ready, strict: true}\n" +
		"  c: {scheme: hmac, header: X-S, secret: tea-is-ready, challenge: {query: hello}}\n" +
		"  d: {scheme: all, schemes: [{scheme: bearer, secret: tea-is-ready}, " +
		"{scheme: hmac, header: X-S, secret: x}]}\n"
	check(t, os.WriteFile(file, []byte(text), 0o600))
	s, err := Source{File: file}.Load()
	check(t, err)
	plan, err := s.Build(t.Context(), BuildOptions{})
	check(t, err)
	defer plan.Close() //nolint:errcheck // it holds no key set that fetches
	shown, err := s.Effective(plan)
	check(t, err)
	got, _ := shown.JSON().(map[string]any)["producers"].(map[string]any)
	want := map[string]map[string]any{
		"a": {"scheme": "basic", "username": "kettle", "password": Hidden, "contract": "api", "key": "idempotency-key"},
		"b": {"scheme": "static", "header": "X-Key", "secret": Hidden, "strict": true, "type": "json:type"},
		"c": {"scheme": "hmac", "contract": "webhook", "challenge": map[string]any{"query": "hello"}},
		"d": {"scheme": "all", "contract": "webhook", "schemes": []any{
			map[string]any{"scheme": "bearer", "secret": Hidden},
			map[string]any{"scheme": "hmac", "header": "X-S", "secret": Hidden},
		}},
	}
	for name, members := range want {
		one, _ := got[name].(map[string]any)
		for member, value := range members {
			if diff := cmp.Diff(value, one[member]); diff != "" {
				t.Errorf("%s.%s (-want +got):\n%s", name, member, diff)
			}
		}
	}
}

// TestWhatEqualContentMeans: the policy for equal content, and what is remembered of one producer.
func TestWhatEqualContentMeans(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		"contract: api, same_signed: aside":                 "under the API contract",
		"contract: api, same_signed_types: {a: aside}":      "under the API contract",
		"same_signed: sometimes":                            `e.yaml:3: same_signed is "sometimes"`,
		"same_signed_types: {a: off}":                       `e.yaml:3: same_signed_types is "off"`,
		"contract: webhook, same_signed_types: {a: x}":      `same_signed_types is "x"`,
		"same_signed_max: -1":                               "must not be negative",
		`fingerprint: ["nothing:x"]`:                        "e.yaml:3: fingerprint",
		"same_signed: run, same_signed_type: {a: run}":      `unknown setting "same_signed_type"`,
		"contract: webhook, remember_signatures: never":     "remember_signatures",
		"contract: webhook, remember_signatures: off":       "",
		"contract: webhook, event_time: json:payload.at":    "",
		"contract: webhook, same_signed: run":               "",
		"contract: webhook, same_signed_types: {a: run}":    "",
		`contract: webhook, fingerprint: ["json:id"]`:       "",
		"contract: webhook, same_signed_max: 3, window: 1h": "",
	} {
		s, err := Source{}.Parse("e.yaml", []byte("url: https://hooks.example\nproducers:\n  x: {scheme: hmac, "+
			"header: X-Sig, secret: 0123456789abcdef-own, key: header:X-Id, "+settings+"}\n"))
		var plan *Plan
		if err == nil {
			plan, err = s.Build(t.Context(), BuildOptions{})
		}
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", settings, err, want)
			}
			continue
		}
		check(t, err)
		p := plan.Producers[0]
		if p.Forgets != strings.HasSuffix(settings, "off") ||
			(p.EventTime != nil) != strings.Contains(settings, "event_time") {
			t.Errorf("%s: %+v", settings, p)
		}
		check(t, plan.Close())
	}
}
