package explain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// tampered is a signed delivery of which one thing was changed at random.
type tampered struct {
	d      explain.Delivery
	signed *http.Request // before
	body   []byte
	part   string // that was changed: "body", "url", or a field
}

// senders returns good deliveries of at least 12 schemes.
func senders(t *testing.T) []plant {
	addressed := custom(func(h *verify.HMAC) { h.Content = "{url}\n{body}" })
	addressed.Name = "x"
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	adyenKey := strings.Repeat("ab", 32)
	adyen, _ := preset.Find("adyen")
	nothing := func(_ *http.Request, body []byte) []byte { return body }
	all := []plant{
		{config: one(preset.Stripe("whsec_live_live_live"))},
		{config: one(preset.GitHub("s3cr3t-s3cr3t-s3cr3t"))},
		{config: one(preset.Slack("8f742231b10e8888abcd99yyyzzz85a5"))},
		{config: one(preset.With("shopify", "shpss_4f1c6a8e"))},
		{config: one(preset.With("standard-webhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")),
			fields: map[string]string{"webhook-id": "msg_1"}},
		{config: one(preset.With("square", "sq-key-sq-key-sq-key"))},
		{config: one(preset.With("twilio", "12345678901234567890123456789012")), fields: form,
			signed: "CallSid=CA1&From=%2B1&To=%2B49"},
		{config: one(adyen.Open(preset.Settings{Secrets: []string{adyenKey}})), by: func(r *http.Request,
			_ []byte) []byte {
			sample, body, err := adyen.Sample(preset.Settings{Secrets: []string{adyenKey}}, r.URL.String(), "",
				"evt-1", signedAt)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = sample.Header
			return body
		}},
		{config: one(addressed), url: at("/webhooks/x?b=2&a=1")},
		{config: one(static(verify.BearerToken("tok_0123456789"))), by: nothing, after: set("Authorization",
			"Bearer tok_0123456789")},
		{config: one(static(verify.Basic("shop", "pass-0123456789"))), by: nothing,
			after: func(r *http.Request) { r.SetBasicAuth("shop", "pass-0123456789") }},
		{config: one(static(verify.HeaderValue("X-Token", "tok_0123456789"))), by: nothing, after: set("X-Token",
			"tok_0123456789")},
	}
	for _, alg := range []verify.Alg{verify.HMACSHA256, verify.Ed25519, verify.ECDSAP256SHA256} {
		pair := newPair(t, "k1", alg)
		all = append(all, plant{config: one(shop(pair)), by: pair.by, fields: idempotency})
	}
	lab := custom(func(h *verify.HMAC) {
		h.Headers, h.Secrets = []string{"X-Lab"}, verify.Secrets("lab-secret-lab-secret")
	})
	lab.Name = "lab"
	for i := range all {
		all[i].config = append(all[i].config, lab)
	}
	return all
}

// tamper changes one part of a good delivery.
func (p *plant) tamper(t *testing.T, rnd *rand.Rand) tampered {
	t.Helper()
	r, body := p.request(t)
	out := tampered{signed: r.Clone(t.Context()), body: bytes.Clone(body)}
	parts := []string{"body", "body", "body", "url"}
	for name := range r.Header {
		parts = append(parts, name)
	}
	slices.Sort(parts[4:])
	out.part = parts[rnd.IntN(len(parts))]
	switch out.part {
	case "body":
		body = mutate(rnd, body)
	case "url":
		u := *r.URL
		if u.RawQuery != "" && rnd.IntN(2) == 0 {
			u.RawQuery = string(letters(mutate(rnd, []byte(u.RawQuery))))
		} else {
			u.Path = "/" + string(letters(mutate(rnd, []byte(u.Path[1:]))))
		}
		r.URL = &u
	default:
		if value := mutate(rnd, []byte(r.Header.Get(out.part))); rnd.IntN(8) == 0 {
			r.Header.Del(out.part)
		} else {
			r.Header.Set(out.part, string(visible(value)))
		}
	}
	out.d = explain.Delivery{Endpoint: p.endpoint().Name, Request: r, Body: body, Declared: int64(len(body)),
		Now: signedAt}
	return out
}

