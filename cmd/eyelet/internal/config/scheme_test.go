package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/internal/conf"
)

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
	got, _ := shown.Plain().(map[string]any)["producers"].(map[string]any)
	want := map[string]map[string]any{
		"a": {
			"scheme": "basic", "username": "kettle", "password": conf.Hidden, "contract": "api",
			"key": "idempotency-key",
		},
		"b": {"scheme": "static", "header": "X-Key", "secret": conf.Hidden, "strict": true, "type": "json:type"},
		"c": {"scheme": "hmac", "contract": "webhook", "challenge": map[string]any{"query": "hello"}},
		"d": {"scheme": "all", "contract": "webhook", "schemes": []any{
			map[string]any{"scheme": "bearer", "secret": conf.Hidden},
			map[string]any{"scheme": "hmac", "header": "X-S", "secret": conf.Hidden},
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
		"contract: api, same_signed: quarantine":            "under the API contract",
		"contract: api, same_signed_types: {a: quarantine}": "under the API contract",
		"same_signed: sometimes":                            `e.yaml:3: producers.x.same_signed is "sometimes"`,
		"same_signed_types: {a: off}":                       `type "a": want quarantine, refuse or run`,
		"contract: webhook, same_signed_types: {a: x}":      `same_signed_types.a is "x"`,
		"same_signed_max: -1":                               "must not be negative",
		`fingerprint: ["nothing:x"]`:                        "e.yaml:3: producers.x.fingerprint: extractor",
		`fingerprint: none`:                                 "",
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
