package config

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// buildRate returns a producer with these settings, or its errors.
func buildRate(t *testing.T, lines string) (producer.Producer, string) {
	t.Helper()
	text := "url: https://hooks.example\ntrusted_proxies: [192.0.2.1]\nstore: \"memory:\"\n" +
		"producers:\n  p: {" + lines + "}\n"
	s, err := Source{}.Parse(filepath.Join(t.TempDir(), "eyelet.yaml"), []byte(text))
	if err != nil {
		return producer.Producer{}, err.Error()
	}
	made, err := s.Build(t.Context(), BuildOptions{Stdout: io.Discard})
	if err != nil {
		return producer.Producer{}, err.Error()
	}
	t.Cleanup(func() { _ = made.Close() })
	return made.Producers[0], ""
}

const github = "preset: github, secret: [another-long-secret], "

const clouds = "preset: cloudevents, secret: long-token-0123456, origins: [o.example], "

// TestAnOriginIsGrantedTheRate: as requests per minute, in the field that CloudEvents has for it.
func TestAnOriginIsGrantedTheRate(t *testing.T) {
	t.Parallel()
	p, errs := buildRate(t, clouds+"rate: 2/s")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/", http.NoBody)
	r.Header.Set("WebHook-Request-Origin", "o.example")
	resp, err := p.Challenge(r)
	if err != nil || errs != "" || resp.Header.Get("WebHook-Allowed-Rate") != "120" {
		t.Errorf("%+v, %v, %s", resp, err, errs)
	}
}

func TestRateSettings(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]producer.Rate{
		github + "rate: 100/s":           {Events: 100, Per: time.Second},
		github + "rate: 6000/m burst 10": {Events: 6000, Per: time.Minute, Burst: 10},
		github + "rate: 5 / h":           {Events: 5, Per: time.Hour},
		github + "concurrency: 7":        {},
		clouds + "rate: 10/s":            {Events: 10, Per: time.Second},
	} {
		p, errs := buildRate(t, lines)
		if errs != "" || p.Rate != want || (p.Concurrency == 7) != strings.Contains(lines, "concurrency") {
			t.Errorf("%s: %+v, %d, %s", lines, p.Rate, p.Concurrency, errs)
		}
	}
	for lines, want := range map[string]string{
		github + "rate: 100":         `rate: "100" is not a number of events in a time`,
		github + "rate: 100/d":       `rate: "100/d" is not`,
		github + "rate: 0/s":         `rate: "0/s" is not`,
		github + "rate: -1/s":        `rate: "-1/s" is not`,
		github + "rate: fast":        `rate: "fast" is not`,
		github + "rate: 5/s burst 0": `rate: "5/s burst 0" is not`,
		github + "concurrency: -1":   "concurrency must not be negative",
		github + "empty_body: what":  "empty_body is \"what\"",
	} {
		if _, errs := buildRate(t, lines); !strings.Contains(errs, want) {
			t.Errorf("%s: %q", lines, errs)
		}
	}
}

func TestRememberSignatures(t *testing.T) {
	t.Parallel()
	const most = dedup.DefaultRememberMax
	for text, want := range map[string]dedup.Retention{
		"limits: {attempts: 3}":                                {For: dedup.DefaultRememberFor, Max: most},
		"limits: {remember_signatures: off}":                   {For: -1},
		`limits: {remember_signatures: "off"}`:                 {For: -1},
		"limits: {remember_signatures: {for: 30d}}":            {For: 30 * 24 * time.Hour, Max: most},
		"limits: {remember_signatures: {for: 90d, max: 1000}}": {For: 90 * 24 * time.Hour, Max: 1000},
	} {
		set, err := Source{}.Parse("eyelet.yaml", []byte(text+"\n"))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := set.storeOptions(nil).Remember; got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"limits: {remember_signatures: on}":             `limits.remember_signatures is "on", want off or a mapping`,
		"limits: {remember_signatures: 90d}":            `limits.remember_signatures is "90d", want off or a mapping`,
		"limits: {remember_signatures: {for: 1h}}":      "less than a day",
		"limits: {remember_signatures: {for: 0d}}":      "limits.remember_signatures.for is 0",
		"limits: {remember_signatures: {max: -1}}":      "limits.remember_signatures.max is less than 0",
		"limits: {remember_signatures: {days: 90}}":     `unknown setting "days"`,
		"limits:\n  remember_signatures: [90d, 1000]\n": "eyelet.yaml:2",
	} {
		_, err := Source{}.Parse("eyelet.yaml", []byte(text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "eyelet.yaml:") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	t.Parallel()
	c, err := parse(t, "producers:\n  gh: {scheme: hmac, secret: [s3cret-one, s3cret-two]}\n")
	check(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		hmac, _ := c.Producers[0].settings.(*hmacSettings)
		text := fmt.Sprintf(verb, hmac.Secrets) + fmt.Sprintf(verb, hmac)
		if strings.Contains(text, "s3cret") || strings.Contains(text, fmt.Sprintf("%x", "s3cret")) ||
			strings.Contains(text, "115 51") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}
