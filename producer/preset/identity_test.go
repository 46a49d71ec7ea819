package preset

import (
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// The class without secrets is in docs/security.md, and a delivery has the same.
func TestADeliveryIsOfTheClassOfItsPreset(t *testing.T) {
	t.Parallel()
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		made := p.Open(s).WithDefaults()
		r, body, err := p.Sample(s, testHook, "", "evt-17", testNow)
		if err != nil || made.Scheme == nil || p.Name == "slack" { // the class depends on the kind of delivery
			return
		}
		id, err := made.Scheme.Verify(r, func() ([]byte, error) { return body, nil })
		if err != nil {
			t.Fatal(err)
		}
		if class := made.ClassOf(id); class != p.Class() && p.Name != "adyen" {
			t.Errorf("class of a delivery %v, want %v", class, p.Class())
		}
	})
}

func TestPoliciesForEqualContentAreChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*producer.Producer){
		"under the API contract": func(p *producer.Producer) {
			p.Contract, p.SameSigned = producer.API,
				producer.SameSignedQuarantine
		},
		`of type "a"`: func(p *producer.Producer) {
			p.SameSignedTypes = map[string]producer.SameSigned{"a": producer.SameSignedOff}
		},
		"must not be negative": func(p *producer.Producer) { p.SameSignedMax = -1 },
		"is not known":         func(p *producer.Producer) { p.SameSigned = producer.SameSignedRun + 1 },
	} {
		p := GitHub(testSecret)
		change(&p)
		found := ""
		for _, err := range p.Check() {
			found += err.Error()
		}
		if !strings.Contains(found, want) {
			t.Errorf("%q does not contain %q", found, want)
		}
	}
}

func TestAmbiguousSignedContentRestrictsSettings(t *testing.T) {
	t.Parallel()
	p := With("square", testSecret)
	p.URL = "https://hooks.example/square"
	if errs := p.Check(); len(errs) != 0 {
		t.Error(errs)
	}
	p.URL += "?src=a"
	if errs := p.Check(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "signed_url") {
		t.Errorf("got %v", errs)
	}
	for _, p := range []producer.Producer{With("square", testSecret), With("datatrans", strings.Repeat("0a", 32))} {
		p.SameSigned = producer.SameSignedOff
		if errs := p.Check(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "same_signed") {
			t.Errorf("%s: got %v", p.Name, errs)
		}
	}
	square, _ := Find("square")
	p = square.Open(Settings{SignedURL: p.URL, Secrets: []string{testSecret}})
	p.SameSigned = producer.SameSignedOff
	p.URL = "https://hooks.example/square?src=a"
	if errs := p.Check(); len(errs) != 0 {
		t.Error(errs)
	}
}

// TestPresetsReadTheSignedEventTime adds the vendor's time to the sample of each preset.
func TestPresetsReadTheSignedEventTime(t *testing.T) {
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
		preset, _ := Find(name)
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

func TestUnsignedEventTimeIsIgnored(t *testing.T) {
	t.Parallel()
	p := GitHub(testSecret)
	p.EventTime = producer.Header("X-Time")
	d := signedBody(t, p, `{}`)
	d.Request.Header.Set("X-Time", "2026-03-01T10:20:30Z")
	if got := p.HappenedAt(d); !got.IsZero() {
		t.Errorf("read from a field that anyone can change: %v", got)
	}
}

// A preset is remembered if its signature covers no time: docs/security.md lists which.
func TestPresetsRememberedBeyondTheWindow(t *testing.T) {
	t.Parallel()
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		made := p.Open(s).WithDefaults()
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
		documented := p.described()
		want := strings.HasPrefix(capturedAfter(&documented), "quarantined")
		if got := made.Remembers(id); got != want {
			t.Errorf("remembered: %t, want %t (%+v)", got, want, id)
		}
	})
}
