package producer

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/verify"
)

// fetched is a producer whose events can be fetched.
func fetched() Producer {
	return Producer{
		Name: "shop", Contract: Webhook, Key: JSON("id"), Type: JSON("type"), Fingerprint: FingerprintNone,
		Scheme: &verify.HMAC{
			Headers: []string{"X-Sig"}, Encoding: verify.Hex, Secrets: verify.Secrets("a secret that is long enough"),
		},
		Source: Source{
			Token: "t", URL: "https://api.shop.test/events", Types: []string{"order.*"}, Items: "data.items",
			ID: JSON("event.id"), Type: JSON("event.type"), Time: JSON("at"), Body: "event",
		},
	}
}

// Each condition without which the identity or the work of an event is unknown is refused at the
// start, with its reason.
func TestEventsThatCannotBeFetchedAreRefused(t *testing.T) {
	t.Parallel()
	if p := fetched(); len(p.Check()) > 0 {
		t.Fatal(p.Check())
	}
	for want, change := range map[string]func(*Producer){
		"does not cover an identifier (neither": func(p *Producer) { p.Key = Header("X-Id") },
		"does not cover an identifier (nothing": func(p *Producer) { p.Scheme = verify.BearerToken("a long token") },
		"their principal is known from":         func(p *Producer) { p.Scheme = severalKeys{} },
		"fingerprint: none compares nothing":    func(p *Producer) { p.Fingerprint = nil },
		"part of the scope of identifiers":      func(p *Producer) { p.QueryScope = true },
		"a delivery is a batch": func(p *Producer) {
			p.Split = func(*Delivery) ([]Item, error) { return nil, nil }
		},
		"a delivery updates a state": func(p *Producer) {
			p.Series = func(*Delivery) string { return "" }
		},
		"a nonce must be unique":                  func(p *Producer) { p.Nonce = NonceUnique },
		"each delivery is checked for its sender": func(p *Producer) { p.Admit = func(*Delivery) error { return nil } },
		"only a delivery shows where": func(p *Producer) {
			p.Scheme, p.Key = coversID{}, First(Header("Id"), JSON("id"))
		},
		"a condition reads x-tenant":        func(p *Producer) { p.Reads = []string{"x-tenant"} },
		"event_time is not in the body":     func(p *Producer) { p.EventTime = Header("X-Time") },
		`"*" is all`:                        func(p *Producer) { p.Source.Types = nil },
		"the list needs type":               func(p *Producer) { p.Source.Type = nil },
		"the list needs id and time":        func(p *Producer) { p.Source.Time = nil },
		"not an https address;":             func(p *Producer) { p.Source.URL = "http://api.shop.test/events" },
		"is too short for every 15m":        func(p *Producer) { p.Window = time.Hour },
		"must not be negative":              func(p *Producer) { p.Source.Every = -1 },
		"is not EXTRACTOR=VALUE":            func(p *Producer) { p.Source.Only = []string{"json:live"} },
		"again is not of the origin of url": func(p *Producer) { p.Source.Again = "https://evil.test/{sending}" },
		"needs sending and status":          func(p *Producer) { p.Source.Again = "{url}/{sending}" },
		"url has a query, and again begins with": func(p *Producer) {
			p.Source.URL += "?a=b"
			p.Source.Again = "{url}/{sending}"
		},
	} {
		p := fetched()
		change(&p)
		found := p.Check()
		text := fmt.Sprint(found)
		if !strings.Contains(text, "reconcile: ") || !strings.Contains(text, want) {
			t.Errorf("want %q in %v", want, found)
		}
		if p.Source.Token = ""; strings.Contains(fmt.Sprint(p.Check()), "reconcile") {
			t.Errorf("%s: without a token: %v", want, p.Check())
		}
	}
	// What is sent again is signed: none of this matters.
	p := fetched()
	p.Key, p.Fingerprint, p.Source.Types = Header("X-Id"), nil, nil
	p.Source.Again, p.Source.Sending, p.Source.Status = "{url}/{sending}", JSON("n"), JSON("status")
	if found := p.Check(); len(found) > 0 {
		t.Error(found)
	}
}

type severalKeys struct{ verify.Scheme }

func (severalKeys) Binds() verify.Binding {
	return verify.Binding{Content: true, Covered: []string{"@body"}, Principals: []string{"a", "b"}}
}

type coversID struct{ verify.Scheme }

func (coversID) Binds() verify.Binding {
	return verify.Binding{Content: true, Covered: []string{"@body", "id"}}
}

