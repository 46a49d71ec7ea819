package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// search is one run.
type search struct {
	ctx     context.Context
	d       Delivery
	own     producer.Producer
	others  []producer.Producer
	offered []verify.Offer // secrets and keys of others
	hidden  []string       // secrets, which no output may hold

	trials int
	hashed int     // bytes that were hashed or made
	spent  bool    // a bound ended the search
	json   *parsed // the body

	fields []string // that the scheme reads
	bases  *Bases   // of a state that holds
	missed string   // the component that the scheme refuses the delivery for
}

// state is a delivery and a scheme with some changes.
type state struct {
	scheme  verify.Scheme
	request *http.Request
	body    []byte
	changes []change
}

// change is one change of a hypothesis.
type change struct {
	cause        Cause
	detail       string
	signed, came string // of fields; those of URL and body are compared at the end
}

// with returns the state with one more change.
func (st state) with(c change) state {
	st.changes = append(st.changes[:len(st.changes):len(st.changes)], c)
	return st
}

// last returns the group of the last change.
func (st *state) last() group {
	if len(st.changes) == 0 {
		return groupNone
	}
	return st.changes[len(st.changes)-1].cause.text().group
}

// newSearch returns nil if the endpoint is not known, or has no scheme.
func newSearch(ctx context.Context, producers []producer.Producer, d Delivery) *search {
	s := &search{ctx: ctx, d: d}
	found := false
	for _, p := range producers {
		p.Scheme = offline(p.Scheme)
		if p.Name == d.Endpoint && p.Scheme != nil {
			s.own, found = p, true
			s.hide(offersOf(ctx, p.Scheme))
		} else if p.Scheme != nil {
			s.others = append(s.others, p)
		}
	}
	if !found {
		return nil
	}
	for _, p := range s.others {
		for _, o := range offersOf(ctx, p.Scheme) {
			o.Name = fmt.Sprintf("%s of producer %q", o.Name, p.Name)
			s.offered = append(s.offered, o)
		}
	}
	s.offered = append(s.offered, d.Secrets...)
	s.hide(s.offered)
	return s
}

func offersOf(ctx context.Context, scheme verify.Scheme) []verify.Offer {
	if one, ok := scheme.(verify.Alternator); ok {
		return one.Offers(ctx)
	}
	return nil
}

func (s *search) start() state {
	r := s.d.Request.WithContext(s.ctx) // a shallow copy
	r.Body = http.NoBody
	return state{scheme: s.own.Scheme, request: r, body: s.d.Body}
}

// outcome is the result of a trial.
type outcome struct {
	id    verify.Identity
	err   error
	asked bool // the scheme asked for the body
	held  bool // the signature is proved
}

// errUnread is the error of a body that was not read.
var errUnread = errors.New("the body was not read")

// try asks the scheme of the state. Once a bound is reached, nothing holds.
func (s *search) try(st state) (o outcome) {
	if s.trials >= MaxTrials || !s.made(0) {
		s.spent = true
		return outcome{err: context.Canceled}
	}
	s.trials++
	s.hashed += trialBytes
	o.id, o.err = st.scheme.Verify(st.request, func() ([]byte, error) {
		o.asked = true
		s.hashed += len(st.body)
		if s.d.Unread {
			return nil, errUnread
		}
		return st.body, nil
	})
	o.held = o.err == nil
	if errors.Is(o.err, errUnread) && verify.HeadFirst(st.scheme) {
		o.held = true
		for _, c := range verify.ClaimedIn(st.scheme, st.request, nil) {
			o.id.SignedAt, o.id.Expires, o.id.KeyID = c.SignedAt, c.Expires, c.KeyID
		}
	}
	return o
}

const trialBytes = 512 // hashed in a trial besides the body

// made counts bytes that were made, and reports whether the search may go on.
func (s *search) made(n int) bool {
	s.hashed += n
	s.spent = s.spent || s.hashed >= MaxHashed || s.ctx.Err() != nil
	return !s.spent
}

// parse parses the body of the delivery once, and a long one only within the bounds.
func (s *search) parse() (jsonValue, bool) {
	if s.json == nil {
		if n := len(s.d.Body); n > lookEvery && !s.made(n) {
			return jsonValue{}, false
		}
		v, ok := parseJSON(s.d.Body, s.made)
		s.json = &parsed{v, ok}
	}
	return s.json.jsonValue, s.json.ok
}

type parsed struct {
	jsonValue
	ok bool
}

// run finds the causes.
func (s *search) run() Report {
	start := s.start()
	first := s.try(start)
	report := Report{Code: verify.CodeOf(first.err)}
	refusal, _ := errors.AsType[*verify.Error](first.err)
	refusal = cmp.Or(refusal, &verify.Error{})
	if refusal.Code == verify.KeysUnavailable && s.d.Code == verify.KeyUnknown { // it was, and is not fetched again yet
		report.Code, first.err = s.d.Code, &verify.Error{Code: s.d.Code, KeyID: refusal.KeyID}
	}
	s.missed, s.fields = refusal.Component, wantedFields(&s.own, refusal.Component)
	elsewhere, found := refusedElsewhere(&s.d, &s.own, report.Code)
	switch {
	case found:
		report.Code, report.Findings = s.d.Code, []Finding{elsewhere}
	case first.held:
		report.Findings = s.timeFindings(first.id)
		report.Code = verify.CodeOf(s.own.Tolerance.Check(first.id, s.d.Now))
	case report.Code == verify.KeysUnavailable || report.Code == "" && !errors.Is(first.err, errUnread):
	default:
		report.Findings = s.causes(start, first)
		report.Bases = s.bases
	}
	for i := range report.Findings {
		s.clean(&report.Findings[i])
	}
	report.Trials, report.Complete = s.trials, !s.spent
	return report
}

