package conform

import (
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// produce runs the checks of producers on the reference with a fault.
func produce(t *testing.T, p *Profile, fault string, only ...string) (*Report, []string) {
	t.Helper()
	s := &sender{fault: fault}
	defer s.done.Wait()
	return runPeer(t, Options{Role: Producer, Profile: p, Only: only, Waiting: func(text string) {
		_, url, _ := strings.Cut(text, "to http://")
		s.event("http://" + url)
	}})
}

func TestTheReferenceProducerHolds(t *testing.T) {
	t.Parallel()
	for habit, only := range map[string][]string{
		"": nil, "asks first": {"P101", "P107"}, "sends others": {"P106", "P108"},
		"sha-512": {"P103"}, "signs parts of the address": {"P103"},
	} {
		t.Run(habit, func(t *testing.T) {
			t.Parallel()
			r, failed := produce(t, peerProfile(t), habit, only...)
			if len(failed) > 0 || r.Count(Holds, "") != len(r.Results) {
				t.Errorf("%v fail: %s", failed, r.Summary())
			}
		})
	}
}

func TestTokensOfProducersAreCompared(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]int{"": 0, "another token": 1} {
		r, failed := produce(t, bearerProfile(t), fault, "P102")
		if len(failed) != want {
			t.Errorf("%q: %v", fault, r.Results)
		}
		for _, e := range r.Results[0].Exchanges {
			if strings.Contains(e.Request, "Bearer") {
				t.Error("the report has a token:", e.Request)
			}
		}
	}
}

// TestSignaturesByTemplate also where there are several, as while a secret is exchanged.
func TestSignaturesByTemplate(t *testing.T) {
	t.Parallel()
	good := hex.EncodeToString(hmacKey("k").sign([]byte("7.{}")))
	const template = "t={timestamp},v1={hex}"
	for value, want := range map[string]bool{
		"t=7,v1=" + good:                  true,
		"t=7,v1=00,v1=" + good:            true,
		"t=7,v0=00,v1=" + good + ",v2=00": true,
		"t=7,v2=" + good:                  false,
		"t=8,v1=" + good:                  false,
		"v1=" + good:                      false,
		"":                                false,
	} {
		p := &Profile{Secret: "k", Over: "{timestamp}.{body}", Fields: map[string]string{"X-Signature": template}}
		a := &arrival{header: http.Header{"X-Signature": {value}}, body: []byte("{}")}
		proof, err := (&run{session: &session{p: p}}).templateSignature(a)
		if (err == nil) != want || want && proof.at.Unix() != 7 {
			t.Errorf("%s: %v, want %v", value, err, want)
		}
	}
}

// TestLongNumbersAreIdentifiers that differ in their last digit.
func TestLongNumbersAreIdentifiers(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"a":{"id":9007199254740993}}`: "9007199254740993",
		`{"a":{"id":"\u0061"}}`:         "a",
		`{"a":{"id":null}}`:             "",
		`{"a":7}`:                       "",
		`7`:                             "",
	} {
		if got := (&Profile{Key: "body:a.id"}).keyOf(&arrival{body: []byte(body)}); got != want {
			t.Errorf("%s has %q, want %q", body, got, want)
		}
	}
}

// TestOnlyAGivenTimeIsLate: a producer that repeats after hours is not wrong.
func TestOnlyAGivenTimeIsLate(t *testing.T) {
	t.Parallel()
	for _, given := range []time.Duration{0, time.Second} {
		o := Options{Role: Producer, Profile: peerProfile(t), MaxWait: given}
		if _, err := o.complete(); err != nil {
			t.Fatal(err)
		}
		err := (&run{session: &session{o: o}}).late("no retry")
		if u, ok := errors.AsType[undecided](err); ok != (given == 0) || ok && u.verdict != NotJudged {
			t.Errorf("%s: %v", given, err)
		}
	}
}

func TestFaultsOfProducersAreFound(t *testing.T) {
	t.Parallel()
	p := peerProfile(t)
	for fault, number := range map[string]string{
		"put": "P101", "no type": "P101", "bad signature": "P102", "key not covered": "P103",
		"method not covered": "P103", "old clock": "P104", "bare key": "P105", "one key": "P105", "no key": "P105",
		"new key": "P106", "new body": "P106", "500 is final": "P106", "cut is final": "P107", "409 is final": "P108",
		"hasty": "P109", "retries accepted": "P110", "retries 404": "P111", "retries 410": "P112",
		"goes on after 410": "P112", "bare new key": "P106",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			if _, failed := produce(t, p, fault, number); !slices.Contains(failed, number) {
				t.Errorf("%s is not found by %s: %v fail", fault, number, failed)
			}
		})
	}
}
