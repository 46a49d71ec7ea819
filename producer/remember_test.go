package producer

import (
	"testing"
	"time"
)

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
