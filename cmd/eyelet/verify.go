package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// producerOf returns the producer with the name of a flag or a note, or that of the tenant in the
// path.
func producerOf(ctx context.Context, p *config.Plan, rec *httpfile.File, name string) (*producer.Producer, error) {
	if name == "" {
		return nil, usage.Errorf(`write --producer, or a note "# producer: shop"`, "%s names no producer", rec.Name)
	}
	from, err := p.Producer(name)
	if err == nil && from.Tenants.On() {
		path, _, _ := strings.Cut(rec.Target, "?")
		_, err = config.AsTenant(ctx, from, path[strings.LastIndexByte(path, '/')+1:])
	}
	return from, err
}

// deliveryOf turns the recording into a delivery for extractors.
func deliveryOf(p *config.Plan, rec *httpfile.File, from *producer.Producer) (*producer.Delivery, error) {
	r, err := rec.Request()
	var parseErr *httpfile.Error
	if errors.As(err, &parseErr) {
		return nil, badRecording(parseErr)
	}
	base := cmp.Or(p.URL, "http://"+r.Host)
	if from.URL != "" {
		u, err := url.Parse(from.URL)
		if err != nil {
			return nil, usage.Errorf("", "producer %q: its url is not a URL", from.Name)
		}
		u.RawQuery = r.URL.RawQuery
		r.URL = u
	} else if r.URL, err = url.Parse(strings.TrimSuffix(base, "/") + rec.Target); err != nil {
		return nil, usage.Errorf("", "%s: the request target is not a URL", rec.Name)
	}
	r.Body = http.NoBody
	return &producer.Delivery{Request: verify.Normalize(r), Body: rec.Body}, nil
}

// authenticate runs the checks of the endpoint before the store.
func authenticate(from *producer.Producer, d *producer.Delivery, now time.Time) ([]producer.Item, error) {
	var err error
	whole := from.WithDefaults()
	if whole.Scheme != nil {
		if err = receiver.Authenticate(&whole, d); err != nil {
			return nil, err
		}
	}
	items, err := whole.Items(d)
	if err != nil {
		return nil, err
	}
	return items, whole.Tolerance.Check(d.Identity, now)
}

// verdict is the result of a verification, with the causes if it is not valid.
type verdict struct {
	Valid bool   `json:"valid"`
	Code  string `json:"code"` // "ok", or the failed check
	ID    string `json:"id"`
	Type  string `json:"type"`
	// Events are those of a batch.
	Events []verdictEvent `json:"events,omitempty"`
	// Why is the error, and Component the part of the delivery that it names.
	Why       string `json:"why,omitempty"`
	Component string `json:"component,omitempty"`

	Producer  string `json:"producer"`
	KeyID     string `json:"key_id,omitempty"`
	Label     string `json:"label,omitempty"`
	Principal string `json:"principal,omitempty"`
	// Now is the time of arrival.
	Now time.Time `json:"now"`
	signedTimes
	// TolerancePast and ToleranceFuture are the accepted offsets of SignedAt, in seconds.
	TolerancePast   float64 `json:"tolerance_past"`
	ToleranceFuture float64 `json:"tolerance_future"`
	// Covered is what the signature covers.
	Covered []string `json:"covered,omitempty"`
	// Claimed is what the request says about signatures that were not verified.
	Claimed []claimed `json:"claimed,omitempty"`
	// AcceptSignature is the field of a refusal that says what to sign (RFC 9421 section 5.1).
	AcceptSignature string `json:"accept_signature,omitempty"`
	explain.Report
}

// signedTimes are the times of a signature, and their offsets to the arrival in seconds; negative
// is past.
type signedTimes struct {
	SignedAt        *time.Time `json:"signed_at,omitempty"`
	SignedOffset    *float64   `json:"signed_offset,omitempty"`
	Expires         *time.Time `json:"expires,omitempty"`
	ExpiresOffset   *float64   `json:"expires_offset,omitempty"`
	NotBefore       *time.Time `json:"not_before,omitempty"`
	NotBeforeOffset *float64   `json:"not_before_offset,omitempty"`
}

func timesOf(now, signedAt, expires, notBefore time.Time) (t signedTimes) {
	offset := func(at time.Time) (*time.Time, *float64) {
		if at.IsZero() {
			return nil, nil
		}
		utc, seconds := at.UTC(), at.Sub(now).Seconds()
		return &utc, &seconds
	}
	t.SignedAt, t.SignedOffset = offset(signedAt)
	t.Expires, t.ExpiresOffset = offset(expires)
	t.NotBefore, t.NotBeforeOffset = offset(notBefore)
	return t
}

