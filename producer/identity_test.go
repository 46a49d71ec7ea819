package producer

import (
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

func TestClassOfAnHMACTemplate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		content string
		key     Extractor
		want    Class
	}{
		{"{timestamp}.{body}", JSON("id"), ClassIDSigned},
		{"{timestamp}.{header:X-Id}.{body}", Header("X-Id"), ClassIDSigned},
		{"{timestamp}.{body}", Header("X-Id"), ClassTimeSigned},
		{"{timestamp}.{body}", BodyDigest(), ClassTimeSigned},
		{"{body}", Header("X-Id"), ClassContentSigned},
		{"{body}", BodyDigest(), ClassUnnamed},
		{"{body}", JSON("id"), ClassIDSigned},
		{"{header:X-Id}.{body}", Header("X-Id"), ClassIDSigned},
		{"{header:X-Id}{body}", Header("X-Id"), ClassContentSigned},
		// bytes can be moved from the identifier to the body
		{"{url}{body}", JSON("id"), ClassIDSigned},
	} {
		scheme := &verify.HMAC{Headers: []string{"Sig"}, Encoding: verify.Hex, Content: row.content,
			Secrets: verify.Secrets("the-kettle-is-on-17"), Malleable: true}
		if strings.Contains(row.content, "timestamp") {
			scheme.TimestampHeaders = []string{"X-Time"}
		}
		p := Producer{Name: "own", Scheme: scheme, Key: row.key}
		if got := p.Class(); got != row.want {
			t.Errorf("%s with %v: %v, want %v", row.content, row.key, got, row.want)
		}
		warned := strings.Contains(strings.Join(p.Warnings(), " "), "neither id nor time")
		if warned != (row.want == ClassContentSigned) {
			t.Errorf("%s with %v: warned %t", row.content, row.key, warned)
		}
	}
	p := Producer{Name: "own", Scheme: verify.HeaderValue("X-Token", "the-kettle-is-on-17"), Key: Header("X-Id")}
	if got := p.Class(); got != ClassUnsigned {
		t.Errorf("a token: %v", got)
	}
}

func TestEventTimeFormats(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 3, 1, 10, 20, 30, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-03-01T10:20:30Z":        want,
		"2026-03-01T12:20:30+02:00":   want,
		"2026-03-01T12:20:30.5+02:00": want.Add(500 * time.Millisecond),
		"2026-03-01T12:20:30+0200":    want,
		"1772360430":                  want,
		"1772360430500":               want.Add(500 * time.Millisecond),
		"":                            {},
		"0":                           {},
		"-5":                          {},
		"1772360430.5":                {},
		"yesterday":                   {},
		"2026-03-01":                  {},
		"99999999999999999999999":     {},
	} {
		if got := parseEventTime(text); !got.Equal(want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}