// mutate flips a bit, or adds, removes, doubles or swaps bytes.
func mutate(rnd *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < 2 {
		return append(b, 'x')
	}
	i := rnd.IntN(len(b) - 1)
	switch rnd.IntN(6) {
	case 0:
		return slices.Insert(b, i, "\n \"/x0="[rnd.IntN(7)])
	case 1:
		return slices.Delete(b, i, i+1)
	case 2:
		b[i], b[i+1] = b[i+1], b[i]
	case 3:
		return append(b, "\n \r\""[rnd.IntN(4)])
	default:
		b[i] ^= 1 << rnd.IntN(8)
	}
	return b
}

func visible(b []byte) []byte {
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '~'
		}
	}
	return bytes.TrimSpace(b)
}

func letters(b []byte) []byte {
	for i, c := range b {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("/=&-._", rune(c)) {
			b[i] = 'q'
		}
	}
	return b
}

// signedTime is the time in a field of its own, or in a member.
var signedTime = regexp.MustCompile(`^\d+$|(^|,)t=\d+(,|$)`)

// true reports whether a proved cause is true of the changed part.
func (x *tampered) isTrue(f explain.Finding) bool {
	cause := string(f.Cause)
	field := x.part != "body" && x.part != "url"
	before, came := x.signed.Header.Get(x.part), x.d.Request.Header.Get(x.part)
	switch cause {
	case "body_rewritten":
		return x.part == "body" && sameJSON(x.body, x.d.Body)
	case "digest_of_other_body":
		return x.part == "body"
	case "header_changed", "header_removed":
		return field && strings.EqualFold(f.Detail, x.part)
	case "signature_form", "credential_form":
		return field && (normal(before) == normal(came) || renamed(f.Detail, came, before))
	case "secret_characters":
		return field && strings.EqualFold(normal(before), normal(came))
	case "user_name":
		return x.part == "Authorization"
	case "no_time":
		return x.part == "Signature-Input" || x.part == "Signature" ||
			strings.Contains(f.Detail, x.part) && !signedTime.MatchString(came)
	case "key_unknown", "not_covered", "algorithm", "label":
		return x.part == "Signature-Input" || x.part == "Signature" // the request says so itself
	case "unsigned":
		return field && (came == "" || x.part == "Authorization") || x.part == "body" && x.d.Endpoint == "adyen"
	case "no_digest", "header_repeated":
		return field || x.part == "body" // a body that is not bound: the request shows it
	}
	switch {
	case strings.HasPrefix(cause, "body_"):
		return x.part == "body"
	case strings.HasPrefix(cause, "url_"):
		return x.part == "url"
	}
	return false
}

// renamed reports whether an entry came with the other name, or the prefix, that the detail has.
func renamed(detail, came, before string) bool {
	var name, wanted string
	if _, err := fmt.Sscanf(detail, "named %s in place of %s", &name, &wanted); err == nil {
		return strings.Replace(came, name, wanted, 1) == before
	}
	_, err := fmt.Sscanf(detail, "with the prefix %s", &name)
	return err == nil && strings.HasSuffix(before, strings.TrimPrefix(came, name))
}

// normal returns a signature or credential without prefix, quotes, padding and white space.
func normal(text string) string {
	text = strings.NewReplacer("-", "+", "_", "/", `"`, "", "'", "", " ", "", "=", "").Replace(text)
	return strings.TrimPrefix(strings.TrimPrefix(text, "Bearer"), "sha256")
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func TestNoWrongCause(t *testing.T) {
	t.Parallel()
	n := 75
	if os.Getenv("EYELET_LONG") != "" {
		n = 10_000
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	all := senders(t)
	explainers := make([]*explain.Explainer, len(all))
	for i := range all {
		explainers[i] = patient(all[i].config)
	}
	proved, refused := 0, 0
	for i := range n {
		p := &all[i%len(all)]
		x := p.tamper(t, rnd)
		report := explainers[i%len(all)].Explain(t.Context(), x.d)
		if report.Code != "" {
			refused++
		}
		for _, f := range report.Findings {
			if !f.Proved {
				continue
			}
			proved++
			if !x.isTrue(f) {
				t.Errorf("seed %d, %d: %s %s: proved %s (%s), changed %s\n"+
					"signed %q\ncame   %q\nfields %q, before %q",
					seed, i, p.endpoint().Name, x.d.Request.URL, f.Cause, f.Detail, x.part, x.body, x.d.Body,
					x.d.Request.Header,
					x.signed.Header)
			}
		}
		checkReport(t, p.config, report)
	}
	t.Logf("%d tamperings of %d schemes, %d refused, %d causes proved", n, len(all), refused, proved)
	if proved == 0 || refused < n/4 {
		t.Error("nothing was tried")
	}
}
