package receiver

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
	"github.com/eyelet-dev/eyelet/verify"
)

const (
	monitorFor   = 30 * 24 * time.Hour  // after the first start with it
	monitorAgain = 365 * 24 * time.Hour // when a start counts as the first again
)

// The quota of the unverified events of a producer: in a day, which all receivers of a store share,
// and how much of it a receiver takes at once.
const (
	unverifiedDay    = 24 * time.Hour
	unverifiedEvents = 10_000
	unverifiedBytes  = 64 << 20
	reservedEvents   = 100
	reservedBytes    = 1 << 20
	fullFor          = time.Minute // how long a full quota is not read again
)

// unverifiedRate is for deliveries.
var unverifiedRate = admission.Rate{Events: 10, Per: time.Second, Burst: 100}

// unverifiedSpace ends the principal, the endpoint and the lanes of unverified events. No name of a
// producer and no lane has its first character, so what an unverified event names, blocks, orders
// or answers for is unverified too.
const unverifiedSpace = "!unverified"

// monitor accepts deliveries of a producer that do not verify.
type monitor struct {
	until time.Time
	ep    *endpoint // of unverified deliveries
	rate  *admission.Quota
	quota *unverifiedQuota
}

// monitorNote is what the store keeps of the monitoring of a producer.
type monitorNote struct {
	First  time.Time `json:"first"`           // start with it
	Since  time.Time `json:"since,omitzero"`  // the day of the quota
	Events int       `json:"events,omitzero"` // that were reserved in it
	Bytes  int64     `json:"bytes,omitzero"`
}

func parseMonitorNote(text string) (n monitorNote, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &n)
	}
	return n, err
}

func monitorKey(name string) dedup.Key { return dedup.Key{Space: dedup.SpaceMonitor, ID: name} }

// startMonitoring begins to accept unverified deliveries where that is configured. A receiver that
// is replaced passes on what is used of the quotas.
func startMonitoring(rx, replaced *Receiver) error {
	var errs []error
	for i := range rx.cfg.Producers {
		p := &rx.cfg.Producers[i]
		if p.MonitorUntil.IsZero() {
			continue
		}
		until := p.MonitorUntil
		if !rx.cfg.Clock().Before(p.MonitorUntil) {
			rx.log.Warn("the time of monitor_until has passed: verification is enforced; remove the setting",
				"endpoint", p.Name, "until", until)
			continue
		}
		err := mayMonitor(rx, p)
		if _, refused := errors.AsType[*producer.CheckError](err); refused {
			errs = append(errs, err)
		} else if err != nil {
			rx.log.Warn("the first start with monitor_until cannot be read: verification is enforced",
				"endpoint", p.Name, "err", err)
		} else {
			rx.log.Warn("deliveries that do not verify are accepted as unverified events",
				"endpoint", p.Name, "until", until)
			rx.endpoints[p.Name].monitor = newMonitor(rx, replaced, p)
		}
	}
	return errors.Join(errs...)
}

// mayMonitor notes the first start with monitor_until. A date too long after it is a
// [*producer.CheckError].
func mayMonitor(rx *Receiver, p *producer.Producer) error {
	now := rx.cfg.Clock().UTC()
	ctx := rx.storing.Context(rx.ending)
	return rx.cfg.Store.ChangeNote(ctx, monitorKey(p.Name), func(text string) (string, error) {
		n, err := parseMonitorNote(text)
		if err != nil {
			return "", err
		}
		if now.Sub(n.First).Abs() >= monitorAgain { // the clock may have been wrong
			n = monitorNote{First: now}
		}
		if err := checkUntil(p, n.First); err != nil {
			return "", &producer.CheckError{Producer: p.Name, Err: err}
		}
		out, err := json.Marshal(n)
		return string(out), err
	})
}

// checkUntil refuses a date too long after the first start with it.
func checkUntil(p *producer.Producer, first time.Time) error {
	latest := first.Add(monitorFor)
	if !p.MonitorUntil.After(latest) {
		return nil
	}
	return fmt.Errorf("monitor_until: at most %s, 30 days after the first start with it, for a year",
		latest.Format(time.RFC3339))
}

