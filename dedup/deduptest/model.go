package deduptest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// model is a second, deliberately simple store: one list that is searched from end to end, and
// the rules of the contract without the functions of package dedup that stores share. It takes
// ids, sequences and tokens from the store under test.
type model struct {
	now    time.Time
	events []*modelEvent             // in the order of acceptance
	owners map[dedup.Key]*modelEvent // the last to claim an alias
	leases []dedup.Lease             // all leases ever given
	began  time.Time                 // when the store was new
	traces map[dedup.Key]modelTrace  // of every remembered key
	late   map[uint64]bool           // tokens of leases that were extended after their end
	opened time.Time                 // when the store was opened
	named  map[string]bool           // handlers of a Want since then
	takers map[uint64]int            // tokens of tasks, and which of two stores took them
	fences map[[4]string]modelFence  // by principal, endpoint, handler and lane
	store  int                       // which of two the next call is made of
}

func newModel(now time.Time) model {
	return model{
		now: now, began: now, opened: now, owners: map[dedup.Key]*modelEvent{}, traces: map[dedup.Key]modelTrace{},
		late: map[uint64]bool{}, named: map[string]bool{}, takers: map[uint64]int{}, fences: map[[4]string]modelFence{},
	}
}

// modelTrace is the trace of a key.
type modelTrace struct {
	last  time.Time // the last acceptance
	count int
}

// modelFence is the fence of a lane.
type modelFence struct {
	version int
	event   string
	moved   time.Time
}

type modelEvent struct {
	dedup.Record
	made   dedup.Claim
	purged bool
}

// newest returns the event accepted last of those that are wanted, unless it was purged.
func (m *model) newest(wanted func(e *modelEvent) bool) *modelEvent {
	for _, e := range slices.Backward(m.events) {
		if wanted(e) && e.purged {
			return nil
		} else if wanted(e) {
			return e
		}
	}
	return nil
}

// byKey returns the event that decides for a key.
func (m *model) byKey(k dedup.Key) *modelEvent {
	return m.newest(func(e *modelEvent) bool { return e.Key == k })
}

func (m *model) byEvent(event string) *modelEvent {
	return m.newest(func(e *modelEvent) bool { return e.Event == event })
}

// byAlias returns the event that got an alias last, unless it was purged.
func (m *model) byAlias(k dedup.Key) *modelEvent {
	if owner := m.owners[k]; owner != nil && !owner.purged {
		return owner
	}
	return nil
}

func (e *modelEvent) count(s dedup.State) int {
	n := 0
	for _, t := range e.Tasks {
		if t.State == s {
			n++
		}
	}
	return n
}

// dropped reports whether the body is not kept.
func (e *modelEvent) dropped() bool {
	return e.DropBody && len(e.Tasks) > 0 && e.count(dedup.Done) == len(e.Tasks)
}

func (e *modelEvent) open() bool { return e.count(dedup.Pending)+e.count(dedup.Running) > 0 }

// summary is the state of the event as a whole.
func (e *modelEvent) summary() dedup.State {
	if e.QuarantineReason != "" && len(e.Tasks) == 0 {
		return dedup.Dead
	}
	for _, s := range []dedup.State{dedup.Dead, dedup.Running, dedup.Pending} {
		if e.count(s) > 0 {
			return s
		}
	}
	return dedup.Done
}

// expired reports whether the window ended.
func (m *model) expired(e *modelEvent) bool {
	if e.Newest {
		return false
	}
	if e.Hold && e.count(dedup.Running) == 1 {
		return !m.now.Before(e.Tasks[0].Until.Add(e.Window))
	}
	return !e.Expires.IsZero() && !m.now.Before(e.Expires)
}

// forgettable reports whether the store may have forgotten the event.
func (m *model) forgettable(e *modelEvent) bool { return m.expired(e) && e.summary() != dedup.Dead }

// free reports whether a held claim waits for the next delivery.
func (m *model) free(e *modelEvent) bool {
	return e.Hold && (e.count(dedup.Pending) == 1 || e.count(dedup.Running) == 1 && !m.now.Before(e.Tasks[0].Until))
}

