package deduptest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

func modelChecks() []check {
	var checks []check
	for run := range setting("EYELET_RUNS", 4) {
		checks = append(checks, check{fmt.Sprint("RandomCallsAgreeWithTheModel/", run), agrees})
	}
	return checks
}

// driver makes random calls of the store and the model and compares the results.
type driver struct {
	*rig
	*rand.Rand
	model  model
	trace  []string
	stores []dedup.Store // one or two
}

func agrees(x *rig) {
	d := &driver{rig: x, Rand: x.random(), stores: []dedup.Store{x.store}}
	d.model = newModel(x.clock.Now())
	ofDay := time.Duration(d.IntN(24*60*60)) * time.Second // a seed repeats it, too
	d.model.now = d.model.now.Truncate(day).Add(day + ofDay)
	x.clock.Advance(d.model.now.Sub(d.model.began))
	if d.IntN(2) == 0 {
		d.stores = x.stores()
	}
	defer func() {
		x.store = d.stores[0]
		if x.Failed() {
			x.Logf("the last calls:\n%s", strings.Join(d.trace[max(0, len(d.trace)-60):], "\n"))
		}
	}()
	for range setting("EYELET_STEPS", 400) {
		d.step()
	}
	d.compare()
}

func (d *driver) note(format string, args ...any) {
	head := fmt.Sprintf("%4d %s ", len(d.trace), d.model.now.Format("15:04:05.000"))
	d.trace = append(d.trace, head+fmt.Sprintf(format, args...))
}

func (d *driver) step() {
	d.model.store = d.IntN(len(d.stores))
	d.store = d.stores[d.model.store]
	switch n := d.IntN(100); {
	case n < 31:
		d.claim()
	case n < 52:
		d.take()
	case n < 73:
		d.finish()
	case n < 77:
		d.extend()
	case n < 84:
		d.order()
	case n < 86:
		d.purge()
	case n < 89:
		d.list()
	case n < 90:
		d.compare()
	case n < 91 && d.harness.Reopen != nil && len(d.stores) == 1:
		d.restart()
	default:
		d.advanceClock()
	}
}

func (d *driver) advanceClock() {
	by := pick(d.Rand, time.Millisecond, time.Second, 9*time.Second, minute, 4*minute, 29*minute, hour, 3*hour)
	if d.IntN(30) == 0 {
		by = pick(d.Rand, 30*day, 31*day)
	}
	if e := d.event(); e != nil && d.IntN(3) == 0 { // to the moment, or just before it
		at := pick(d.Rand, e.Expires, e.Expires, e.Accepted.Add(minute))
		for _, t := range e.Tasks {
			at = pick(d.Rand, at, at, at, t.Due, t.Until, t.Until.Add(e.Window))
		}
		if left := at.Sub(d.model.now) - pick(d.Rand, 0, time.Millisecond); left > 0 && left < 2*day {
			defer d.claimAgain(e)
			by = left
		}
	}
	d.clock.Advance(by)
	d.model.now = d.model.now.Add(by)
	d.note("the clock moves by %v", by)
}

// claimAgain makes the claim of an event again, perhaps under another name.
func (d *driver) claimAgain(e *modelEvent) {
	c := e.made
	if c.Key.ID == "" || c.Quarantine != nil { // its original may be forgotten
		return
	}
	if c.Occurrence != nil && d.IntN(2) == 0 {
		o := *c.Occurrence
		o.Name = pick(d.Rand, "v0", "v1", "v2", "v3", "v4")
		c.Occurrence, c.Payload.VendorID = &o, o.Name
	}
	d.decided(c, d.claims(c)[0])
}

// event returns a random event, preferably a late one, or nil.
func (d *driver) event() *modelEvent {
	if len(d.model.events) == 0 {
		return nil
	}
	return d.model.events[max(d.IntN(len(d.model.events)), d.IntN(len(d.model.events)))]
}