// newMonitor returns the monitor of a producer. Its endpoint is another producer, whose deliveries
// are not verified and get no handshake.
func newMonitor(rx, replaced *Receiver, p *producer.Producer) *monitor {
	q := *p
	q.Scheme, q.Handshake, q.Series = nil, nil, nil
	q.Nonce, q.NonceRate = producer.NonceOff, producer.Rate{}
	q.Rate, q.Concurrency = producer.Rate{}, 0
	m := &monitor{until: p.MonitorUntil, ep: newEndpoint(rx, q), rate: admission.NewQuota(unverifiedRate, 0)}
	m.ep.enforced = rx.endpoints[p.Name]
	m.quota = &unverifiedQuota{key: monitorKey(p.Name)}
	if replaced != nil {
		if old := replaced.endpoints[p.Name]; old != nil && old.monitor != nil {
			m.rate, m.quota = old.monitor.rate, old.monitor.quota
		}
	}
	return m
}

// enforcedCodes are refusals that are not about who sent a delivery.
var enforcedCodes = []verify.Code{
	verify.KeysUnavailable, verify.AmbiguousField, verify.MediaTypeUnsupported, verify.EventMalformed,
	verify.IDMissing, verify.NonceReused, verify.TopicUnexpected, verify.ChallengeUnexpected,
}

// pass lets a delivery that does not verify pass as unverified, if its producer is monitored. Else
// it returns the refusal. It takes from the rate before anything else is done for the delivery.
func pass(d *delivery, refusal error) error {
	if refusal == nil || d.ep.monitor == nil {
		return refusal
	}
	m := d.ep.monitor
	why, ok := errors.AsType[*verify.Error](refusal)
	if !ok || codeOf(why) != why.Code || slices.Contains(enforcedCodes, why.Code) || d.early() ||
		!d.rx.cfg.Clock().Before(m.until) {
		return refusal
	}
	share, _ := m.rate.Begin() // which has no slots
	if wait, _ := share.Take(1, time.Now()); wait > 0 {
		return &failure{code: codeUnverifiedQuota, after: wait}
	}
	d.unverified, d.ep = refusal, m.ep
	d.Identity, d.verified, d.stale = verify.Identity{}, time.Time{}, nil
	d.entry[0] = entry{}
	return nil
}

// enforce returns the refusal of a delivery that cannot pass as unverified after all, or the error
// of one that was verified.
func enforce(d *delivery, err error) error {
	if d.unverified != nil {
		err, d.ep, d.unverified = d.unverified, d.ep.enforced, nil
	}
	return err
}

// refusedAs is the code of the refusal of an unverified delivery, or "".
func refusedAs(d *delivery) verify.Code {
	if d.unverified == nil {
		return ""
	}
	return failureOf(d.unverified).code
}