// verdict decides a claim and returns the event that the decision is about.
func (m *model) verdict(turn *modelTurn) (dedup.Verdict, *modelEvent) {
	if turn.verdict != 0 {
		return turn.verdict, turn.event
	}
	c := turn.claim
	e := m.byKey(c.Key)
	if m.live(e) {
		none := dedup.Fingerprint{}
		if e.Fingerprint != none && c.Fingerprint != none && e.Fingerprint != c.Fingerprint {
			return dedup.Conflict, e
		}
		resumes := m.free(e) && c.Hold
		if !resumes && c.Series != (dedup.Key{}) && !e.Newest {
			return dedup.Superseded, e
		}
		if !resumes {
			return dedup.Known, e
		}
	}
	for _, alias := range c.Aliases {
		other := m.byAlias(alias)
		if m.live(other) && other.Key != c.Key && alias.Space != dedup.SpaceSent {
			turn.alias = alias
			return dedup.Aliased, other
		}
	}
	if v := m.recall(turn, e); v != dedup.New && e != nil && !m.forgettable(e) {
		return v, e
	} else if v != dedup.New {
		return v, nil
	}
	if c.Quarantine != nil && !c.OnlyKnown {
		if original := m.byEvent(c.Quarantine.Of); original != nil {
			original.QuarantineCount++
			if c.Quarantine.Max > 0 && original.QuarantineCount > c.Quarantine.Max {
				return dedup.Known, original
			}
		}
	}
	if !m.live(e) {
		e = nil
	}
	return dedup.New, e
}

// modelTurn is a claim of which it is resolved what it is about.
type modelTurn struct {
	claim   dedup.Claim
	verdict dedup.Verdict // if it is refused already, with the event
	event   *modelEvent
	alias   dedup.Key
	content dedup.Key   // the key that leaves a trace
	first   *modelEvent // counts the occurrence, if the claim is accepted
	number  int
	slots   []dedup.Key // that the claim may take
	most    int         // how many events of all slots are accepted while they are remembered
}

// traced are the keys that the claim leaves a trace of.
func (t *modelTurn) traced() []dedup.Traced {
	if t.claim.Remember == nil {
		return nil
	}
	all := append([]dedup.Traced{{Key: t.content, Most: t.claim.Remember.Most}}, t.claim.Remember.Also...)
	if len(t.slots) > 0 {
		all = append(all, dedup.Traced{Key: t.slots[0], Most: t.most})
	}
	return all
}

func (m *model) live(e *modelEvent) bool { return e != nil && !m.expired(e) }

// formerly reports whether the event of a former name is that of the claim.
func (m *model) formerly(c dedup.Claim, e *modelEvent, name dedup.Key) bool {
	f := c.Former
	switch {
	case !m.live(e) || e.Key.Space != "":
		return false
	case f.Delivery != nil && e.Key.Endpoint != c.Key.Endpoint && !f.Delivery.SameScope(e.Record):
		return false
	case e.Fingerprint != dedup.Fingerprint{}:
		return f.Fingerprint == e.Fingerprint
	}
	return name.Space == "" && e.Payload.VendorID == "" || f.Delivery != nil && f.Delivery.SameContent(e.Record)
}

// former returns the event of the first former name that leads to one.
func (m *model) former(c dedup.Claim, names []dedup.Key) *modelEvent {
	for _, name := range names {
		e := m.byAlias(name)
		if name.Space == "" {
			e = m.byKey(name)
		}
		if m.formerly(c, e, name) {
			return e
		}
	}
	return nil
}

// resolve determines which event a claim is about.
func (m *model) resolve(c dedup.Claim) modelTurn {
	first, f := m.byKey(c.Key), c.Former
	if f == nil {
		f = &dedup.Former{}
	}
	t := modelTurn{claim: c}
	switch {
	case m.live(first):
	case c.Occurrence == nil:
		m.rename(&t, f)
	default:
		if other := m.former(c, f.Contents); other != nil {
			first, t.claim.Key = other, other.Key
		}
	}
	t.content = t.claim.Key
	if c.Occurrence != nil {
		m.occurs(&t, first, f.Names)
	}
	return t
}

