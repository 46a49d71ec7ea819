package config

import (
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
)

// common sets what every producer can be told. Only what is written overrules a preset.
func (b *producerBuild) common(p *Producer, made *producer.Producer) {
	c := &p.common
	b.identity(p, made)
	if c.MaxBody != 0 {
		made.MaxBody = int64(c.MaxBody)
	}
	if len(c.Methods) > 0 {
		made.Methods = c.Methods
	}
	if len(c.MediaTypes) > 0 {
		made.MediaTypes = c.MediaTypes
	}
	if c.URL != "" {
		made.URL = c.URL
	}
	if c.Window != 0 {
		made.Window = c.Window
	}
	if c.Tolerance.Past != 0 {
		made.Tolerance.Past = c.Tolerance.Past
	}
	if c.Tolerance.Future != 0 {
		made.Tolerance.Future = c.Tolerance.Future
	}
	if c.Accepted != 0 {
		made.Accepted.Status = c.Accepted
	}
	if c.InFlight != 0 {
		made.InFlight = c.InFlight
	}
	b.quota(p, made)
	set(&made.EmptyBody, c.EmptyBody)
	set(&made.LooseBinary, c.LooseBinary)
	made.EarlyData = made.EarlyData || c.EarlyData
	made.Retire, made.Deprecated = b.date(p, "retire", c.Retire), b.date(p, "deprecated", c.Deprecated)
	set(&made.QueryScope, c.QueryScope)
	set(&made.StaleKnown, c.StaleKnown)
	set(&made.DropBody, c.DropBody)
	if c.Contract != "" {
		made.Contract = choose(b, p, "contract", c.Contract, map[string]producer.Contract{"api": producer.API, "webhook": producer.Webhook})
	}
	if c.RememberSignatures != "" {
		made.Forgets = choose(b, p, "remember_signatures", c.RememberSignatures, map[string]bool{"off": true, "on": false})
	}
	b.sameSigned(p, made)
}

// sameSigned says what becomes of signed content that comes again under another identifier.
func (b *producerBuild) sameSigned(p *Producer, made *producer.Producer) {
	c := &p.common
	words := map[string]producer.SameSigned{
		"aside": producer.SameSignedQuarantine, "refuse": producer.SameSignedRefuse, "run": producer.SameSignedRun,
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
	if c.SameSignedMax != 0 {
		made.SameSignedMax = c.SameSignedMax
	}
	var fields []producer.Extractor
	for _, spelling := range c.Fingerprint {
		x, err := producer.ParseExtractor(spelling)
		if err != nil {
			b.add(p.Node.place("fingerprint"), "", "fingerprint: %v", err)
			continue
		}
		fields = append(fields, x)
	}
	if len(fields) > 0 {
		made.Fingerprint = producer.FingerprintFields(fields...)
	}
}

func set(to *bool, from *bool) {
	if from != nil {
		*to = *from
	}
}

// quota says how much the producer may send.
func (b *producerBuild) quota(p *Producer, made *producer.Producer) {
	c := &p.common
	if c.Rate.bare {
		b.add(p.Node.place("rate"), rateHint, "rate is a number without its time")
	}
	if c.Rate.events > 0 {
		made.Rate = producer.Rate{Events: c.Rate.events, Per: c.Rate.per}
	}
	if c.Burst != 0 {
		made.Rate.Burst = c.Burst
	}
	if c.Concurrency != 0 {
		made.Concurrency = c.Concurrency
	}
}

// identity says where the identifier and the type of an event stand.
func (b *producerBuild) identity(p *Producer, made *producer.Producer) {
	c := &p.common
	extractor := func(setting, spelling string, into *producer.Extractor) {
		if spelling == "" {
			return
		}
		x, err := producer.ParseExtractor(spelling)
		if err != nil {
			b.add(p.Node.place(setting), "write header:X-Event-Id, json:data.id, idempotency-key, digest:body, ...", "%s: %v", setting, err)
			return
		}
		*into = x
	}
	extractor("key", c.Key, &made.Key)
	extractor("type", c.Type, &made.Type)
	extractor("event_time", c.EventTime, &made.EventTime)
	set(&made.KeyRequired, c.KeyRequired)
	switch c.KeyFormat {
	case "":
	case "uuid":
		made.KeyFormat = producer.KeyFormatUUID
	default:
		format, err := producer.KeyFormatRegexp(c.KeyFormat)
		if err != nil {
			b.add(p.Node.place("key_format"), "write uuid, or a regular expression", "key_format: %v", err)
		}
		made.KeyFormat = format
	}
}

// date reads the start of a day in UTC, or a time of RFC 3339; zero where nothing is written.
func (b *producerBuild) date(p *Producer, setting, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC()
		}
	}
	b.add(p.Node.place(setting), "write 2027-01-31, which is the start of that day in UTC, or 2027-01-31T18:00:00+01:00", "%s is %q, want a date", setting, usage.OneLine(text))
	return time.Time{}
}