// nameUnverified names an unverified event by what was sent: identifier, type and body, or the
// target without a body. A forged delivery under the identifier of one that follows is then another
// event. Nothing is remembered of it beyond its window.
func nameUnverified(d *delivery, e *entry, it producer.Item) {
	c := &e.claim
	h := sha256.New()
	for _, part := range [...]string{it.ID, it.Type} {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	if h.Write(c.Payload.Body); len(c.Payload.Body) == 0 {
		h.Write([]byte(c.Payload.Target))
	}
	space := d.ep.p.Name + unverifiedSpace
	c.Key = dedup.Key{Principal: space, Endpoint: space, ID: fmt.Sprintf("unverified:%x", h.Sum(nil))}
	if c.Payload.KeyField = ""; !it.Unnamed {
		c.Payload.VendorID = it.ID
	}
}

// admitUnverified refuses unverified deliveries that an Answer handler would answer, and those
// beyond the quota.
func admitUnverified(ctx context.Context, d *delivery, entries []entry) error {
	size := int64(0)
	for i := range entries {
		c := &entries[i].claim
		if entries[i].answer != nil {
			return enforce(d, nil)
		}
		if size += int64(len(c.Payload.Body)); c.Note != "" {
			c.Note = "; " + c.Note
		}
		c.Note = "unverified: " + string(refusedAs(d)) + c.Note
	}
	return d.ep.enforced.monitor.quota.take(ctx, d.rx, len(entries), size)
}

// unverifiedQuota bounds the unverified events of a producer. What this receiver has reserved of
// the day it need not ask the store for.
type unverifiedQuota struct {
	key    dedup.Key
	mu     sync.Mutex
	events int
	bytes  int64
	ends   time.Time // the day of what was reserved
	full   time.Time // until then
}

// take takes from the quota, or returns why not.
func (q *unverifiedQuota) take(ctx context.Context, rx *Receiver, events int, size int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := rx.cfg.Clock().UTC()
	if !now.Before(q.ends) {
		q.events, q.bytes = 0, 0
	}
	if q.events < events || q.bytes < size {
		if now.Before(q.full) {
			return &failure{code: codeUnverifiedQuota, after: q.full.Sub(now)}
		}
		if err := q.reserve(ctx, rx, now, events, size); err != nil {
			return err
		}
	}
	q.events -= events
	q.bytes -= size
	return nil
}

// reserve reserves at least so much of the day, and usually more. The caller has the lock.
func (q *unverifiedQuota) reserve(ctx context.Context, rx *Receiver, now time.Time, events int, size int64) error {
	var next unverifiedQuota
	full := false
	err := rx.cfg.Store.ChangeNote(rx.storing.Context(ctx), q.key, func(text string) (string, error) {
		n, err := parseMonitorNote(text)
		if err != nil {
			return "", err
		}
		if now.Sub(n.Since).Abs() >= unverifiedDay { // the clock may have been wrong
			n.Since, n.Events, n.Bytes = now, 0, 0
		}
		if next.ends = n.Since.Add(unverifiedDay); next.ends.Equal(q.ends) {
			next.events, next.bytes = q.events, q.bytes
		}
		moreEvents, moreBytes := max(0, events-next.events), max(0, size-next.bytes)
		if full = moreEvents > unverifiedEvents-n.Events || moreBytes > unverifiedBytes-n.Bytes; full {
			return text, nil
		}
		moreEvents = min(max(moreEvents, reservedEvents), unverifiedEvents-n.Events)
		moreBytes = min(max(moreBytes, reservedBytes), unverifiedBytes-n.Bytes)
		next.events, next.bytes = next.events+moreEvents, next.bytes+moreBytes
		n.Events, n.Bytes = n.Events+moreEvents, n.Bytes+moreBytes
		out, err := json.Marshal(n)
		return string(out), err
	})
	switch {
	case err != nil:
		return storeFailure(err)
	case full:
		q.full = now.Add(fullFor)
		return &failure{code: codeUnverifiedQuota, after: fullFor}
	}
	q.events, q.bytes, q.ends = next.events, next.bytes, next.ends
	return nil
}

// isUnverified reports whether the delivery of an event did not verify.
func isUnverified(rec *dedup.Record) bool { return rec.Payload.Attributes[UnverifiedAttribute] != "" }

// reportUnverified logs why an unverified delivery would have been refused, and passes it to
// Config.Refused, one at a time: others are skipped meanwhile.
func reportUnverified(ctx context.Context, d *delivery, w http.ResponseWriter, resp *reply) {
	if d.unverified == nil || resp.Status >= http.StatusBadRequest {
		return
	}
	shown := *resp
	shown.code, shown.err = refusedAs(d), d.unverified
	kind := sampledKind{text: "unverified delivery", endpoint: d.ep.p.Name, code: shown.code}
	d.rx.sampled.write(ctx, slog.LevelWarn, kind, slog.String("event", resp.event), slog.String("type", d.typ),
		slog.String("id", d.id), slog.String("peer", d.peer.String()), slog.String("why", d.unverified.Error()))
	if d.rx.cfg.Refused != nil && d.rx.unverified.TryLock() {
		defer d.rx.unverified.Unlock()
		d.callRefused(ctx, w, &shown)
	}
}