// rename decides a claim without a live record by its former names.
func (m *model) rename(t *modelTurn, f *dedup.Former) {
	if e := m.former(t.claim, f.Names); e != nil {
		t.claim.Key = e.Key
		return
	}
	for _, k := range f.Contents {
		if e := m.byKey(k); m.formerly(t.claim, e, k) && f.Delivery.SameSignature(e.Record) {
			t.verdict, t.event, t.alias = dedup.Aliased, e, k
			return
		}
	}
}

// occurs determines which occurrence of its content a claim is.
func (m *model) occurs(t *modelTurn, first *modelEvent, formerNames []dedup.Key) {
	c, o := t.claim, t.claim.Occurrence
	t.claim.Occurrence = nil
	var named *modelEvent
	if o.Name != "" {
		name, also := c.Key, c.Key
		name.Space, name.ID = dedup.SpaceOccurrence+c.Key.ID, o.Name
		also.Space, also.ID = dedup.SpaceSent, o.Name
		t.claim.Aliases = append(slices.Clone(c.Aliases), name, also)
		if named = m.byAlias(name); m.live(first) && slices.Contains(first.Aliases, name) {
			named = first
		}
	}
	if !m.live(named) && (o.Name != "" || !m.live(first)) {
		named = m.former(c, formerNames)
		if named != nil && named.Payload.VendorID != "" && named.Payload.VendorID != o.Name {
			named = nil
		}
	}
	if m.live(named) {
		if t.claim.Key = named.Key; !strings.HasPrefix(named.Key.ID, c.Key.ID+";") {
			t.content = named.Key
		}
		return
	}
	if m.live(first) {
		if o.Name == "" {
			return
		}
		if m.number(t, first, o); t.verdict != 0 {
			return
		}
	}
	m.slot(t, o)
}

// slot gives the claim a free slot.
func (m *model) slot(t *modelTurn, o *dedup.Occurrence) {
	free := func(slot dedup.Key) bool { return !m.live(m.byAlias(slot)) }
	t.slots = o.Slots
	if i := slices.IndexFunc(o.Slots, free); i >= 0 {
		t.claim.Aliases = append(slices.Clone(t.claim.Aliases), o.Slots[i])
	} else if len(o.Slots) > 0 && !o.Spare {
		t.verdict, t.event = dedup.Repeated, m.byAlias(o.Slots[0])
	}
	if t.most = len(o.Slots); o.Spare {
		t.most = 255
	}
}

// number makes the claim another occurrence of the content, or repeated.
func (m *model) number(t *modelTurn, first *modelEvent, o *dedup.Occurrence) {
	c := t.claim
	if first.Payload.Type == c.Payload.Type && (o.Within <= 0 || m.now.Before(first.Accepted.Add(o.Within))) {
		for n := first.Occurrences + 1; n <= o.Max; n++ {
			if n >= 2 && !m.live(m.byKey(c.Key.Occurrence(n))) {
				t.claim.Key, t.first, t.number = c.Key.Occurrence(n), first, n
				return
			}
		}
	}
	t.verdict, t.event = dedup.Repeated, first
}

// days counts the midnights in UTC since 1970.
func days(t time.Time) int { return int(t.Unix() / (24 * 60 * 60)) }

// accepted counts the events of a key that are remembered. Those of the claim's own key are without
// the last event e if that was never accepted.
func (m *model) accepted(k dedup.Key, c dedup.Claim, e *modelEvent) int {
	t := m.traces[k]
	if t.count == 0 || m.forgets() && days(t.last) < days(m.now)-90 {
		return 0
	}
	if e != nil && e.Hold && e.open() && k == c.Key {
		return t.count - 1
	}
	return t.count
}

// forgets reports whether the first days of the store are beyond its retention.
func (m *model) forgets() bool { return days(m.now)-90 > days(m.began) }

// recall decides a claim that is otherwise New. e is the last event of its key, nil if there is
// none or it was purged.
func (m *model) recall(t *modelTurn, e *modelEvent) dedup.Verdict {
	c := t.claim
	if c.Remember == nil || m.live(e) || t.number > 0 {
		return dedup.New
	}
	for _, of := range t.traced() {
		if m.accepted(of.Key, c, e) >= max(1, of.Most) {
			return dedup.Seen
		}
	}
	at := c.Remember.Time
	if m.forgets() && !at.IsZero() && days(at) <= days(m.now)-90 && at.Before(m.now.Add(-c.Window)) &&
		m.accepted(t.content, c, e) == 0 {
		return dedup.TooOld
	}
	return dedup.New
}

