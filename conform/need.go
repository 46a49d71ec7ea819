package conform

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"
	"sync"
	"time"
)

// needsText has a word that checks.txt uses in each line, the verdict of a check if the profile
// does not meet it, and the reason.
//
//go:embed needs.txt
var needsText string

var needs = sync.OnceValue(func() map[string]undecided {
	all := map[string]undecided{}
	for _, part := range table("needs.txt", needsText, 3) {
		all[part[0]] = undecided{Verdict(part[1]), part[2]}
	}
	return all
})

// unmet returns the first need of a check that is not met.
func (s *session) unmet(c *check) error {
	isMet := s.facts()
	for _, word := range c.needs {
		if !isMet[word] {
			return needs()[word]
		}
	}
	return nil
}

// facts say which needs of checks and attempts are met.
func (s *session) facts() map[string]bool {
	p, field := s.p, s.p.keyField()
	isHMAC, isRFC9421, isInField := p.Scheme == "hmac", p.Scheme == "rfc9421", field != ""
	signature := cmp.Or(p.Signature, &Signature{})
	hasID := strings.Contains(p.Over, "{id}")
	isBinary := p.field("ce-id") != ""
	isStructured := strings.HasPrefix(strings.ToLower(p.Type), "application/cloudevents+json")
	return map[string]bool{
		"signature":   p.Scheme != "none",
		"signed-body": p.signsBody(),
		// Where anyone can exchange the identifier, two payloads with one may be two events.
		"signed-key": !isHMAC && !isRFC9421 || !isInField && p.signsBody() ||
			isInField && (isHMAC && hasID || p.covers(strings.ToLower(field))),
		"signed-part":     isRFC9421 || isHMAC && (p.signsBody() || p.hasTime() || isInField && hasID),
		"time":            p.hasTime() && p.Tolerance >= 0,
		"hmac-time":       isHMAC && p.hasTime(),
		"bearer":          p.Scheme == "bearer",
		"webhooks":        isHMAC && p.Over == "{id}.{timestamp}.{body}" && field == "webhook-id",
		"rfc9421":         isRFC9421,
		"public-key":      signature.Alg != "hmac-sha256",
		"nonce":           signature.Nonce,
		"tag":             signature.Tag != "",
		"query":           p.covers("@target-uri", "@request-target", "@query"),
		"no-own-query":    s.url != nil && !strings.Contains(s.url.RequestURI(), "?"),
		"key":             p.Key != "",
		"key-field":       isInField,
		"idempotency-key": strings.EqualFold(field, "Idempotency-Key"),
		"quoted":          strings.HasPrefix(p.field(field), `"`),
		"body-id":         p.Key == "body:id",
		"event-delivery":  p.claims("event-delivery"),
		"answers":         p.Answers,
		"no-answers":      !p.Answers,
		"wait":            slices.Contains(p.Members, "wait"),
		"fail":            slices.Contains(p.Members, "fail"),
		"effects":         p.Effects != nil,
		"window":          p.Window != 0 && (p.Window <= time.Minute || p.Clock != ""),
		"old":             p.Old != nil,
		"other":           p.Other != nil,
		"other-url":       p.OtherURL != "",
		"restart":         p.Restart != "",
		"power":           p.Power != "",
		"json":            strings.HasPrefix(p.Body, "{"),
		"max-body":        p.MaxBody != 0,
		"64KiB":           p.MaxBody == 0 || p.MaxBody >= 64<<10,
		"events":          isBinary || isStructured,
		"no-events":       !isBinary && !isStructured,
		"binary":          isBinary,
		"structured":      isStructured,
		"batch":           p.Batch != "",
		"no-batch":        p.Batch == "",

		"covers:content-digest": p.covers("content-digest"),
		"covers:content-type":   p.covers("content-type"),
		"covers:@method":        p.covers("@method"),
		"covers:@authority":     p.covers("@authority"),
		"covers:key":            isInField && p.covers(strings.ToLower(field)),
	}
}