// causes explains a delivery whose signature does not hold.
func (s *search) causes(start state, first outcome) []Finding {
	if f, found := s.incomplete(); found {
		return []Finding{f}
	}
	if f, found := s.otherEndpoint(start); found {
		return []Finding{f}
	}
	f := &finder{search: s, first: first}
	f.one(start)
	if !f.found && !f.spent && (!s.d.Unread || len(f.reached) == 0) {
		f.two(start)
	}
	if f.found {
		s.bases = s.compare(f.state, f.outcome.id.Label)
		return append(s.proved(f.state, f.outcome), s.timeFindings(f.outcome.id)...)
	}
	if !s.d.Unread {
		return s.facts(start, first, nil)
	}
	likely, elsewhere := f.readable(), s.readers(start, first)
	if ownFields(s.d.Request, &s.own) > 0 {
		likely = append(likely, elsewhere...)
	} else {
		likely = append(elsewhere, likely...)
	}
	return s.facts(start, first, likely)
}

// finder looks for the smallest set of changes with which the signature holds: one, else two of
// different groups.
type finder struct {
	*search
	first   outcome
	found   bool
	state   state
	outcome outcome
	// reached are states in which the scheme asks for the body, where it did not at first: the rest
	// of the cause is in the body.
	reached []state
}

// ends tries states, and reports whether the search ends: one holds, or a bound is reached.
func (f *finder) ends(states iter.Seq[state]) bool {
	for st := range states {
		o := f.try(st)
		switch {
		case o.held:
			f.found, f.state, f.outcome = true, st, o
		case o.asked && !f.first.asked:
			f.reached = append(f.reached, st)
		}
		if f.found || f.spent {
			break
		}
	}
	return f.found || f.spent
}

func (f *finder) one(start state) {
	if f.ends(f.heads(start)) || f.first.asked && f.inBody(start) {
		return
	}
	for _, st := range f.reached {
		if !f.d.Unread && f.inBody(st) {
			return
		}
	}
	f.ends(f.alternatives(start, true))
}

// readable returns the changes with which the scheme can read the head, where the body that would
// prove them was not read.
func (f *finder) readable() (likely []Finding) {
	for _, st := range f.reached {
		if !f.reads(st) {
			continue
		}
		for _, one := range f.proved(st, outcome{}) {
			one.Proved = false
			same := func(f Finding) bool { return f.Cause == one.Cause }
			if !slices.ContainsFunc(likely, same) && len(likely) < maxLikely {
				likely = append(likely, one)
			}
		}
		if len(st.changes) > 1 {
			break // the first pair
		}
	}
	return likely
}

const maxLikely = 3 // causes that are reported without a proof

// inBody tries the forms of the body. A signed digest of another body proves the rest.
func (f *finder) inBody(st state) bool {
	if f.ends(bodies(f.search, st, true)) {
		return true
	}
	if o := f.try(st); otherBody(o.err) {
		f.found, f.outcome = true, o
		c := change{cause: bodyDigest}
		if len(st.body) == 0 {
			c.detail = "the body is empty"
		}
		f.state = st.with(c)
		for _, c := range verify.ClaimedIn(st.scheme, st.request, st.body) {
			f.outcome.id = verify.Identity{SignedAt: c.SignedAt, Expires: c.Expires}
		}
	}
	return f.found
}

// otherBody reports whether the signature is good and the body does not match the digest it covers.
func otherBody(err error) bool {
	code := verify.CodeOf(err)
	return code == verify.DigestMismatch || code == verify.BodyHashMismatch && !errors.Is(err, verify.ErrNoBodyHash)
}

func (f *finder) two(start state) {
	f.reached = nil
	if f.first.asked && f.ends(f.pairs(bodies(f.search, start, false))) || f.ends(f.pairs(f.heads(start))) {
		return
	}
	for _, st := range f.reached {
		if len(st.changes) == 2 && otherBody(f.try(st).err) && f.inBody(st) {
			return
		}
	}
}

// pairs yields states with one change more, of anything but the body and of a later group.
func (s *search) pairs(firsts iter.Seq[state]) iter.Seq[state] {
	return func(yield func(state) bool) {
		for first := range firsts {
			for st := range s.heads(first) {
				later := st.last() > first.last() || first.last() == groupBody // of which the forms are made once
				if later && !yield(st) {
					return
				}
			}
		}
	}
}

// heads yields the state with one change of anything but the body.
func (s *search) heads(st state) iter.Seq[state] {
	return func(yield func(state) bool) {
		for next := range s.alternatives(st, false) {
			if !yield(next) {
				return
			}
		}
		for _, next := range slices.Concat(headers(st), st.near(s.fields), urls(st)) {
			if !yield(next) {
				return
			}
		}
	}
}

// alternatives yields the state with each alternative of the scheme that is rare or, without rare,
// that is not.
func (s *search) alternatives(st state, rare bool) iter.Seq[state] {
	return func(yield func(state) bool) {
		one, ok := st.scheme.(verify.Alternator)
		if !ok {
			return
		}
		for _, alt := range one.Alternatives(st.request, s.offered) {
			if alt.Rare != rare {
				continue
			}
			next := st.with(change{cause: Cause(alt.Mistake), detail: alt.Detail})
			if alt.Scheme != nil {
				next.scheme = alt.Scheme()
			}
			if alt.Request != nil {
				next.request = alt.Request
			}
			if next.scheme != nil && !yield(next) {
				return
			}
		}
	}
}