// accept adds or continues the event of a new claim. got is the record of the store.
func (m *model) accept(e *modelEvent, turn modelTurn, got dedup.Record, lease dedup.Lease) *modelEvent {
	c := turn.claim
	if e == nil {
		last := m.byKey(c.Key)
		for _, of := range turn.traced() {
			m.traces[of.Key] = modelTrace{last: m.now, count: m.accepted(of.Key, c, last) + 1}
		}
		e = m.make(c, got)
	}
	names := slices.Clone(c.Aliases)
	if e.Newest = c.Series != (dedup.Key{}); e.Newest {
		names = append(names, c.Series)
		if before := m.byAlias(c.Series); before != nil && before != e {
			before.Newest = false
		}
	}
	for _, alias := range names {
		if !slices.Contains(e.Aliases, alias) {
			e.Aliases = append(e.Aliases, alias)
		}
		m.owners[alias] = e
	}
	if c.Hold {
		m.start(e, 0, c.Lease, lease)
	}
	m.settle(e)
	return e
}

// make adds the event of a claim. got is the record of the store.
func (m *model) make(c dedup.Claim, got dedup.Record) *modelEvent {
	e := &modelEvent{Record: dedup.Record{
		Event: got.Event, Seq: got.Seq, Generation: got.Generation, Accepted: m.now,
		Key: c.Key, Fingerprint: c.Fingerprint, Payload: c.Payload, Response: c.Response, Window: c.Window,
		Hold: c.Hold, DropBody: c.DropBody, Note: c.Note,
	}}
	m.events = append(m.events, e)
	for _, t := range c.Tasks {
		e.Tasks = append(e.Tasks, m.pending(t))
	}
	if c.Quarantine != nil {
		e.QuarantineReason, e.Original = c.Quarantine.Reason, c.Quarantine.Of
		for i := range e.Tasks {
			e.Tasks[i].State, e.Tasks[i].Reason = dedup.Dead, c.Quarantine.Reason
		}
	}
	return e
}

// pending returns a task that is due, perhaps by an order after attempts.
func (m *model) pending(n dedup.NewTask, history ...dedup.Attempt) dedup.Task {
	history = slices.Clone(history)
	if n := len(history); n > 0 {
		history[n-1].Reopened = m.now
	}
	return dedup.Task{
		Handler: n.Handler, Lane: n.Lane, Version: n.Version, Unfenced: n.Unfenced,
		State: dedup.Pending, Due: m.now, History: history,
	}
}

// allFences returns version and event of each fence.
func (m *model) allFences() map[string]string {
	all := map[string]string{}
	for lane, f := range m.fences {
		if m.now.Before(f.moved.Add(90 * 24 * time.Hour)) {
			all[fmt.Sprint(lane)] = fmt.Sprint(f.version, " ", f.event)
		}
	}
	return all
}

// again returns a task that runs again.
func (m *model) again(t dedup.Task) dedup.Task {
	n := dedup.NewTask{Handler: t.Handler, Lane: t.Lane, Version: t.Version, Unfenced: t.Unfenced}
	return m.pending(n, t.History...)
}

// fence moves the fence of a task that is done, or returns true if the task is stale. Versions of
// the model are numbers.
func (m *model) fence(e *modelEvent, t *dedup.Task) (stale bool) {
	version, err := strconv.Atoi(t.Version)
	if err != nil || t.Lane == "" || t.Unfenced {
		return false
	}
	lane := [4]string{e.Key.Principal, e.Payload.Endpoint, t.Handler, strings.TrimPrefix(t.Lane, dedup.LaneYields)}
	f, ok := m.fences[lane]
	if ok = ok && m.now.Before(f.moved.Add(90*24*time.Hour)); ok && version < f.version {
		return true
	}
	if !ok || version > f.version {
		m.fences[lane] = modelFence{version, e.Event, m.now}
	}
	return false
}

