package config

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
)

// applyCommon sets what every producer can have. A setting in the file overrides the preset.
func (b *producerBuilder) applyCommon(p *Producer, made *producer.Producer) {
	c := &p.common
	b.applyContract(p, made)
	b.applyIdentity(p, made)
	if len(c.Methods) > 0 {
		made.Methods = c.Methods
	}
	if len(c.MediaTypes) > 0 {
		made.MediaTypes = c.MediaTypes
	}
	override(&made.MaxBody, int64(c.MaxBody))
	override(&made.URL, c.URL)
	override(&made.Window, c.Window)
	override(&made.ExpectEvery, c.ExpectEvery)
	override(&made.Tolerance.Past, c.Tolerance.Past)
	override(&made.Tolerance.Future, c.Tolerance.Future)
	b.applyAccepted(p, made)
	override(&made.InFlight, c.InFlight)
	override(&made.EarlyData, c.EarlyData)
	override(&made.FormMember, c.FormMember)
	if e := c.Challenge; e != nil {
		made.Echo = &producer.Echo{
			Query: e.Query, Member: e.JSON, Field: e.Header, Members: e.Members, Methods: e.Methods,
			Reply: e.Reply, As: e.As,
		}
	}
	made.Pings = append(slices.Clone(made.Pings), c.Pings...)
	made.SignedContent = choose(b, p, "signed", c.Signed, map[string]producer.SignedContent{
		"coded": producer.SignedCoded, "decoded": producer.SignedDecoded,
	})
	overrideBool(&made.EmptyBody, c.EmptyBody)
	overrideBool(&made.LooseBinary, c.LooseBinary)
	overrideBool(&made.QueryScope, c.QueryScope)
	overrideBool(&made.StaleKnown, c.StaleKnown)
	overrideBool(&made.DropBody, c.DropBody)
	b.applyRate(p, made)
	made.Retire, made.Deprecated = b.date(p, "retire", c.Retire), b.date(p, "deprecated", c.Deprecated)
	if c.RememberSignatures != "" {
		made.Forgets = choose(b, p, "remember_signatures", c.RememberSignatures,
			map[string]bool{"off": true, "on": false})
	}
	b.applySameSigned(p, made)
}

// applyContract sets the contract, and moves what it decides to its defaults. A preset knows where
// its vendor has identifier and type.
func (b *producerBuilder) applyContract(p *Producer, made *producer.Producer) {
	contract := choose(b, p, "contract", p.common.Contract,
		map[string]producer.Contract{"api": producer.API, "webhook": producer.Webhook})
	if p.common.Contract == "" || contract == made.Contract {
		return
	}
	made.Contract, made.KeyRequired = contract, contract == producer.API
	made.StaleKnown = contract == producer.Webhook
	_, sent := made.Key.(producer.IdempotencyKey)
	switch {
	case p.Preset != "":
	case contract == producer.API && made.Key == producer.BodyDigest():
		made.Key, made.Type = producer.IdempotencyKey{}, producer.JSON("type")
	case contract == producer.Webhook && sent:
		made.Key, made.Type = producer.BodyDigest(), nil
	}
}

// applyAccepted sets the response to an accepted event.
func (b *producerBuilder) applyAccepted(p *Producer, made *producer.Producer) {
	c := &p.common
	if c.Accepted != 0 || c.AcceptedBody != "" {
		made.AcceptedTypes = nil
	}
	override(&made.Accepted.Status, c.Accepted)
	if c.AcceptedBody == "" {
		return
	}
	if status := made.Accepted.Status; status == http.StatusNoContent || status == http.StatusResetContent {
		b.errs.Add(p.Node.place("accepted_body"), "leave it out, or write accepted: 200",
			"accepted_body: a response with status %d has no body", status)
	}
	made.Accepted.Body, made.Accepted.Header = []byte{}, nil
	if c.AcceptedBody == "none" {
		return
	}
	media := "text/plain; charset=utf-8"
	switch made.Accepted.Body = []byte(c.AcceptedBody); {
	case json.Valid(made.Accepted.Body):
		media = "application/json"
	case c.AcceptedBody[0] == '<':
		media = "text/xml"
	}
	made.Accepted.Header = http.Header{"Content-Type": {media}}
}