// newClaim returns a random claim with one of a few keys.
func (d *driver) newClaim() dedup.Claim {
	c := delivery(fmt.Sprint("k", d.IntN(6)))
	c.Key.Principal = pick(d.Rand, "shop", "shop", "other")
	c.Key.Endpoint = pick(d.Rand, "orders", "orders", "orders", "shop?t=1")
	c.Payload.Producer = pick(d.Rand, "shop", "shop", "github")
	c.Fingerprint = pick(d.Rand, dedup.Fingerprint{}, fingerprint(1), fingerprint(1), fingerprint(1), fingerprint(2))
	c.Payload.Type = pick(d.Rand, "order.paid", "order.paid", "order.paid", "order.refunded", "ping")
	c.Payload.Endpoint = pick(d.Rand, "orders", "orders", "returns")
	c.Payload.Body = fmt.Appendf(nil, "body %d", len(d.trace))
	c.Window = pick(d.Rand, 30*minute, 2*hour)
	c.DropBody = d.IntN(4) == 0
	c.Note = pick(d.Rand, "", "no handler")
	c.OnlyKnown = d.IntN(12) == 0
	c.Tasks = nil
	for _, h := range []string{"ship", "bill"}[:pick(d.Rand, 0, 1, 1, 2, 2)] {
		c.Tasks = append(c.Tasks, dedup.NewTask{Handler: h, Lane: pick(d.Rand, "", "l", "m", dedup.LaneYields),
			Version: pick(d.Rand, "", "", "1", "2", "10"), Unfenced: d.IntN(6) == 0})
	}
	for range pick(d.Rand, 0, 0, 1, 2) {
		alias := nonce(fmt.Sprint("n", d.IntN(5)))
		if !slices.Contains(c.Aliases, alias) {
			c.Aliases = append(c.Aliases, alias)
		}
	}
	d.occurs(&c)
	d.remembers(&c)
	switch d.IntN(6) {
	case 0, 1:
		c.Hold, c.Lease, c.Response = true, pick(d.Rand, 10*time.Second, 5*minute), dedup.Response{}
		c.Tasks = []dedup.NewTask{{Handler: "quote"}}
	case 2:
		e := d.event()
		if e != nil && c.Occurrence == nil && !d.model.forgettable(e) {
			c.Series, c.Remember = dedup.Key{}, nil
			c.Key.Space = dedup.SpaceQuarantine + fmt.Sprint(d.IntN(3))
			c.Quarantine = &dedup.Quarantine{Reason: "conflict", Of: e.Event, Max: d.IntN(4)}
		}
	}
	if c.Quarantine == nil && c.Series == (dedup.Key{}) && d.IntN(5) == 0 {
		d.renamed(&c)
	}
	return c
}

// occurs makes some claims those of content.
func (d *driver) occurs(c *dedup.Claim) {
	if d.IntN(4) == 0 {
		c.Key.ID = pick(d.Rand, "d0", "d1")
		c.Payload.VendorID = pick(d.Rand, "", "v0", "v1", "v2", "v3", "v4")
		c.Occurrence = &dedup.Occurrence{
			Name: c.Payload.VendorID, Max: pick(d.Rand, 0, 2, 3, 3), Within: pick(d.Rand, 0, minute),
		}
	}
	if d.IntN(8) == 0 {
		c.Key.ID = pick(d.Rand, "p0", "p1", "p2", "p3")
		name := pick(d.Rand, "", c.Key.ID, "v0", "v1")
		c.Occurrence = &dedup.Occurrence{Name: name, Max: pick(d.Rand, 0, 2), Spare: d.IntN(4) == 0}
		c.Occurrence.Slots = []dedup.Key{named(dedup.SpaceSlot, "0"), named(dedup.SpaceSlot, "1")}
	}
}

