package preset

import (
	"net/http"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

func TestSubscriptionsAreGrantedToListedOriginsOnly(t *testing.T) {
	t.Parallel()
	p := CloudEvents(Settings{Bearer: "0123456789abcdef", Origins: []string{"sender.example"}, Rate: 100})
	if errs := p.Check(); len(errs) != 0 {
		t.Fatal(errs)
	}
	if got := p.WithDefaults().Accepted; got.Status != 200 || got.Header.Get("Cache-Control") != "private" {
		t.Errorf("accepted with %+v", got)
	}
	for _, c := range []struct{ origin, asked, granted string }{
		{"sender.example", "120", "100"}, {"Sender.Example", "50", "50"}, {"sender.example", "", "100"},
		{"sender.example", "x", "100"},
		{"evil.example", "120", ""}, {"", "120", ""},
	} {
		r := newDelivery(testHook, "", "WebHook-Request-Origin", c.origin, "WebHook-Request-Rate", c.asked,
			"WebHook-Request-Callback",
			"http://169.254.169.254/").Request
		r.Method = http.MethodOptions
		reply, err := p.Challenge(r)
		if granted := reply.Header.Get("WebHook-Allowed-Rate"); granted != c.granted ||
			(err == nil) != (c.granted != "") {
			t.Errorf("%+v: %+v, %v", c, reply, err)
		}
		if c.granted == "" && (reply.Status != 405 || reply.Header.Get("WebHook-Allowed-Origin") != "" ||
			verify.CodeOf(err) != verify.ChallengeUnexpected) {
			t.Errorf("%+v: %+v, %v", c, reply, err)
		}
	}
	if CloudEvents(Settings{Bearer: "0123456789abcdef"}).Challenge != nil {
		t.Error("subscriptions are granted without being configured")
	}
}

// BenchmarkItemsOfACloudEvent reads identifier, type and attributes of an event, like the
// presets.
func BenchmarkItemsOfACloudEvent(b *testing.B) {
	structured := `{"specversion":"1.0","id":"1","source":"/shop","type":"order.paid","subject":"7","time":` +
		`"2026-01-01T00:00:00Z","data":{"fill":"` +
		strings.Repeat("x", 1024) + `"}}`
	binary := newDelivery(testHook, `{"n":1}`, "ce-specversion", "1.0", "ce-id", "1", "ce-source", "/shop", "ce-type",
		"order.paid", "ce-subject", "7",
		"Content-Type", "application/json")
	token := CloudEvents(Settings{Bearer: "0123456789abcdef"})
	eventarc := GoogleEventarc("https://hooks.example", "push@project.iam.gserviceaccount.com")
	for _, one := range []struct {
		name string
		p    producer.Producer
		d    *producer.Delivery
	}{
		{"structured", token, newDelivery(testHook, structured, "Content-Type", producer.MediaCloudEvent)},
		{"binary", token, binary},
		{"eventarc", eventarc, binary},
	} {
		p := one.p.WithDefaults()
		b.Run(one.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d := &producer.Delivery{Request: one.d.Request, Body: one.d.Body}
				if items, err := p.Items(d); err != nil || items[0].Type != "order.paid" ||
					items[0].Attributes["subject"] != "7" {
					b.Fatal(items, err)
				}
			}
		})
	}
}