// start starts a task under a lease of the store.
func (m *model) start(e *modelEvent, i int, d time.Duration, lease dedup.Lease) {
	t := &e.Tasks[i]
	if t.State == dedup.Running { // its lease ended
		note(t, dedup.Pending, dedup.ReasonInterrupted, "")
		t.Reason = dedup.ReasonInterrupted
	}
	t.State, t.Started, t.Until, t.Token = dedup.Running, m.now, m.now.Add(d), lease.Token
	t.Attempt++
	m.leases = append(m.leases, lease)
	m.settle(e)
}

// fresh reports whether a token may be that of a new lease of a task: it was never used, and is
// larger than those of the task before.
func (m *model) fresh(token uint64, last uint64) bool {
	used := func(l dedup.Lease) bool { return l.Token == token }
	return token > last && !slices.ContainsFunc(m.leases, used)
}

// holder returns the task of a lease if the lease is its newest.
func (m *model) holder(l dedup.Lease) (*modelEvent, *dedup.Task) {
	e := m.byEvent(l.Event)
	if e == nil || l.Task >= len(e.Tasks) {
		return nil, nil
	}
	t := &e.Tasks[l.Task]
	if t.State != dedup.Running || t.Token != l.Token {
		return nil, nil
	}
	return e, t
}

func (m *model) finish(e *modelEvent, t *dedup.Task, r dedup.Result) {
	t.Reason, t.Err, t.Ended = r.Reason, r.Err, m.now
	switch r.Kind {
	case dedup.ResultDone:
		t.State = dedup.Done
		if m.fence(e, t) {
			t.Reason, t.Err = "stale", "a newer event of the lane was handled while this one ran"
		}
	case dedup.ResultDead:
		t.State = dedup.Dead
	case dedup.ResultRetry:
		t.State, t.Due = dedup.Pending, m.now.Add(r.After)
		if r.Postponed {
			t.Postponed++
		}
	case dedup.ResultRelease:
		t.State, t.Due = dedup.Pending, m.now
		if !e.Hold {
			t.Attempt--
		}
	}
	if r.Kind != dedup.ResultDone && (r.Kind != dedup.ResultRelease || e.Hold) {
		note(t, t.State, r.Reason, r.Err)
	}
	if r.Response.Status != 0 && t.State != dedup.Pending {
		e.Response = r.Response
	}
	m.settle(e)
}

// note adds an attempt to the history, which the model keeps whole.
func note(t *dedup.Task, s dedup.State, reason, err string) {
	a := dedup.Attempt{Number: len(t.History) + 1, Started: t.Started, State: s, Reason: reason, Err: err}
	if reason != dedup.ReasonInterrupted { // then it is when the store noticed
		a.Ended = t.Ended
	}
	t.History = append(slices.Clone(t.History), a)
}

// modelHistory returns what stores keep of a history.
func modelHistory(all []dedup.Attempt) (out []dedup.Attempt) {
	for i, a := range all {
		if i < dedup.HistoryFirst || i >= len(all)-dedup.HistoryLast {
			if a.Reason == dedup.ReasonInterrupted {
				a.Ended, a.Err = time.Time{}, ""
			}
			out = append(out, a)
		}
	}
	return out
}

func (m *model) settle(e *modelEvent) {
	waits := e.Hold && e.count(dedup.Pending) == 1
	switch {
	case e.open() && !waits:
		e.Finished, e.Expires = time.Time{}, time.Time{}
	case e.Finished.IsZero():
		e.Finished, e.Expires = m.now, m.now.Add(e.Window)
	}
	if e.dropped() {
		e.Payload.Body = nil
	}
}

// reopen returns the error of Reopen, or changes the event.
func (m *model) reopen(e *modelEvent, tasks []dedup.NewTask) error {
	if e.Hold && e.open() {
		return dedup.ErrNotDead
	}
	var fresh []dedup.Task
	for _, n := range tasks {
		known := func(t dedup.Task) bool { return t.Handler == n.Handler }
		if !slices.ContainsFunc(e.Tasks, known) && !slices.ContainsFunc(fresh, known) {
			fresh = append(fresh, m.pending(n))
		}
	}
	if len(fresh) == 0 && e.count(dedup.Dead) == 0 {
		return dedup.ErrNotDead
	}
	if e.dropped() {
		return dedup.ErrNoPayload
	}
	for i, t := range e.Tasks {
		if t.State == dedup.Dead {
			e.Tasks[i] = m.again(t)
		}
	}
	e.Tasks = append(e.Tasks, fresh...)
	e.Hold = false
	m.settle(e)
	return nil
}