// claimed is what a request says about a signature.
type claimed struct {
	Label string `json:"label,omitempty"`
	KeyID string `json:"key_id,omitempty"`
	Alg   string `json:"alg,omitempty"`
	signedTimes
	Covered []string `json:"covered,omitempty"`
}

type verdictEvent struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	// Note says why it would be quarantined, or what was left out of it.
	Note string `json:"note,omitempty"`
}

// verdictOn verifies what the endpoint can without a store: the signature, the identifier and the
// time.
func verdictOn(from *producer.Producer, d *producer.Delivery, now time.Time) verdict {
	items, err := authenticate(from, d, now)
	v := verdict{Valid: err == nil, Code: "ok"}
	switch {
	case err != nil:
		v.Code, v.Why = cmp.Or(string(verify.CodeOf(err)), "invalid"), err.Error()
		var refusal *verify.Error
		if errors.As(err, &refusal) {
			v.Component = refusal.Component
		}
	case from.Split == nil && len(items) == 1:
		v.ID, v.Type = items[0].ID, items[0].Type
	default:
		for _, it := range items {
			v.Events = append(v.Events, verdictEvent{it.ID, it.Type, it.Note})
		}
	}
	v.describe(from, d, now)
	return v
}

// describe adds what the verification found out, however it ended.
func (v *verdict) describe(from *producer.Producer, d *producer.Delivery, now time.Time) {
	within, id := from.WithDefaults().Tolerance.WithDefaults(), d.Identity
	v.Producer, v.KeyID, v.Label, v.Principal, v.Covered = from.Name, id.KeyID, id.Label, id.Principal, id.Covered
	v.Now, v.TolerancePast, v.ToleranceFuture = now.UTC(), within.Past.Seconds(), within.Future.Seconds()
	v.signedTimes = timesOf(now, id.SignedAt, id.Expires, id.NotBefore)
	if v.Valid {
		return
	}
	if len(id.Covered) == 0 && id.Expires.IsZero() { // the scheme verified nothing
		for _, c := range verify.ClaimedIn(from.Scheme, d.Request, d.Body) {
			v.Claimed = append(v.Claimed, claimed{c.Label, c.KeyID, c.Alg,
				timesOf(now, c.SignedAt, c.Expires, c.NotBefore), c.Covered})
		}
	}
	if s, ok := from.WithDefaults().Scheme.(interface{ AcceptSignature() string }); ok {
		v.AcceptSignature = s.AcceptSignature()
	}
}

func (v verdict) text(p *program) {
	if v.Valid {
		p.printf("valid: id %s, type %s\n", sanitize(v.ID), sanitize(v.Type))
	} else {
		p.printf("not valid: %s\n", sanitize(v.Why))
	}
	for _, e := range v.Events {
		p.printf("  event: id %s, type %s\n", sanitize(e.ID), sanitize(e.Type))
		if e.Note != "" {
			p.printf("    %s\n", sanitize(e.Note))
		}
	}
	line := func(name, text string) {
		if text != "" {
			p.printf("  %-16s  %s\n", name, sanitize(text))
		}
	}
	within := fmt.Sprintf("; accepted: %s before to %s after", seconds(v.TolerancePast), seconds(v.ToleranceFuture))
	times := func(t signedTimes) {
		line("signed at", timeLine(t.SignedAt, t.SignedOffset, within))
		line("valid from", timeLine(t.NotBefore, t.NotBeforeOffset, ""))
		line("expires", timeLine(t.Expires, t.ExpiresOffset, ""))
	}
	line("code", v.Code)
	line("part", v.Component)
	line("producer", v.Producer)
	line("label", v.Label)
	line("key", v.KeyID)
	line("principal", v.Principal)
	line("arrival", v.Now.Format(time.RFC3339))
	times(v.signedTimes)
	line("covers", strings.Join(v.Covered, " "))
	line("Accept-Signature", v.AcceptSignature)
	for _, c := range v.Claimed {
		p.printf("the request says, not verified:\n")
		line("label", c.Label)
		line("key", c.KeyID)
		line("algorithm", c.Alg)
		times(c.signedTimes)
		line("covers", strings.Join(c.Covered, " "))
	}
}

// timeLine returns a time with its offset to the arrival, or "" without one.
func timeLine(at *time.Time, offset *float64, more string) string {
	if at == nil {
		return ""
	}
	relation := "before"
	off := *offset
	if off > 0 {
		relation = "after"
	} else {
		off = -off
	}
	return fmt.Sprintf("%s, %s %s arrival%s", at.Format(time.RFC3339), seconds(off), relation, more)
}

func seconds(n float64) string { return duration.Rough(time.Duration(n * float64(time.Second))) }