// remembers gives some claims a series, or makes them leave a trace.
func (d *driver) remembers(c *dedup.Claim) {
	if d.IntN(10) == 0 {
		c.Key.ID = fmt.Sprint("h", d.IntN(1000)) // it happened when the store may have remembered it
		edge := time.Duration(d.Int64N(int64(4*day))) - 2*day
		c.Remember, c.Window = &dedup.Remember{Time: d.model.now.Add(edge - 90*day)}, pick(d.Rand, hour, 90*day)
	}
	if series := map[string]string{"k0": "s", "k1": "s", "k2": "t"}[c.Key.ID]; series != "" {
		c.Series = named(dedup.SpaceSeries, series)
	}
	if most, ok := map[string]int{"k1": 0, "k3": 1, "k4": 3, "d0": 0, "d1": 2, "p0": 0, "p1": 2}[c.Key.ID]; ok {
		now := d.model.now
		at := pick(d.Rand, time.Time{}, now, d.model.began, now.Add(-40*day), now.Add(-90*day), now.Add(-80*minute))
		c.Remember = &dedup.Remember{Most: most, Time: at}
		if c.Key.ID == "k3" {
			c.Remember.Also = []dedup.Traced{{Key: key(fmt.Sprint("x", d.IntN(5))), Most: d.IntN(3)}}
		}
	}
}

// renamed gives a claim names that its event may have had.
func (d *driver) renamed(c *dedup.Claim) {
	c.Former = &dedup.Former{Fingerprint: c.Fingerprint}
	name := func() dedup.Key { return key(pick(d.Rand, "k3", "k4", "k5", "d0", "d1", "p2", "d0;2")) }
	for range d.IntN(3) {
		k := name()
		if d.IntN(2) == 0 {
			k.Space, k.ID = dedup.SpaceSent, pick(d.Rand, "v0", "v1", "v2", "v3")
		}
		c.Former.Names = append(c.Former.Names, k)
	}
	if d.IntN(2) == 0 {
		c.Former.Delivery = comparing{scope: d.IntN(2) == 0, content: d.IntN(2) == 0, signature: d.IntN(2) == 0}
	}
	if c.Occurrence == nil && c.Former.Delivery == nil {
		return
	}
	for range d.IntN(3) {
		c.Former.Contents = append(c.Former.Contents, name())
	}
}

// comparing is a delivery of which a record has the scope, the content or the signature.
type comparing struct{ scope, content, signature bool }

func (c comparing) SameScope(dedup.Record) bool     { return c.scope }
func (c comparing) SameContent(dedup.Record) bool   { return c.content }
func (c comparing) SameSignature(dedup.Record) bool { return c.signature }

func (d *driver) claim() {
	if e := d.event(); e != nil && d.IntN(4) == 0 {
		d.claimAgain(e)
	}
	cs := make([]dedup.Claim, 1+max(0, d.IntN(6)-3))
	for i := range cs {
		cs[i] = d.newClaim()
	}
	plain := func(c dedup.Claim) bool { return c.Quarantine == nil }
	if quarantines := slices.DeleteFunc(slices.Clone(cs), plain); len(quarantines) > 0 {
		cs = quarantines // a claim beside them may supersede the original, which may then be forgotten
	}
	got := d.claims(cs...)
	for i, c := range cs {
		d.decided(c, got[i])
	}
}

// decided compares one decision. The model is in the state right after that decision, before
// the later claims of the call.
func (d *driver) decided(c dedup.Claim, got dedup.Decision) {
	m := &d.model
	made := c
	t := m.resolve(c)
	c = t.claim
	want, e := m.verdict(&t)
	d.note("claim %s/%s%s fp=%x hold=%t only=%t quarantine=%+v aliases=%d tasks=%d: %v %s",
		c.Key.Principal, c.Key.Space, c.Key.ID, c.Fingerprint[15], c.Hold, c.OnlyKnown,
		c.Quarantine, len(c.Aliases), len(c.Tasks), got.Verdict, got.Record.Event)
	if got.Verdict != want || got.Alias != t.alias {
		d.Fatalf("claim of %+v: %v by %+v, want %v by %+v", c, got.Verdict, got.Alias, want, t.alias)
	}
	if want == dedup.New {
		if c.OnlyKnown {
			if got.Record.Event != "" || got.Lease.Token != 0 {
				d.Fatalf("OnlyKnown gave %s, %+v", text(got.Record), got.Lease)
			}
			return
		}
		d.accepted(e, c, got)
		e = m.accept(e, t, got.Record, got.Lease)
		e.made = made
		if t.first != nil {
			t.first.Occurrences = t.number
		}
	} else if got.Lease.Token != 0 {
		d.Fatalf("%v with a lease: %+v", want, got.Lease)
	}
	if e == nil {
		e = &modelEvent{}
	}
	shown := bare(e.Record)
	if want == dedup.Known {
		shown = undescribed(e.Record)
	}
	d.agree("decision "+want.String(), got.Record, shown)
}

