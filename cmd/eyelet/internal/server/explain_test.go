package server

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestTheFirstRefusalIsExplained refuses deliveries whose body got a newline. The first of a minute
// is explained.
func TestTheFirstRefusalIsExplained(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef0123456789abcdef"
	scheme := &verify.HMAC{Headers: []string{"X-Sig"}, Encoding: verify.Hex, Secrets: verify.Secrets(secret)}
	log := &servertest.Buffer{}
	e := newExplainer(receiver.Config{
		Producers: []producer.Producer{{Name: "shop", Scheme: scheme}}, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}, func(context.Context, *receiver.Refused) []time.Duration { return nil })
	u, _ := url.Parse("https://hooks.example/webhooks/shop")
	r := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}, Body: http.NoBody}
	now := time.Now()
	if err := scheme.Sign(r, []byte(`{"a":1}`), now); err != nil {
		t.Fatal(err)
	}
	refused := receiver.Refused{Time: now, Endpoint: "shop", Request: r, Body: []byte("{\"a\":1}\n"),
		BodyRead: receiver.BodyWhole, Declared: 8, Code: verify.SignatureMismatch}
	for i := range 5 {
		refused.Time = now.Add(time.Duration(i) * 10 * time.Second)
		e.add(refused)
	}
	later := refused
	later.Time = now.Add(time.Minute)
	e.add(later)
	const line = `msg="refused delivery explained" endpoint=shop code=signature_mismatch cause=body_newline proved=true`
	for end := time.Now().Add(20 * time.Second); strings.Count(log.String(), line) < 2; {
		if time.Now().After(end) {
			t.Fatal(log.String())
		}
		time.Sleep(time.Millisecond)
	}
	e.close()
	if n := strings.Count(log.String(), line); n != 2 || strings.Contains(log.String(), secret) {
		t.Errorf("%d lines: %s", n, log)
	}
}
