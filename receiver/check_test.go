package receiver

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

type brokenScheme struct{ testScheme }

func (brokenScheme) Check() error { return errors.New("no keys") }

func TestOpenReportsEveryErrorAtOnce(t *testing.T) {
	t.Parallel()
	batch := webhookProducer()
	batch.Name, batch.Split, batch.Nonce = "batch", splitLines, producer.NonceUnique
	broken := webhookProducer()
	broken.Name, broken.Scheme = "broken", brokenScheme{}
	large := webhookProducer()
	large.Name, large.MaxBody = "large", 1<<30
	_, err := Open(Config{
		Producers: []producer.Producer{apiProducer(), apiProducer(), {}, batch, broken, large, preset.GitHub("")},
		Handlers: []Handler{
			On("nobody", "*", func(context.Context, Event[string]) error { return nil }),
			Answer("batch", "*", func(context.Context, Event[string]) (Response, error) { return Response{}, nil }),
		},
		Hosts: []string{"https://hooks.example/"}, TrustedProxies: make([]netip.Prefix, 1), PolicyURL: "/policy#x",
		Attempts: -1, Lease: -time.Second,
	})
	if err == nil {
		t.Fatal("opened")
	}
	for _, want := range []string{
		"store: required", `producer "shop": its signatures cover the URL`, `producer "shop": the name is used twice`,
		`producer "": a name is`, `producer "": no scheme`, `producer "batch": unique nonces`,
		`producer "broken": no keys`,
		`producer "large": bodies of 1073741824 bytes exceed the budget`, `producer "github"`,
		`unknown producer "nobody"`,
		`producer "batch" sends batches`, "hosts: ", "trusted proxies: ", "policy url: ", "attempts: ", "lease: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not reported in:\n%v", want, err)
		}
	}
}

func TestURLMustBeAnAbsoluteBase(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Options{})
	for url, good := range map[string]bool{
		"https://hooks.example": true, "http://127.0.0.1:8080/": true, "https://hooks.example/pre": true,
		"hooks.example": false, "ftp://hooks.example": false, "https://": false, "https://u@hooks.example": false,
		"https://hooks.example?x": false, "https://hooks.example/#x": false, "https://hooks.example/a b\x00": false,
	} {
		rx, err := Open(Config{Store: store, Producers: []producer.Producer{apiProducer()}, URL: url})
		if (err == nil) != good {
			t.Errorf("%s: %v", url, err)
		}
		if rx != nil {
			if err := rx.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestDefaultsAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	c := withDefaults(Config{URL: "https://hooks.example/", Producers: []producer.Producer{{}, {MaxBody: 5}}})
	if c.URL != "https://hooks.example" || c.PolicyURL != "https://hooks.example/policy" || c.Attempts != 16 ||
		c.AnswerTimeout != 10*time.Second ||
		c.InFlightWait != 2*time.Second || c.Lease != 30*time.Second || c.RetryAfter != 5*time.Second ||
		c.BodyTimeout != 30*time.Second ||
		c.BodyBudget != 256<<20 || c.Workers < 4 || c.Decode == nil || c.Logger == nil || c.Clock == nil {
		t.Errorf("%+v", c)
	}
	if c.Producers[0].MaxBody != 1<<20 || c.Producers[1].MaxBody != 5 {
		t.Error("the limits of bodies differ", c.Producers[0].MaxBody, c.Producers[1].MaxBody)
	}
	if c := withDefaults(Config{InFlightWait: -1}); c.InFlightWait != -1 {
		t.Error("a wait of -1 became the default")
	}
}

func TestHTTPPanicsForAnUnknownProducer(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	defer func() {
		if v := recover(); v == nil || !strings.Contains(v.(string), `"other"`) {
			t.Error(v)
		}
	}()
	s.rx.HTTP("other")
}