// accepted checks the ids, sequences and tokens that the model takes from the store.
func (d *driver) accepted(continued *modelEvent, c dedup.Claim, got dedup.Decision) {
	r, m := got.Record, &d.model
	l := got.Lease
	last := uint64(0)
	if continued != nil {
		last = continued.Tasks[0].Token
	}
	if c.Hold != (l.Token != 0) || c.Hold && (!m.fresh(l.Token, last) || l.Event != r.Event || l.Task != 0) {
		d.Fatalf("lease %+v of a claim with hold %t, after token %d", l, c.Hold, last)
	}
	if continued != nil {
		return // the records are compared later
	}
	least, most := 0, 0 // the largest generation of the key that the store certainly, or perhaps, keeps
	for _, e := range m.events {
		if e.Event == r.Event || e.Seq >= r.Seq {
			d.Fatalf("event %q, seq %d after %q, %d", r.Event, r.Seq, e.Event, e.Seq)
		}
		if e.Key == c.Key && !e.purged {
			most = max(most, e.Generation)
			if !m.forgettable(e) {
				least = max(least, e.Generation)
			}
		}
	}
	if n := r.Generation - 1; n < least || n > most {
		d.Fatalf("generation %d after one of %d to %d", r.Generation, least, most)
	}
}

func (d *driver) take() {
	m := &d.model
	w := dedup.Want{
		Tasks: 1 + d.IntN(3), Bytes: int64(pick(d.Rand, 1, 12, 1000)), Lease: pick(d.Rand, 10*time.Second, 5*minute),
	}
	if d.IntN(3) == 0 {
		w.Handlers = pick(d.Rand, []string{}, []string{"ship"}, []string{"ship", "bill"}, []string{"late"})
		if w.OrphanAfter = pick(d.Rand, minute, 2*hour, 90*day); len(d.stores) > 1 {
			w.OrphanAfter = 400 * day // what one store named, the other reads later
		}
		w.Most = map[string]int{}
		for _, handler := range w.Handlers {
			if d.IntN(3) == 0 {
				w.Most[handler] = d.IntN(2)
			}
		}
	}
	may, must := false, false
	for _, e := range m.events {
		for i := range e.Tasks {
			its, surely := m.due(e, i, w)
			may, must = may || its, must || surely
		}
	}
	wait := 2 * time.Millisecond
	if must {
		wait = patience
	}
	ctx, cancel := context.WithTimeout(d.ctx, wait)
	defer cancel()
	ws, err := d.store.Take(ctx, w)
	blocked := !must && errors.Is(err, context.DeadlineExceeded)
	if len(ws) > w.Tasks || !may && len(ws) > 0 || err != nil && !blocked {
		d.Fatalf("Take of %+v, due: perhaps %t, certainly %t: %v, %v", w, may, must, ws, err)
	}
	d.note("take of up to %d for %q: %d", w.Tasks, w.Handlers, len(ws))
	for _, handler := range w.Handlers {
		m.named[handler] = m.named[handler] || err == nil // else the store perhaps never saw it
	}
	left := w.Bytes
	w.Most = maps.Clone(w.Most) // the store may keep that of the call
	for i, work := range ws {
		if left -= int64(len(work.Record.Payload.Body)); i > 0 && left < 0 {
			d.Fatalf("the payloads of %d tasks are too large", len(ws))
		}
		d.taken(work, w, ws[i+1:])
		if _, limited := w.Most[work.Task().Handler]; limited {
			w.Most[work.Task().Handler]--
		}
	}
}

