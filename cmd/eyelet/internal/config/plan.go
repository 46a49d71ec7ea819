package config

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/sink"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// BuildOptions is what Build needs besides the settings.
type BuildOptions struct {
	Stdout   io.Writer // of stdout handlers
	TestKeys bool      // accept the published keys of the test data
	// ExecOutput also gets what the programs of exec handlers print. It may be nil; it must be
	// safe for concurrent use.
	ExecOutput io.Writer
	// Log gets the standard error of programs that succeed, unless log.omit_errors is set. May be
	// nil.
	Log *slog.Logger
	// Previous is the plan that the new one replaces in this process: standard output and fetched
	// keys are shared with it. May be nil.
	Previous *Plan
}

// Plan is a receiver's configuration without its store.
type Plan struct {
	receiver.Config
	HandlerNames []string // in the order of the settings
	Targets      *forward.State
	Stdout       *sink.Output

	settings *Settings
	closers  []io.Closer
	fetched  map[string]*sharedKeys // by what they are fetched from
}

// Close stops fetching keys and closes the connections to targets.
func (p *Plan) Close() error {
	var errs []error
	for _, c := range p.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Producer returns the producer with a name.
func (p *Plan) Producer(name string) (*producer.Producer, error) {
	var names []string
	for i := range p.Producers {
		if p.Producers[i].Name == name {
			return &p.Producers[i], nil
		}
		names = append(names, p.Producers[i].Name)
	}
	return nil, usage.Errorf(usage.DidYouMean(name, names), "unknown producer %q", name)
}

// Build validates all that it can without opening the store, and reports all errors at once, with
// those of Load and Parse. Of settings with errors it leaves out the producers and handlers that
// have them.
func (s *Settings) Build(ctx context.Context, o BuildOptions) (*Plan, error) {
	p := &Plan{settings: s, Targets: forward.NewState(), fetched: map[string]*sharedKeys{}}
	producers := &producerBuilder{Settings: s, testKeys: o.TestKeys, fetched: p.fetched}
	if o.Previous != nil {
		p.Stdout, producers.previous = o.Previous.Stdout, o.Previous.fetched
	} else {
		p.Stdout = sink.NewOutput(o.Stdout)
	}
	p.Via = s.viaName()
	p.Producers = producers.build(ctx)
	handlers := &handlerBuilder{Settings: s, options: o, plan: p, taken: map[string]usage.Place{}}
	handlers.build()
	p.readForwarded()
	p.closers = append(p.closers, producers.closers...)
	found := slices.Concat(s.unread, producers.errs, handlers.errs, s.check())
	s.applyLimits(&p.Config)
	if len(found) == 0 {
		found = p.validate() //nolint:contextcheck // closing has its own timeout
	}
	if len(found) > 0 {
		return nil, errors.Join(s.variables.AsWritten(found).Err(), p.Close())
	}
	return p, nil
}

// readForwarded makes fields that are forwarded besides the producer's own ones that are read.
func (p *Plan) readForwarded() {
	for i := range p.settings.Handlers {
		h := &p.settings.Handlers[i]
		from, err := p.Producer(h.Producer)
		if err != nil {
			continue // reported already
		}
		for _, name := range h.ForwardHeaders {
			from.Reads = append(slices.Clip(from.Reads), strings.ToLower(name))
		}
	}
}

// applyLimits sets the numbers. The receiver's timeouts are the longest of all handlers; each
// handler enforces its own.
func (s *Settings) applyLimits(c *receiver.Config) {
	l := s.Limits
	c.URL, c.Hosts, c.TrustedProxies = s.URL, s.Hosts, s.TrustedProxies
	c.Attempts, c.BackoffBase, c.BackoffCap, c.PostponeMax = l.Attempts, l.BackoffBase, l.BackoffCap, l.PostponeMax
	c.Lease, c.Workers, c.RetryAfter, c.InFlightWait = l.Lease, l.Workers, l.RetryAfter, l.InFlightWait
	if l.InFlightWait == 0 {
		c.InFlightWait = -1 // do not wait
	}
	if c.OrphanAfter = l.OrphanAfter; l.OrphanAfter == 0 && l.Node.Scalar("orphan_after") != "" {
		c.OrphanAfter = -1 // as above
	}
	c.OmitErrors = s.Log.OmitErrors
	c.BodyTimeout, c.MaxBody, c.BodyBudget = l.BodyTimeout, l.MaxBody, l.BodyBudget
	c.HandlerTimeout, c.AnswerTimeout = l.HandlerTimeout, receiver.DefaultAnswerTimeout
	for i := range s.Handlers {
		h := &s.Handlers[i]
		if s.answers(h) {
			c.AnswerTimeout = max(c.AnswerTimeout, h.Timeout)
		} else {
			c.HandlerTimeout = max(c.HandlerTimeout, h.Timeout)
		}
	}
}

// answers reports whether the handler answers the producer itself.
func (s *Settings) answers(h *Handler) bool {
	if h.Forward == "" {
		return h.Answer
	}
	from := s.producer(h.Producer)
	return from != nil && (h.Mode == "relay" || h.Mode == "" && from.Scheme == "rfc9421")
}

// check validates settings outside producers and handlers.
func (s *Settings) check() usage.Errors {
	found := append(append(s.checkPorts(), checkACME(s)...), checkTracing(s)...)
	if s.Via != "" && (!verify.IsToken(s.Via) || len(s.Via) > receiver.MaxVia) {
		found.Add(s.Place("via"), "write a name that no other hop has, as in via: eyelet-berlin",
			"via is not a token of at most %d characters", receiver.MaxVia)
	}
	if _, err := s.LogLevel(); err != nil {
		found.Add(s.Log.Node.Place("level"), "", "log.level is not debug, info, warn or error")
	}
	found = append(append(found, s.checkStore()...), checkRefused(s)...)
	l := s.Limits
	notNegative := func(name string, value int) {
		if value < 0 {
			found.Add(l.Node.Place(name), "", "limits.%s is less than 0", name)
		}
	}
	notNegative("backlog_events", l.BacklogEvents)
	notNegative("connections", l.Connections)
	notNegative("connections_per_address", l.ConnectionsPerAddress)
	if l.Head != 0 && (l.Head < minHead || l.Head > maxHead) {
		found.Add(l.Node.Place("head"), "", "limits.head is not between 8KiB and 1MiB")
	}
	return found
}

// validate opens a receiver over an empty store, to find the errors that only Open finds.
func (p *Plan) validate() (found usage.Errors) {
	c := p.Config
	c.Store = memstore.New(memstore.Options{})
	c.Logger = slog.New(slog.DiscardHandler)
	_, err := receiver.Idle(c) // which reads no tenants
	if err = errors.Join(err, c.Store.Close()); err == nil {
		return nil
	}
	for one := range parts(err) {
		what, hint := one.Error(), ""
		switch {
		case errors.Is(one, receiver.ErrAnswersAlone):
			hint = "forward answers for producers of scheme rfc9421: with mode: store it is one handler among others"
		case errors.Is(one, receiver.ErrNoURL):
			what, _, _ = strings.Cut(what, ": set Config.URL") // advice for Go programs
			hint = "write the public base at the top of the file, as in url: https://hooks.example"
		}
		found.Add(p.placeOf(one), hint, "%s", what)
	}
	return found
}

// parts yields the errors that calls of errors.Join joined.
func parts(err error) iter.Seq[error] {
	return func(yield func(error) bool) {
		joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // the outermost joins only
		if !ok {
			yield(err)
			return
		}
		for _, one := range joined.Unwrap() {
			for part := range parts(one) {
				if !yield(part) {
					return
				}
			}
		}
	}
}

// placeOf returns where the producer or handler with the error was written.
func (p *Plan) placeOf(err error) usage.Place {
	if at, ok := errors.AsType[*receiver.HandlerError](err); ok {
		if i := slices.Index(p.HandlerNames, at.Handler); i >= 0 {
			return p.settings.Handlers[i].Node.At
		}
	}
	if at, ok := errors.AsType[*producer.CheckError](err); ok {
		if from := p.settings.producer(at.Producer); from != nil {
			return from.at
		}
	}
	return usage.Place{File: p.settings.File, Line: 1}
}
