package config

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/producer"
)

// applyCommon sets what every producer can have. A setting in the file overrides the preset.
func (b *producerBuilder) applyCommon(p *Producer, made *producer.Producer) {
	pings := made.Pings
	b.applyContract(p, made)
	conf.Overlay(reflect.ValueOf(made).Elem(), reflect.ValueOf(p.common.Producer), p.Node)
	if n := p.Node.Member("reconcile"); n != nil && made.Source.Token == "" {
		b.errs.Add(p.Node.Place("reconcile"), `write a variable, as in token: "${NAME}", or token_file: FILE`,
			"reconcile needs the token of the vendor's API")
	}
	made.Pings = append(slices.Clone(pings), p.common.Pings...)
	made.MonitorUntil = p.common.Verify.MonitorUntil
	b.applyAccepted(p, made)
	b.applyStrict(p, made)
	if word := p.common.RememberSignatures; word != "" {
		made.Forgets = choose(b, p, "remember_signatures", word, map[string]bool{"off": true, "on": false})
	}
	if fields := p.common.FingerprintOf; len(fields) > 0 {
		var err error
		if made.Fingerprint, err = producer.ParseFingerprint(fields...); err != nil {
			b.errs.Add(p.Node.Place("fingerprint"), "or write none", "producers.%s.fingerprint: %v", p.Name, err)
		}
	}
}

// applyContract sets the contract, and moves what it decides to its defaults. A preset knows where
// its vendor has identifier and type.
func (b *producerBuilder) applyContract(p *Producer, made *producer.Producer) {
	contract := p.common.Contract
	if p.Node.Member("contract") == nil || contract == made.Contract {
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
	if c.AcceptedStatus != 0 || c.AcceptedBody != "" {
		made.AcceptedTypes = nil
	}
	made.Accepted.Status = cmp.Or(c.AcceptedStatus, made.Accepted.Status)
	if c.AcceptedBody == "" {
		return
	}
	if status := made.Accepted.Status; status == http.StatusNoContent || status == http.StatusResetContent {
		b.errs.Add(p.Node.Place("accepted_body"), "leave it out, or write accepted: 200",
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

// applyStrict refuses identifiers without quotes.
func (b *producerBuilder) applyStrict(p *Producer, made *producer.Producer) {
	if !p.common.Strict {
		return
	}
	key, ok := made.Key.(producer.IdempotencyKey)
	if !ok {
		b.errs.Add(p.Node.Place("strict"), "leave it out, or write key: idempotency-key",
			"strict has no meaning for a key that is not a quoted field")
		return
	}
	key.Strict = true
	made.Key = key
}

// extractor returns the extractor of a setting; nil without one, or after reporting its error.
func (b *producerBuilder) extractor(p *Producer, setting, text string) producer.Extractor {
	if text == "" {
		return nil
	}
	x, err := producer.ParseExtractor(text)
	if err != nil {
		b.errs.Add(p.Node.Place(setting),
			"write header:X-Event-Id, json:data.id, idempotency-key, digest:body, ...", "%s: %v", setting, err)
		return nil
	}
	return x
}