// taken checks one task of a Take, which returned others after it.
func (d *driver) taken(w dedup.Work, want dedup.Want, after []dedup.Work) {
	m, l := &d.model, w.Lease
	e := m.byEvent(l.Event)
	if e == nil || l.Task < 0 || l.Task >= len(e.Tasks) || !m.fresh(l.Token, e.Tasks[l.Task].Token) {
		d.Fatalf("Take returned %+v of %+v", l, e)
	}
	d.note("  gave %s/%d under %d", l.Event, l.Task, l.Token)
	if may, _ := m.due(e, l.Task, want); !may {
		d.Fatalf("Take returned task %d of %s, which the model says is not due", l.Task, modelText(e.Record))
	}
	ordered := func(t dedup.Task) bool { return t.State == dedup.Pending && t.Lane == "" }
	due := func(e *modelEvent, i int) bool { _, must := m.due(e, i, want); return must }
	for _, other := range m.events {
		for i, t := range other.Tasks {
			given := e.Tasks[l.Task]
			if due(other, i) && ordered(t) && ordered(given) && t.Due.Before(given.Due) {
				d.Fatalf("Take returned task %d of %s before task %d of %s, which was due earlier",
					l.Task, modelText(e.Record), i, modelText(other.Record))
			}
		}
	}
	m.takers[l.Token] = m.store
	m.start(e, l.Task, want.Lease, l)
	w.Record.Tasks = slices.Clone(w.Record.Tasks)
	for _, o := range after { // the record may show them as started or not
		if o.Lease.Event == l.Event {
			w.Record.Tasks[o.Lease.Task] = e.Tasks[o.Lease.Task]
		}
	}
	d.agree("work", w.Record, e.Record)
	if !l.Until.Equal(m.now.Add(want.Lease)) {
		d.Fatalf("lease %+v, now is %v", l, m.now)
	}
}

// lease returns a random lease, preferably a late one, with its event and task, which are nil
// if it is lost. ok is false if the store may have forgotten the event.
func (d *driver) lease() (l dedup.Lease, e *modelEvent, t *dedup.Task, ok bool) {
	m := &d.model
	if len(m.leases) == 0 {
		return l, nil, nil, false
	}
	back := min(d.IntN(len(m.leases)), d.IntN(len(m.leases)), d.IntN(8))
	l = m.leases[len(m.leases)-1-back]
	e, t = m.holder(l)
	return l, e, t, e == nil || !m.forgettable(e)
}

// finish finishes up to three leases, in one call if the store can.
func (d *driver) finish() {
	var all []dedup.LeaseResult
	for range 1 + d.IntN(3) {
		if l, _, _, ok := d.lease(); ok {
			r := pick(d.Rand, done(), done(), answer(200+d.IntN(9), "answer"), dead(), dead(), retry(0),
				retry(20*minute), release(), dedup.Result{Kind: dedup.ResultRetry, After: minute, Postponed: true})
			if d.IntN(3) == 0 { // counts with an outcome only
				r.Response = dedup.Response{Status: 300 + d.IntN(9), Body: []byte("of any result")}
			}
			all = append(all, dedup.LeaseResult{Lease: l, Result: r})
		}
	}
	var errs []error
	if d.IntN(2) == 0 {
		errs = d.store.FinishMany(d.ctx, all...)
	} else {
		errs = FinishEach(d.ctx, d.store, all)
	}
	for i, err := range errs {
		d.finished(all[i], err)
	}
	for _, r := range all {
		d.compareEvent(d.model.byEvent(r.Lease.Event))
	}
}

// finished checks the error of a result.
func (d *driver) finished(result dedup.LeaseResult, err error) {
	l, r := result.Lease, result.Result
	d.note("finish %s/%d under %d with kind %d: %v", l.Event, l.Task, l.Token, r.Kind, err)
	e, t := d.model.holder(l)
	if e == nil {
		d.fails(err, dedup.ErrLeaseLost, "Finish with a stale lease")
		return
	}
	d.must(err, "Finish")
	d.model.finish(e, t, r)
}

