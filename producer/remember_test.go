package producer

import (
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

func TestTimesOfEventsAreReadInEveryForm(t *testing.T) {
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

// TestPresetsWhoseSignedContentHasATimeReadIt gives the sample of each preset a time where the vendor's has one.
func TestPresetsWhoseSignedContentHasATimeReadIt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 10, 20, 30, 0, time.UTC)
	for name, body := range map[string]string{
		"adyen-platform": `{"data":{"id":"1"},"timestamp":"2026-03-01T11:20:30+01:00","type":"t"}`,
		"dwolla":         `{"id":"1","topic":"t","timestamp":"2026-03-01T10:20:30.000Z"}`,
		"meta":           `{"object":"page","entry":[{"id":"17","time":1772360430},{"id":"18","time":1}]}`,
		"razorpay":       `{"event":"payment.captured","created_at":1772360430}`,
		"shopify":        `{"id":17,"updated_at":"2026-03-01T05:20:30-05:00"}`,
		"square":         `{"event_id":"1","type":"t","created_at":"2026-03-01T10:20:30Z"}`,
		"worldpay":       `{"eventId":"1","eventTimestamp":"2026-03-01T10:20:30.000Z","eventDetails":{"type":"t"}}`,
		"github":         `{"zen":"Keep it simple.","hook_id":1}`,
	} {
		preset, _ := FindPreset(name)
		p := preset.Open(presetSettings()[name])
		d := signedBody(t, p, body)
		want := at
		if name == "github" {
			want = time.Time{}
		}
		if got := p.HappenedAt(d); !got.Equal(want) {
			t.Errorf("%s: the event happened at %v, want %v", name, got, want)
		}
		if !p.Remembers(d.Identity) {
			t.Errorf("%s is not remembered", name)
		}
		p.Forgets = true
		if p.Remembers(d.Identity) {
			t.Errorf("%s is remembered although that is off", name)
		}
	}
}

func TestATimeThatIsNotSignedSaysNothing(t *testing.T) {
	t.Parallel()
	p := GitHub(testSecret)
	p.EventTime = Header("X-Time")
	d := signedBody(t, p, `{}`)
	d.Request.Header.Set("X-Time", "2026-03-01T10:20:30Z")
	if got := p.HappenedAt(d); !got.IsZero() {
		t.Errorf("read from a field that anyone can change: %v", got)
	}
}

// TestWhatIsRemembered goes through the presets: their signatures say whether they say a time.
func TestWhatIsRemembered(t *testing.T) {
	t.Parallel()
	remembered := map[string]bool{
		"adyen": true, "adyen-platform": true, "dwolla": true, "github": true, "meta": true, "razorpay": true, "shopify": true,
		"shopify-events": true, "square": true, "twilio": true, "worldpay": true,
	}
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		made := p.Open(s)
		r, body, err := p.Sample(s, testHook, "", "evt-17", testNow)
		if err != nil {
			t.Skip(err)
		}
		var id verify.Identity
		if made.Scheme != nil {
			if id, err = made.Scheme.Verify(r, func() ([]byte, error) { return body, nil }); err != nil {
				t.Fatal(err)
			}
		}
		if got := made.Remembers(id); got != remembered[p.Name] {
			t.Errorf("remembered: %t, want %t (%+v)", got, remembered[p.Name], id)
		}
	})
}
