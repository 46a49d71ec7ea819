package inspect

import (
	"bytes"
	"maps"
	"net/http"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/redact"
)

// redaction hides what the page must not show. Without rules it changes nothing.
type redaction struct {
	rules redact.Rules
	on    bool
}

func newRedaction(rules []string) *redaction {
	r := &redaction{on: len(rules) > 0}
	for _, rule := range rules {
		if err := r.rules.Add(rule); err != nil {
			panic("inspect: Options.Redact: " + err.Error())
		}
	}
	return r
}

// record returns a record as it may be shown, and whether something in it is hidden.
func (r *redaction) record(rec dedup.Record) (dedup.Record, bool) {
	if !r.on {
		return rec, false
	}
	p, was := &rec.Payload, rec.Payload
	m := r.rules.Mask(p.Header, p.Target)
	p.Header, p.Target = m.Header(p.Header), m.Target(p.Target)
	p.Body, _ = m.Body(p.Body)
	p.Attributes = maps.Clone(p.Attributes)
	for name, value := range p.Attributes {
		p.Attributes[name] = m.Text(value)
	}
	rec.Tasks = dedup.CloneTasks(rec.Tasks)
	for i := range rec.Tasks {
		for j := range rec.Tasks[i].History {
			a := &rec.Tasks[i].History[j]
			reply, _ := m.Body([]byte(a.Reply))
			a.Reply = string(reply)
		}
	}
	rec.Response.Body, _ = m.Body(rec.Response.Body)
	rec.Response.Header = m.Header(rec.Response.Header)
	return rec, p.Target != was.Target || !bytes.Equal(p.Body, was.Body) || !sameFields(p.Header, was.Header)
}

func sameFields(a, b http.Header) bool { return maps.EqualFunc(a, b, slices.Equal[[]string]) }

// line returns the line of a refused delivery as it may be shown and searched.
func (r *redaction) line(d Refused) Refused {
	if r.on {
		m := r.rules.Mask(nil, d.Target)
		d.Target, d.Why = m.Target(d.Target), m.Text(d.Why)
	}
	return d
}

// refused returns a refused delivery as it may be shown.
func (r *redaction) refused(d RefusedDetail) RefusedDetail {
	if !r.on {
		return d
	}
	m := r.rules.Mask(d.Header, d.Target, d.URL)
	d.Header, d.URL, d.Target, d.Why = m.Header(d.Header), m.Target(d.URL), m.Target(d.Target), m.Text(d.Why)
	was := d.body()
	body, _ := m.Body(was)
	d.Text, d.Base64 = TextOrBytes(body)
	d.Kept, d.Hidden = len(body), d.Hidden || !bytes.Equal(body, was)
	if d.Response != nil {
		shown := *d.Response
		response, _ := m.Body(append([]byte(shown.Text), shown.Base64...))
		shown.Text, shown.Base64 = TextOrBytes(response)
		shown.Header = m.Header(shown.Header)
		d.Response = &shown
	}
	return d
}

// explanation leaves the excerpts out of the causes of a delivery that are about something hidden.
// came is the delivery, and shown what is shown of it.
func (r *redaction) explanation(why *Explanation, came, shown *RefusedDetail) {
	for i := range why.Causes {
		c := &why.Causes[i]
		if r.on && (shown.Hidden || came.Header.Get(c.Detail) != shown.Header.Get(c.Detail)) {
			c.Signed, c.Came = "", ""
		}
	}
}