func (d *driver) extend() {
	l, e, t, ok := d.lease()
	if !ok {
		return
	}
	by := pick(d.Rand, time.Second, 10*minute)
	err := d.store.Extend(d.ctx, l, by)
	d.note("extend %s/%d under %d by %v: %v", l.Event, l.Task, l.Token, by, err)
	if e == nil {
		d.fails(err, dedup.ErrLeaseLost, "Extend of a stale lease")
		return
	}
	d.must(err, "Extend")
	if !d.model.now.Before(t.Until) {
		d.model.late[t.Token] = true
	}
	t.Until = d.model.now.Add(by)
	d.compareEvent(e)
}

// order has an operator reopen an event, rerun it or run it now.
func (d *driver) order() {
	e, m := d.event(), &d.model
	if e == nil || m.forgettable(e) {
		return
	}
	var what string
	var got dedup.Record
	var err, want error
	switch d.IntN(3) {
	case 0:
		var tasks []dedup.NewTask
		if d.IntN(2) == 0 {
			tasks = append(tasks, dedup.NewTask{Handler: pick(d.Rand, "ship", "late"), Lane: pick(d.Rand, "", "l")})
		}
		got, err = d.store.Reopen(d.ctx, e.Event, tasks...)
		what, want = fmt.Sprintf("reopen %s with %v", e.Event, tasks), m.reopen(e, tasks)
	case 1:
		handlers := pick(d.Rand, nil, []string{"ship"}, []string{"bill"}, []string{"ship", "bill"})
		force := d.IntN(4) == 0
		got, err = d.store.Rerun(d.ctx, e.Event, dedup.Rerun{Handlers: handlers, Force: force})
		what, want = fmt.Sprintf("rerun %s for %v", e.Event, handlers), m.rerun(e, handlers, force)
	default:
		got, err = d.store.RunNow(d.ctx, e.Event)
		what, want = fmt.Sprintf("run %s now", e.Event), m.runNow(e)
	}
	if e.purged { // which the change of the model then does not matter for
		want = dedup.ErrNotFound
	}
	d.note("%s: %v", what, err)
	if d.fails(err, want, what); err == nil {
		d.agree(what, bare(got), bare(e.Record))
		d.compareEvent(e)
	}
}

func (d *driver) purge() {
	e := d.event()
	if e == nil {
		return
	}
	err := d.store.Purge(d.ctx, e.Event)
	d.note("purge %s: %v", e.Event, err)
	switch {
	case e.purged:
		d.fails(err, dedup.ErrNotFound, "Purge of a purged event")
	case d.model.forgettable(e):
		if err != nil && !errors.Is(err, dedup.ErrNotFound) && !errors.Is(err, dedup.ErrOpen) {
			d.Fatalf("Purge of a forgettable event: %v", err)
		}
	case e.open():
		d.fails(err, dedup.ErrOpen, "Purge of open work")
	default:
		d.must(err, "Purge")
		if d.model.byKey(e.Key) == e {
			delete(d.model.traces, e.Key)
		}
	}
	e.purged = e.purged || err == nil
}