// override sets a value that the file has.
func override[T comparable](to *T, from T) {
	var zero T
	if from != zero {
		*to = from
	}
}

func overrideBool(to, from *bool) {
	if from != nil {
		*to = *from
	}
}

// applyIdentity sets where the identifier, the type and the time of an event are.
func (b *producerBuilder) applyIdentity(p *Producer, made *producer.Producer) {
	c := &p.common
	override(&made.Key, b.extractor(p, "key", c.Key))
	override(&made.Type, b.extractor(p, "type", c.Type))
	override(&made.EventTime, b.extractor(p, "event_time", c.EventTime))
	overrideBool(&made.KeyRequired, c.KeyRequired)
	if c.Strict {
		key, ok := made.Key.(producer.IdempotencyKey)
		if !ok {
			b.errs.Add(p.Node.place("strict"), "leave it out, or write key: idempotency-key",
				"strict has no meaning for a key that is not a quoted field")
		}
		if key.Strict = true; ok {
			made.Key = key
		}
	}
	switch c.KeyFormat {
	case "":
	case "uuid":
		made.KeyFormat = producer.KeyFormatUUID
	default:
		format, err := producer.KeyFormatRegexp(c.KeyFormat)
		if err != nil {
			b.errs.Add(p.Node.place("key_format"), "write uuid, or a regular expression", "key_format: %v", err)
		}
		made.KeyFormat = format
	}
}

// extractor returns the extractor of a setting; nil without one, or after reporting its error.
func (b *producerBuilder) extractor(p *Producer, setting, text string) producer.Extractor {
	if text == "" {
		return nil
	}
	x, err := producer.ParseExtractor(text)
	if err != nil {
		b.errs.Add(p.Node.place(setting),
			"write header:X-Event-Id, json:data.id, idempotency-key, digest:body, ...", "%s: %v", setting, err)
		return nil
	}
	return x
}

// applyRate sets how much the producer may send.
func (b *producerBuilder) applyRate(p *Producer, made *producer.Producer) {
	c := &p.common
	if c.Rate.bare {
		b.errs.Add(p.Node.place("rate"), rateHint, "rate is a number without its time")
	}
	if c.Rate.events > 0 {
		made.Rate = producer.Rate{Events: c.Rate.events, Per: c.Rate.per}
	}
	override(&made.Rate.Burst, c.Burst)
	override(&made.Concurrency, c.Concurrency)
}

// applySameSigned sets how signed content is handled that arrives again under another identifier.
func (b *producerBuilder) applySameSigned(p *Producer, made *producer.Producer) {
	c := &p.common
	words := map[string]producer.SameSigned{
		"quarantine": producer.SameSignedQuarantine, "refuse": producer.SameSignedRefuse, "run": producer.SameSignedRun,
	}
	for typ, word := range c.SameSignedTypes {
		if made.SameSignedTypes == nil {
			made.SameSignedTypes = map[string]producer.SameSigned{}
		}
		made.SameSignedTypes[typ] = choose(b, p, "same_signed_types", word, words)
	}
	if c.SameSigned != "" {
		words["off"] = producer.SameSignedOff
		made.SameSigned = choose(b, p, "same_signed", c.SameSigned, words)
	}
	override(&made.SameSignedMax, c.SameSignedMax)
	var fields []producer.Extractor
	for _, text := range c.Fingerprint {
		x, err := producer.ParseExtractor(text)
		if err != nil {
			b.errs.Add(p.Node.place("fingerprint"), "", "fingerprint: %v", err)
			continue
		}
		fields = append(fields, x)
	}
	if len(fields) > 0 {
		made.Fingerprint = producer.FingerprintFields(fields...)
	}
}

// date reads the start of a day in UTC, or a time of RFC 3339. An empty text is the zero time.
func (b *producerBuilder) date(p *Producer, setting, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC()
		}
	}
	b.errs.Add(p.Node.place(setting),
		"write 2027-01-31, which is the start of that day in UTC, or 2027-01-31T18:00:00+01:00",
		"%s is %q, want a date", setting, text)
	return time.Time{}
}
