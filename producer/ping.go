package producer

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/verify"
)

// knownPings are the pings of vendors that sign in a field of their own, by that field.
var knownPings = map[string]string{
	"X-Wc-Webhook-Signature": "form:webhook_id",                     // WooCommerce
	"X-Hub-Signature":        "header:X-Event-Key=diagnostics:ping", // Bitbucket
}

// ping is one of [Producer.Pings]: a method, or a value of the request.
type ping struct {
	method string
	from   Extractor
	value  string // "" for any
}

func parsePing(text string) (ping, error) {
	if text == http.MethodGet || text == http.MethodHead {
		return ping{method: text}, nil
	}
	name, value, _ := strings.Cut(text, "=")
	from, err := ParseExtractor(name)
	if err != nil || value == "" && !selects(from) {
		return ping{}, fmt.Errorf("pings: %q is neither GET nor a value of a request, as in "+
			"header:X-Event-Key=diagnostics:ping or form:webhook_id", text)
	}
	return ping{from: from, value: value}, nil
}

// selects reports whether some requests have no value.
func selects(from Extractor) bool {
	return len(from.Consumes()) > 0 && from.String() != BodyDigest().String()
}

func (p ping) matches(d *Delivery) bool {
	if p.from == nil {
		return false
	}
	got, err := p.from.Extract(d)
	return err == nil && got != "" && (p.value == "" || got == p.value)
}

// checkPings adds the mistakes in Pings.
func checkPings(p *Producer, m *mistakes) {
	for _, text := range p.Pings {
		one, err := parsePing(text)
		m.add(err)
		m.addIf(one.method == http.MethodGet && slices.Contains(p.Methods, one.method),
			"pings: GET is a method of deliveries, so it cannot be one of pings")
	}
}

// withPings adds the answers to requests that only check the URL. HEAD is one, except at a preset
// without pings, whose vendor sends none: it never carries a delivery, and no redirect turns a POST
// into it.
func withPings(p Producer) Producer {
	if slices.Contains(p.ChallengeMethods, http.MethodHead) || p.Preset != "" && len(p.Pings) == 0 {
		return p // it has them, or none
	}
	if len(p.Pings) == 0 {
		eachScheme(p.Scheme, func(h *verify.HMAC) {
			for _, field := range h.Headers {
				if known := knownPings[http.CanonicalHeaderKey(field)]; known != "" {
					p.Pings = append(p.Pings, known)
				}
			}
		})
	}
	methods := []string{http.MethodHead}
	var pings []ping
	for _, text := range p.Pings {
		if one, err := parsePing(text); err == nil && one.from != nil {
			pings = append(pings, one)
		} else if err == nil && one.method != http.MethodHead {
			methods = append(methods, one.method)
		}
	}
	p = pingedBy(p, methods)
	if len(pings) > 0 {
		p = pinged(p, pings)
	}
	return p
}

// pingedBy answers requests of the methods, which carry no deliveries, unless they are challenges.
func pingedBy(p Producer, methods []string) Producer {
	own, owned := p.Challenge, p.ChallengeMethods
	p.ChallengeMethods = append(slices.Clone(owned), methods...)
	p.Challenge = func(r *http.Request) (*dedup.Response, error) {
		if own != nil && slices.Contains(owned, r.Method) {
			if resp, err := own(r); resp != nil || err != nil {
				return resp, err
			}
		}
		if slices.Contains(methods, r.Method) {
			return pong(), nil
		}
		return nil, nil
	}
	return p
}

// pinged answers deliveries that are one of the pings, with a credential or without.
func pinged(p Producer, pings []ping) Producer {
	answer := func(d *Delivery) *dedup.Response {
		if slices.ContainsFunc(pings, func(one ping) bool { return one.matches(d) }) {
			return pong()
		}
		return nil
	}
	unsigned, signed := p.UnsignedChallenge, p.Handshake
	p.UnsignedChallenge = func(r *http.Request, body []byte) *dedup.Response {
		if unsigned != nil {
			if resp := unsigned(r, body); resp != nil {
				return resp
			}
		}
		return answer(&Delivery{Request: r, Body: body})
	}
	p.Handshake = func(ctx context.Context, d *Delivery) (*dedup.Response, error) {
		if signed != nil {
			if resp, err := signed(ctx, d); resp != nil || err != nil {
				return resp, err
			}
		}
		return answer(d), nil
	}
	return p
}

// pong is the empty response to a ping.
func pong() *dedup.Response { return &dedup.Response{Status: http.StatusOK} }