func (d *driver) list() {
	m := &d.model
	few := func(of ...string) string { return pick(d.Rand, "", "", "", "", pick(d.Rand, of...)) }
	f := dedup.Filter{
		ID: few("k1", "v1"), Type: few("order.*", "ping", "p*"), Endpoint: few("returns"), Handler: few("bill"),
		Producer: few("github"), Reason: few(dead().Reason, "conflict"), Since: pick(d.Rand, 0, 0, hour),
		Quarantined: d.IntN(6) == 0, Body: d.IntN(2) == 0, Limit: pick(d.Rand, 0, 0, 1, 3),
		Text: few("K1", "V1", "Order.r", "till 7", "body 3"),
	}
	if d.IntN(2) == 0 {
		f.States = pick(d.Rand, []dedup.State{dedup.Dead}, []dedup.State{dedup.Running},
			[]dedup.State{dedup.Pending, dedup.Done})
	}
	if e := d.event(); e != nil && d.IntN(3) == 0 {
		f.Before = e.Seq
	}
	if e := d.event(); e != nil && d.IntN(4) == 0 {
		f.Until = e.Accepted.Add(pick(d.Rand, 0, time.Nanosecond))
	}
	if e := d.event(); e != nil && d.IntN(3) == 0 {
		number, _, _ := strings.Cut(e.Event, "-")
		f = dedup.Filter{Ref: pick(d.Rand, e.Event[:12], e.Event[1:7], e.Event, number, number+"-", e.Key.ID, "no")}
	} else if e != nil && d.IntN(6) == 0 {
		f = dedup.Filter{Event: e.Event}
	}
	got := d.rig.list(f)
	d.note("list %+v: %d", f, len(got))
	whole := f.Limit == 0 || len(got) < f.Limit
	if f.Limit > 0 && len(got) > f.Limit {
		d.Fatalf("List(%+v) returns %d", f, len(got))
	}
	for _, e := range slices.Backward(m.events) {
		switch record := e.Record; {
		case e.purged || !m.matches(f, e):
		case len(got) > 0 && got[0].Event == e.Event:
			if !f.Body {
				record = bare(record)
			}
			d.agree("listed", got[0], record)
			got = got[1:]
		case !m.forgettable(e) && (whole || len(got) > 0):
			d.Fatalf("List(%+v) omits %s", f, modelText(record))
		}
	}
	if len(got) != 0 {
		d.Fatalf("List(%+v) returns %s, which the model does not know or does not select", f, modelText(got[0]))
	}
}

// restart releases all leases, because stores treat running work differently, and reopens the
// store.
func (d *driver) restart() {
	for _, l := range d.model.leases {
		if e, t := d.model.holder(l); e != nil && !d.model.forgettable(e) {
			d.rig.finish(l, release())
			d.model.finish(e, t, release())
		}
	}
	d.reopen()
	d.stores[0], d.model.opened, d.model.named = d.store, d.model.now, map[string]bool{}
	d.note("opened again")
	d.compare()
}

// agree requires that a record of the store is that of the model.
func (d *driver) agree(what string, got, want dedup.Record) {
	d.Helper()
	equal(d.rig, what, modelText(got), modelText(want))
}

func (d *driver) compareEvent(e *modelEvent) {
	if e == nil {
		return
	}
	got, err := d.store.Get(d.ctx, e.Event)
	if errors.Is(err, dedup.ErrNotFound) && (e.purged || d.model.forgettable(e)) {
		return
	}
	if err != nil || e.purged {
		d.Fatalf("Get of %s (purged %t): %v", modelText(e.Record), e.purged, err)
	}
	d.agree("record", got, e.Record)
}

func (d *driver) compare() {
	for _, e := range d.model.events {
		d.compareEvent(e)
	}
	fences := map[string]string{}
	for n, err := range d.store.Notes(d.ctx, dedup.SpaceFence) {
		d.must(err, "Notes")
		f, _ := dedup.FenceIn(n)
		fences[fmt.Sprint([4]string{f.Principal, f.Endpoint, f.Handler, f.Lane})] = f.Version + " " + f.Event
	}
	if want := d.model.allFences(); !maps.Equal(fences, want) {
		d.Fatalf("fences %v, want %v", fences, want)
	}
	least, most := d.model.counts()
	between := func(n, least, most int64) bool { return least <= n && n <= most }
	d.stats(fmt.Sprintf("counts of the model %+v to %+v", least, most), func(s dedup.Stats) bool {
		return s.Pending >= least.Pending && between(s.Running, least.Running, most.Running) &&
			between(s.Pending+s.Running, least.Pending+least.Running, most.Pending+most.Running) &&
			s.Dead == least.Dead && between(s.Backlog, least.Backlog, most.Backlog) &&
			s.Oldest.Equal(least.Oldest) && maps.Equal(s.Quarantined, least.Quarantined)
	})
}
