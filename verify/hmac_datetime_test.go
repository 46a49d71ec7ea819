package verify

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// dated signs an identifier, a date-time and the body without text between them.
func dated() *HMAC {
	return &HMAC{
		Headers: []string{"X-Signature"}, Encoding: Hex, IDHeaders: []string{"X-Id"},
		TimestampHeaders: []string{"X-Time"}, TimestampUnit: RFC3339, Content: "{id}{timestamp}{body}",
		Secrets: Secrets("the-kettle-is-on-17"),
	}
}

// TestADateTimeNeedsNoText: no other division of the signed bytes into identifier, time and body is
// accepted, although the body holds a date-time too.
func TestADateTimeNeedsNoText(t *testing.T) {
	t.Parallel()
	h := dated()
	if err := h.Check(); err != nil || len(h.Ambiguous()) > 0 {
		t.Fatalf("%v, ambiguous: %v", err, h.Ambiguous())
	}
	if b := h.Binds(); b.Malleable || !b.Time {
		t.Errorf("binds %+v", b)
	}
	const body = `{"at":"2026-11-22T20:17:00Z"}`
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://a.example/", nil)
	r.Header.Set("X-Id", "evt-17")
	if err := h.Sign(r, []byte(body), time.Date(2026, 11, 22, 20, 16, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	all := r.Header.Get("X-Id") + r.Header.Get("X-Time") + body
	accepted := 0
	for i := 1; i < len(all); i++ {
		for j := i + 1; j <= len(all); j++ {
			r.Header.Set("X-Id", all[:i])
			r.Header.Set("X-Time", all[i:j])
			id, err := h.Verify(r, func() ([]byte, error) { return []byte(all[j:]), nil })
			if err != nil {
				continue
			}
			accepted++
			if all[:i] != "evt-17" || all[j:] != body || id.Malleable || !id.Covers("x-id") {
				t.Errorf("accepted as %q, %q, %q", all[:i], all[i:j], all[j:])
			}
		}
	}
	if accepted != 1 {
		t.Errorf("%d divisions are accepted", accepted)
	}
}

func TestDateTimesHaveOneForm(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"2026-11-22T20:16:00Z": true, "2026-11-22T20:16:00.123456789Z": true, "2026-11-22T20:16:00+00:00": false,
		"2026-11-22t20:16:00z": false, "2026-11-22 20:16:00Z": false, "2026-11-22T20:16:00,5Z": false,
		"2026-11-22T0:16:00Z": false, "2026-11-22T20:16:60Z": false, "2026-02-30T20:16:00Z": false, "1795000000": false,
		"2026-11-22T20:16:00": false, "": false, strings.Repeat("2", 60) + "Z": false,
		"2026-11-22T20:16:00.1234567890Z": false, "2026-11-22T20:16:00.Z": false,
	} {
		if at, ok := parseDateTime(text); ok != good {
			t.Errorf("%q is %v, %v", text, at, ok)
		}
	}
	h := dated()
	h.Content, h.IDHeaders = "{url}{timestamp}{body}", nil
	if err := h.Check(); err == nil {
		t.Error("a URL, which may hold colons, is accepted beside a date-time")
	}
}