// rerun returns the error of Rerun, or changes the event.
func (m *model) rerun(e *modelEvent, handlers []string, force bool) error {
	var chosen []int
	for i, t := range e.Tasks {
		if len(handlers) == 0 || slices.Contains(handlers, t.Handler) {
			chosen = append(chosen, i)
		}
	}
	open := func(i int) bool { return e.Tasks[i].Open() }
	switch {
	case e.Quarantined():
		return dedup.ErrQuarantined
	case len(chosen) == 0 || len(chosen) < len(handlers):
		return dedup.ErrNoTask
	case slices.ContainsFunc(chosen, open):
		return dedup.ErrOpen
	case e.dropped():
		return dedup.ErrNoPayload
	}
	for _, i := range chosen {
		t := &e.Tasks[i]
		if t.State == dedup.Done {
			note(t, dedup.Done, t.Reason, t.Err)
		}
		*t = m.again(*t)
		t.Unfenced = t.Unfenced || force
	}
	e.Hold = false
	m.settle(e)
	return nil
}

// runNow returns the error of RunNow, or changes the event.
func (m *model) runNow(e *modelEvent) error {
	err := dedup.ErrNotWaiting
	for i, t := range e.Tasks {
		if !e.Hold && t.State == dedup.Pending && m.now.Before(t.Due) {
			e.Tasks[i].Due, err = m.now, nil
		}
	}
	return err
}

// runs reports whether the caller may get a task of the handler, and whether it has to.
func (m *model) runs(w dedup.Want, handler string) (may, must bool) {
	if most, limited := w.Most[handler]; limited && most == 0 {
		return false, false
	}
	if w.Handlers == nil || slices.Contains(w.Handlers, handler) {
		return true, true
	}
	return !m.named[handler] && !m.now.Before(m.opened.Add(w.OrphanAfter)), false
}

// due reports whether a worker may take the task, and whether the store has to let it.
func (m *model) due(e *modelEvent, i int, w dedup.Want) (may, must bool) {
	t := e.Tasks[i]
	its, surely := m.runs(w, t.Handler)
	if e.purged || e.Hold || !its {
		return false, false
	}
	lapsed := t.State == dedup.Running && !m.now.Before(t.Until)
	waits := t.State == dedup.Pending && !m.now.Before(t.Due) && !m.blocked(e, t)
	if !lapsed && !waits {
		return false, false
	}
	if !lapsed && !t.Interrupted() {
		return true, surely
	}
	runs, perhaps := m.suspect()
	return !runs, !runs && !perhaps && surely
}

// suspect reports whether the store runs an interrupted task, which holds the others back. Perhaps
// one does whose lease had ended when it was extended.
func (m *model) suspect() (runs, perhaps bool) {
	for _, e := range m.events {
		for _, t := range e.Tasks {
			if e.purged || e.Hold || t.State != dedup.Running || !t.Interrupted() || !m.now.Before(t.Until) ||
				!m.now.Before(t.Started.Add(dedup.SuspectTime)) || m.takers[t.Token] != m.store {
				continue
			}
			perhaps = perhaps || m.late[t.Token]
			runs = runs || !m.late[t.Token]
		}
	}
	return runs, perhaps
}

// blocked reports whether an earlier task of the lane is open, or any of them runs.
func (m *model) blocked(e *modelEvent, t dedup.Task) bool {
	if t.Lane == "" {
		return false
	}
	for _, other := range m.events {
		if other == e || other.purged || other.Hold || other.Payload.Endpoint != e.Payload.Endpoint {
			continue
		}
		for _, o := range other.Tasks {
			earlier := other.Seq < e.Seq && !strings.HasPrefix(t.Lane, dedup.LaneYields)
			if o.Handler == t.Handler && o.Lane == t.Lane &&
				(o.State == dedup.Running || o.State == dedup.Pending && earlier) {
				return true
			}
		}
	}
	return false
}

