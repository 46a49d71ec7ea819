package receiver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// maxHandlerName bounds the names of handlers, which are stored with every task, in bytes.
const maxHandlerName = 256

// registry indexes handlers by producer and name. It is immutable.
type registry struct {
	byProducer map[string][]*Handler
	byName     map[string]*Handler
	inline     map[string]*inlineRoute // by producers with Inline handlers
	orphaned   []string                // names of handlers whose tasks become dead letters
}

// newRegistry checks the handlers and returns every error at once. decode decodes payloads for
// the handlers.
func newRegistry(hs []Handler, producers []producer.Producer, decode decodeFunc) (*registry, error) {
	known := map[string]*producer.Producer{}
	for i := range producers {
		known[producers[i].Name] = &producers[i]
	}
	r := &registry{
		byProducer: map[string][]*Handler{}, byName: map[string]*Handler{}, inline: map[string]*inlineRoute{},
	}
	var errs []error
	for _, h := range hs {
		h.name, _ = h.Names()
		own := checkHandler(&h, known)
		own.when(r.byName[h.name] != nil, "another handler has this name: name one of them with Named")
		for _, err := range own {
			errs = append(errs, &HandlerError{Handler: h.name, Err: err})
		}
		if len(own) > 0 {
			continue
		}
		if h.inline {
			h.route = r.routeOf(known[h.producer])
			h.run = h.route.run
		}
		if h.orphaned {
			r.orphaned = append(r.orphaned, h.name)
			continue
		}
		if p := known[h.producer]; p != nil {
			h.future = p.Tolerance.Future
		}
		h.compose(decode)
		r.byName[h.name] = &h
		if !h.retired {
			r.byProducer[h.producer] = append(r.byProducer[h.producer], &h)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.byProducer)) {
		errs = append(errs, checkTogether(r.byProducer[name])...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *registry) routeOf(p *producer.Producer) *inlineRoute {
	if r.inline[p.Name] == nil {
		r.inline[p.Name] = newInlineRoute(p.Payload != nil)
	}
	return r.inline[p.Name]
}

func checkHandler(h *Handler, known map[string]*producer.Producer) (errs faults) {
	errs.when(h.run == nil && h.err == nil && !h.inline, "an empty Handler: make one with On, Answer or Inline")
	for _, err := range []error{h.err, checkName(h.name), checkPattern(h.pattern)} {
		errs.when(err != nil, "%w", err)
	}
	p := known[h.producer]
	errs.when(h.retired && h.inline, "an Inline handler cannot be retired")
	errs.when(p == nil && !h.retired, "unknown producer %q (there are: %s)",
		h.producer, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	errs.when(h.answer && !h.retired && p != nil && p.Split != nil,
		"producer %q sends batches, whose items cannot be answered one by one: use On", h.producer)
	errs.when(h.answer && h.lane != nil, "an Answer handler must not have a lane: its producer waits for it")
	errs.when(h.yields && h.lane == nil, "LaneYields without a lane: set one with Lane")
	errs = append(errs, h.checkNewest(p)...)
	errs = append(errs, h.checkWhen(p)...)
	errs = append(errs, h.checkLimits()...)
	for i, m := range h.with {
		errs.when(m == nil, "middleware %d is nil", i+1)
	}
	return errs
}

func checkName(name string) error {
	if len(name) > maxHandlerName {
		return fmt.Errorf("the name has %d bytes, more than %d", len(name), maxHandlerName)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("the name has characters that cannot be printed")
	}
	return nil
}

// checkTogether lists the conflicts among the handlers of one producer: an Answer handler that
// shares its events, and Otherwise handlers that overlap or never run.
func checkTogether(hs []*Handler) (errs faults) {
	for i, a := range hs {
		for _, b := range hs[i+1:] {
			both, overlap := intersection(a.pattern, b.pattern)
			switch {
			case a.other != b.other || !overlap: // an Otherwise handler never gets the other's events
			case a.other:
				errs = append(errs, &HandlerError{a.name, b.name, fmt.Errorf("both are Otherwise and match %q", both)})
			case a.answer && b.answer && a.when != nil && b.when != nil: // the first that holds
			case a.answer || b.answer:
				err := fmt.Errorf("%w, and both would take %q", ErrAnswersAlone, both)
				errs = append(errs, &HandlerError{a.name, b.name, err})
			}
		}
		if by := shadowedBy(a, hs); by != nil {
			err := fmt.Errorf("it never runs: it is Otherwise, and %q matches all of %q", by.name, a.pattern)
			errs = append(errs, &HandlerError{Handler: a.name, Err: err})
		}
	}
	return errs
}

// shadowedBy returns the handler that leaves no events for an Otherwise handler, or nil. Several
// prefixes never cover a longer one together, so checking one at a time is enough.
func shadowedBy(other *Handler, hs []*Handler) *Handler {
	if !other.other {
		return nil
	}
	for _, h := range hs {
		if !h.other && h.when == nil && patternCovers(h.pattern, other.pattern) {
			return h
		}
	}
	return nil
}

// names returns the names of all handlers whose tasks are taken. It is never nil.
func (r *registry) names() []string {
	return slices.AppendSeq(append(make([]string, 0, len(r.byName)), r.orphaned...), maps.Keys(r.byName))
}

// match returns the handlers of an event: all matching On handlers in the order of the
// configuration, or the one Answer handler. holds reports whether the condition of a handler that
// has one does.
func (r *registry) match(producer, typ string, holds func(*Handler) bool) (on []*Handler, answer *Handler) {
	on, answer = r.matchIn(producer, typ, false, holds)
	if answer == nil && len(on) == 0 {
		return r.matchIn(producer, typ, true, holds)
	}
	return on, answer
}

func (r *registry) matchIn(
	producer, typ string, other bool, holds func(*Handler) bool,
) (on []*Handler, answer *Handler) {
	all := r.byProducer[producer]
	for i, h := range all {
		switch {
		case h.other != other || !h.matches(typ) || h.when != nil && !holds(h):
		case h.answer:
			return nil, h
		case i == len(on): // usually all match
			on = all[: i+1 : i+1]
		default:
			on = append(on, h)
		}
	}
	return on, nil
}

// namesType reports whether the pattern of a handler is exactly the type.
func (r *registry) namesType(producer, typ string) bool {
	return slices.ContainsFunc(r.byProducer[producer], func(h *Handler) bool { return h.pattern == typ })
}

// A pattern is an exact event type, or a prefix followed by "*". "*" alone is the empty prefix.

func checkPattern(pattern string) error {
	if pattern == "" {
		return errors.New(`the pattern is empty: "*" matches every type`)
	}
	if i := strings.IndexByte(pattern, '*'); i >= 0 && i != len(pattern)-1 {
		return fmt.Errorf("bad pattern %q: \"*\" may only be at the end", pattern)
	}
	return nil
}

// intersection returns the pattern of the event types that both match, which is one of them; ok is
// false if there is none.
func intersection(a, b string) (both string, ok bool) {
	if patternCovers(a, b) {
		return b, true
	}
	return a, patternCovers(b, a)
}

// patternCovers reports whether a matches every type that b matches.
func patternCovers(a, b string) bool {
	prefix, ok := strings.CutSuffix(b, "*")
	if !ok {
		return dedup.MatchType(a, b)
	}
	return strings.HasSuffix(a, "*") && dedup.MatchType(a, prefix)
}