func TestAPageIsRead(t *testing.T) {
	t.Parallel()
	p := fetched()
	p.Source.Only = []string{"json:live=true"}
	const page = `{"data": {"items": [
		{"event": {"id": "1", "type": "order.paid", "n": 1.50}, "at": 1700000000, "live": true},
		{"event": {"id": "2", "type": "order.paid"}, "at": "2026-01-02T03:04:05Z", "live": false},
		{"event": {"id": "3", "type": "user.added"}, "at": 1700000000, "live": true},
		{"event": {"id": "4", "type": "order.paid"}, "live": true},
		{"event": {"type": "order.paid"}, "at": 1700000000, "live": true}]}}`
	items, next, skipped, err := p.Source.Read(p.Source.URL, http.Header{}, []byte(page))
	want := []Listed{{ID: "1", Type: "order.paid", Time: time.Unix(1700000000, 0).UTC(), From: "api.shop.test",
		Body: []byte(`{"id": "1", "type": "order.paid", "n": 1.50}`)}}
	if diff := cmp.Diff(want, items); diff != "" || next != "" || skipped != 2 || err != nil {
		t.Errorf("next %q, skipped %d, %v\n%s", next, skipped, err, diff)
	}
	for _, bad := range []string{`{"data": {"items": {}}}`, `{}`, `[`, ``, `{"data": {"items": 1}}`} {
		if _, _, _, err := p.Source.Read(p.Source.URL, http.Header{}, []byte(bad)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

func TestTheNextPage(t *testing.T) {
	t.Parallel()
	at := "https://api.shop.test/events?limit=2"
	item := `{"event": {"id": "a b", "type": "order.paid"}, "at": 1}`
	page := func(rest string) string { return `{"data": {"items": [` + item + `]}` + rest + `}` }
	for _, tt := range []struct {
		name, link, page string
		set              func(*Source)
		want             string // or the error
	}{
		{"link", `<?page=2>; rel="next"`, page(""), func(*Source) {}, "https://api.shop.test/events?page=2"},
		{"end", "", page(""), func(*Source) {}, ""},
		{"last item", "", page(`,"more":true`), func(s *Source) { s.Cursor, s.More = "after", JSON("more") },
			"https://api.shop.test/events?after=a+b&limit=2"},
		{"no more", "", page(`,"more":false`), func(s *Source) { s.Cursor, s.More = "after", JSON("more") }, ""},
		{"value", "", page(`,"next":"x/y"`), func(s *Source) { s.Cursor, s.Next = "page", JSON("next") },
			"https://api.shop.test/events?limit=2&page=x%2Fy"},
		{"address", "", page(`,"next":"/v2/e?p=2"`), func(s *Source) { s.Next = JSON("next") },
			"https://api.shop.test/v2/e?p=2"},
		{"other origin", "", page(`,"next":"https://evil.test/"`), func(s *Source) { s.Next = JSON("next") },
			"has another origin"},
		{"user", "", page(`,"next":"https://a:b@api.shop.test/"`), func(s *Source) { s.Next = JSON("next") },
			"has another origin"},
		{"itself", "", page(`,"next":"?limit=2"`), func(s *Source) { s.Next = JSON("next") }, "the page itself"},
		{"more without a way", "", `{"data":{"items":[]},"more":true}`, func(s *Source) {
			s.Cursor, s.More = "after", JSON("more")
		}, "no way to its next page"},
	} {
		p := fetched()
		tt.set(&p.Source)
		header := http.Header{}
		if tt.link != "" {
			header.Set("Link", tt.link)
		}
		_, next, _, err := p.Source.Read(at, header, []byte(tt.page))
		if err != nil {
			next = err.Error()
		}
		if next != tt.want && (err == nil || !strings.Contains(next, tt.want)) {
			t.Errorf("%s: %q, want %q", tt.name, next, tt.want)
		}
	}
}

func TestTheFirstPage(t *testing.T) {
	t.Parallel()
	p := fetched()
	p.Source.Query = map[string]string{"from": "{since}", "at": "{since:rfc3339}", "types[]": "{types}", "limit": "5"}
	since := time.Unix(1700000000, 0)
	want := "https://api.shop.test/events?at=2023-11-14T22%3A13%3A20Z&from=1700000000&limit=5"
	if got, _ := p.Source.First(since); got != want {
		t.Error(got)
	}
	p.Source.Types = []string{"a", "b"}
	if got, _ := p.Source.First(since); !strings.HasSuffix(got, "&types%5B%5D=a&types%5B%5D=b") {
		t.Error(got)
	}
}

// The identifier of a fetched event is that of its delivery, and never only what the list says.
func TestTheIdentifierOfAFetchedEvent(t *testing.T) {
	t.Parallel()
	p := fetched()
	d := func() *Delivery {
		return &Delivery{Request: &http.Request{}, Body: []byte(`{"id":"1","type":"order.paid"}`)}
	}
	it, err := p.ItemOf(d(), Listed{ID: "1", Type: "order.paid"})
	if err != nil || it.ID != "1" || it.Type != "order.paid" {
		t.Errorf("%+v, %v", it, err)
	}
	if _, err := p.ItemOf(d(), Listed{ID: "2"}); verify.CodeOf(err) != verify.EventMalformed {
		t.Errorf("another identifier: %v", err)
	}
	p.Key, p.Type = Header("Id"), Header("Type")
	if it, err := p.ItemOf(d(), Listed{ID: "7", Type: "t"}); err != nil || it.ID != "7" || it.Type != "t" {
		t.Errorf("identifier in a field: %+v, %v", it, err)
	}
}