// matches reports whether a filter selects the event.
func (m *model) matches(f dedup.Filter, e *modelEvent) bool {
	number, _, _ := strings.Cut(e.Event, "-")
	isRef := slices.Contains([]string{e.Event, e.Key.ID, e.Payload.VendorID, number, number + "-"}, f.Ref) ||
		len(f.Ref) >= 4 && strings.HasPrefix(e.Event, f.Ref)
	if f.Ref != "" && !isRef || f.ID != "" && e.Key.ID != f.ID && e.Payload.VendorID != f.ID ||
		f.Endpoint != "" && e.Payload.Endpoint != f.Endpoint ||
		f.Producer != "" && e.Payload.Producer != f.Producer ||
		f.Event != "" && e.Event != f.Event {
		return false
	}
	if prefix := strings.TrimSuffix(f.Type, "*"); f.Type != "" && e.Payload.Type != prefix &&
		(prefix == f.Type || !strings.HasPrefix(e.Payload.Type, prefix)) {
		return false
	}
	selected := func(t dedup.Task) bool {
		return (f.Handler == "" || t.Handler == f.Handler) && (f.Reason == "" || t.Reason == f.Reason)
	}
	aside := f.Handler == "" && f.Reason == e.QuarantineReason && e.Quarantined()
	if (f.Handler != "" || f.Reason != "") && !aside && !slices.ContainsFunc(e.Tasks, selected) {
		return false
	}
	texts := []string{e.Event, e.Key.ID, e.Payload.VendorID, e.Payload.Type, e.Payload.Attributes["source"]}
	texts = append(texts, string(e.Payload.Body))
	if !strings.Contains(strings.ToLower(strings.Join(texts, "\n")), strings.ToLower(f.Text)) {
		return false
	}
	if len(f.States) > 0 && !slices.Contains(f.States, e.summary()) {
		return false
	}
	if f.Quarantined && e.QuarantineReason == "" || f.Before > 0 && e.Seq >= f.Before ||
		!f.Until.IsZero() && !e.Accepted.Before(f.Until) {
		return false
	}
	return f.Since <= 0 || !e.Accepted.Add(f.Since).Before(m.now)
}

// counts returns the counts of a store without the events that it may have forgotten, and with
// them. Those that were claimed may have been freed.
func (m *model) counts() (least, most dedup.Stats) {
	least.Quarantined = map[dedup.QuarantineGroup]int64{}
	for _, e := range m.events {
		if e.purged {
			continue
		}
		if e.Quarantined() {
			least.Quarantined[dedup.QuarantineGroup{Endpoint: e.Payload.Endpoint, Reason: e.QuarantineReason}]++
		}
		if least.Oldest.IsZero() && e.open() && !e.Hold {
			least.Oldest = e.Accepted
		}
		sums := []*dedup.Stats{&most, &least}
		if m.forgettable(e) {
			sums = sums[:1]
		}
		for _, sum := range sums {
			sum.Pending += int64(e.count(dedup.Pending))
			sum.Running += int64(e.count(dedup.Running))
			sum.Dead += int64(e.count(dedup.Dead))
			if e.open() {
				sum.Backlog += int64(len(e.Payload.Body))
			}
		}
	}
	return least, most
}

// modelText formats what the model knows of a record: no times of attempts, and of each task
// only what counts in its state.
func modelText(r dedup.Record) string {
	r = r.Clone()
	for i := range r.Tasks {
		t := &r.Tasks[i]
		t.Started, t.Ended, t.History = time.Time{}, time.Time{}, modelHistory(t.History)
		if t.State != dedup.Pending {
			t.Due = time.Time{}
		}
		if t.State == dedup.Running {
			t.Reason, t.Err = "", ""
		} else {
			t.Until, t.Token = time.Time{}, 0
		}
	}
	slices.SortFunc(r.Aliases, func(a, b dedup.Key) int { return strings.Compare(a.Space+a.ID, b.Space+b.ID) })
	return text(r)
}

// pick returns one of the values.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
