package explain

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

var guardTime = time.Unix(1795319382, 0)

// signedDelivery returns a delivery that was signed with a scheme, with another body.
func signedDelivery(t *testing.T, scheme verify.Scheme, endpoint, signed, came string) Delivery {
	t.Helper()
	u, _ := url.Parse("https://hooks.example/webhooks/" + endpoint)
	r := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}, Body: http.NoBody}
	one, ok := scheme.(interface {
		Sign(r *http.Request, body []byte, now time.Time) error
	})
	if !ok {
		t.Fatalf("a %T cannot sign", scheme)
	}
	if err := one.Sign(r, []byte(signed), guardTime); err != nil {
		t.Fatal(err)
	}
	return Delivery{Endpoint: endpoint, Request: r, Body: []byte(came), Declared: int64(len(came)), Now: guardTime}
}

func TestSecretsInABodyAreMasked(t *testing.T) {
	t.Parallel()
	const secret = "whsec_live_live_live"
	p := preset.Stripe(secret)
	body := `{"k":"` + secret + `"}`
	report := New([]producer.Producer{p}).Explain(t.Context(), signedDelivery(t, p.Scheme, "stripe", body, body+"\n"))
	if len(report.Findings) != 1 || report.Findings[0].Cause != bodyNewline {
		t.Fatalf("%+v", report)
	}
	for _, text := range []string{report.Findings[0].Signed, report.Findings[0].Came} {
		if strings.Contains(text, "live") || !strings.Contains(text, "***") {
			t.Errorf("%q", text)
		}
	}
}

// trusting accepts every request.
type trusting struct{}

func (trusting) Verify(*http.Request, func() ([]byte, error)) (verify.Identity, error) {
	return verify.Identity{}, nil
}

func TestASchemeThatAcceptsAllProvesNothing(t *testing.T) {
	t.Parallel()
	p := preset.Stripe("whsec_live_live_live")
	d := signedDelivery(t, p.Scheme, "stripe", "{}", "{}\n")
	report := New([]producer.Producer{p, {Name: "open", Scheme: trusting{}}}).Explain(t.Context(), d)
	if len(report.Findings) != 1 || report.Findings[0].Cause != bodyNewline {
		t.Errorf("%+v", report)
	}
}

func TestABodyThatIsPartlySignedIsLikely(t *testing.T) {
	t.Parallel()
	adyen, _ := preset.Find("adyen")
	set := preset.Settings{Secrets: []string{strings.Repeat("ab", 32)}}
	r, body, err := adyen.Sample(set, "https://hooks.example/webhooks/adyen", "", "evt-1", guardTime)
	if err != nil {
		t.Fatal(err)
	}
	twice, _ := jsonStyle{}.write(jsonValue{kind: '"', text: body}, 1<<20)
	report := New([]producer.Producer{adyen.Open(set)}).Explain(t.Context(),
		Delivery{Endpoint: "adyen", Request: r, Body: twice, Now: guardTime})
	if len(report.Findings) != 1 || report.Findings[0].Cause != bodyDoubleJSON || report.Findings[0].Proved {
		t.Errorf("%+v", report)
	}
}

func TestOneRunAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := preset.Stripe("whsec_live_live_live")
		e := New([]producer.Producer{p})
		e.running <- struct{}{}
		done := make(chan Report, 1)
		go func() { done <- e.Explain(t.Context(), signedDelivery(t, p.Scheme, "stripe", "{}", "{}\n")) }()
		synctest.Wait()
		select {
		case report := <-done:
			t.Errorf("two runs at a time: %+v", report)
		default:
		}
		<-e.running
		if report := <-done; len(report.Findings) != 1 {
			t.Errorf("%+v", report)
		}
	})
}

func TestExcerptsAreSafeToShow(t *testing.T) {
	t.Parallel()
	p := preset.Stripe("whsec_live_live_live")
	const body = "<b>&\x1b[2J\u202e\xff\x00"
	report := New([]producer.Producer{p}).Explain(t.Context(), signedDelivery(t, p.Scheme, "stripe", body, body+"\n"))
	const want = `\u003cb\u003e\u0026\u001b[2J\u202e\xff\u0000`
	if len(report.Findings) != 1 || report.Findings[0].Signed != "" && report.Findings[0].Signed != want {
		t.Fatalf("%+v", report)
	}
	if came := report.Findings[0].Came; came != want+`\n` {
		t.Errorf("%q", came)
	}
}

// TestARunHashesLittle gives a search all the time it wants.
func TestARunHashesLittle(t *testing.T) {
	t.Parallel()
	p := preset.Stripe("whsec_live_live_live")
	d := signedDelivery(t, p.Scheme, "stripe", "{}", `{"a": "`+strings.Repeat("b", 1<<20)+`"}`)
	s := newSearch(t.Context(), []producer.Producer{p.WithDefaults()}, d)
	s.hashed = MaxHashed - 8<<20 // the rest is soon used up
	report := s.run()
	if most := MaxHashed + maxGrown*len(d.Body); s.hashed > most || report.Complete || report.Trials > MaxTrials {
		t.Errorf("%d bytes of %d hashed in %d trials, complete: %v", s.hashed, most, report.Trials, report.Complete)
	}
}
