package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/sink"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Handler is a handler: exactly one of stdout, exec and forward.
type Handler struct {
	Node      *conf.Node
	Producers []string `conf:"producer"` // of several see perProducer
	Producer  string   // the only one
	Type      string   `conf:"type"` // exact, "prefix*" or "*"
	Stdout    bool     `conf:"stdout"`
	Exec      []string `conf:"exec"`
	Forward   string   `conf:"forward,target"`
	forwardSettings
	Answer    bool          `conf:"answer"` // of exec
	Name      string        `conf:"name"`
	Timeout   time.Duration `conf:"timeout"`
	Lane      string        `conf:"lane"`
	Blocks    *bool         `conf:"lane_blocks"` // a failing task blocks its lane; the default
	Newest    string        `conf:"newest"`
	When      string        `conf:"when"`
	Otherwise bool          `conf:"otherwise"`
	// Concurrency is also the number of connections of forward.
	Concurrency int           `conf:"concurrency"`
	Rate        producer.Rate `conf:"rate"`
	Breaker     int           `conf:"breaker"`
	Env         []string      `conf:"env"` // of exec: names of variables to pass on
}

// kinds returns the actions of the handler, which should be one.
func (h *Handler) kinds() (all []string) {
	if h.Stdout {
		all = append(all, "stdout")
	}
	if len(h.Exec) > 0 {
		all = append(all, "exec")
	}
	if h.Forward != "" {
		all = append(all, "forward")
	}
	return all
}

// name returns the configured name, or PRODUCER/TYPE/KIND. Stored tasks keep the name, so it
// must not depend on the order of handlers.
func (h *Handler) name(kind string) string {
	return cmp.Or(h.Name, fmt.Sprintf("%s/%s/%s", h.Producer, h.Type, kind))
}

// event returns the event as the sink needs it: forward sends the body as received, the others read
// it without its content coding, and of a form the JSON in it.
func (h *Handler) event(ev receiver.Event[[]byte]) receiver.Event[[]byte] {
	if h.Forward == "" {
		ev.Body = ev.Data
		ev.Header.Del("Content-Encoding")
		if ev.FormMember != "" {
			ev.Header.Set("Content-Type", "application/json")
		}
	}
	return ev
}

// perProducer makes a handler of several producers one for each.
func perProducer(handlers []Handler) (all []Handler) {
	for _, h := range handlers {
		if len(h.Producers) == 0 || len(h.Producers) > 1 && h.Name != "" { // a mistake
			all = append(all, h)
			continue
		}
		for _, h.Producer = range h.Producers {
			all = append(all, h)
		}
	}
	return all
}

// handlerBuilder turns the settings of handlers into handlers.
type handlerBuilder struct {
	*Settings
	options BuildOptions
	plan    *Plan
	taken   map[string]usage.Place // names
	errs    usage.Errors
}

func (b *handlerBuilder) build() {
	for i := range b.Handlers {
		h := &b.Handlers[i]
		readable := b.readable(h.Node)
		if readable || h.Producer != "" {
			b.checkProducer(h)
		}
		if !readable {
			continue
		}
		if h.Type == "" {
			b.errs.Add(h.Node.At, `write an event type, "prefix*", or "*"`, "a handler needs a type")
		}
		kind, to := b.sink(h)
		b.checkKind(h)
		name := h.name(kind)
		if first, twice := b.taken[name]; twice {
			b.errs.Add(h.Node.At, "give one of them a name of its own: name: ...",
				"two handlers are called %q, the first in line %d", name, first.Line)
		}
		b.taken[name] = h.Node.At
		b.plan.Handlers = append(b.plan.Handlers, b.handler(h, to, name))
		b.plan.HandlerNames = append(b.plan.HandlerNames, name)
	}
}

func (b *handlerBuilder) checkProducer(h *Handler) {
	switch {
	case len(h.Producers) > 1 && h.Name != "":
		b.errs.Add(h.Node.Place("name"), "leave it out, or write one handler for each",
			"a handler of several producers has no name")
	case h.Producer == "":
		b.errs.Add(h.Node.At, "", "a handler needs a producer")
	case b.producer(h.Producer) == nil:
		hint := usage.DidYouMean(h.Producer, b.ProducerNames())
		b.errs.Add(h.Node.Place("producer"), hint, "handler for the unknown producer %q", h.Producer)
	}
}

// checkKind refuses settings of another kind of handler.
func (b *handlerBuilder) checkKind(h *Handler) {
	if h.Forward == "" {
		b.refuseForwardSettings(h)
	}
	b.refuseIf(h.Answer && len(h.Exec) == 0, h, "answer", "exec")
	b.refuseIf(len(h.Env) > 0 && len(h.Exec) == 0, h, "env", "exec")
	b.refuseIf(h.Blocks != nil && h.Lane == "", h, "lane_blocks", "lane")
	b.refuseIf(h.Newest != "" && h.Lane == "", h, "newest", "lane")
	for _, name := range h.Env {
		if name, _, value := strings.Cut(name, "="); value {
			b.errs.Add(h.Node.Place("env"), "set it in the environment of eyelet",
				"env names variables, and %q has a value", name)
		}
	}
}

func (b *handlerBuilder) refuseIf(misplaced bool, h *Handler, setting, of string) {
	if misplaced {
		b.errs.Add(h.Node.Place(setting), "", "%s is a setting of %s", setting, of)
	}
}

func (b *handlerBuilder) handler(h *Handler, to sink.Sink, name string) receiver.Handler {
	limit := b.limit(h)
	answer := func(ctx context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
		ctx, cancel := limit(ctx)
		defer cancel()
		return to.Answer(ctx, h.event(ev))
	}
	deliver := func(ctx context.Context, ev receiver.Event[[]byte]) error {
		ctx, cancel := limit(ctx)
		defer cancel()
		return to.Deliver(ctx, h.event(ev))
	}
	built := receiver.On(h.Producer, h.Type, deliver)
	if b.answers(h) {
		built = receiver.Answer(h.Producer, h.Type, answer)
	}
	built = built.Named(name).Rate(h.Rate).Breaker(h.Breaker)
	if h.Forward == "" || !b.answers(h) {
		built = built.Concurrency(h.Concurrency)
	}
	if h.Otherwise {
		built = built.Otherwise()
	}
	if h.When != "" {
		if condition, err := producer.ParseCondition(h.When); err != nil {
			b.errs.Add(h.Node.Place("when"), "", "when: %v", err)
		} else {
			built = built.When(condition)
		}
	}
	if h.Lane != "" {
		lane, ok := b.extractor(h, "lane", h.Lane)
		if !ok {
			return built
		}
		built = built.Lane(lane)
		if h.Newest != "" {
			if newest, ok := b.extractor(h, "newest", h.Newest); ok {
				built = built.Newest(newest)
			}
		}
		if h.Blocks != nil && !*h.Blocks {
			built = built.LaneYields()
		}
	}
	return built
}

// extractor parses the extractor of a setting.
func (b *handlerBuilder) extractor(h *Handler, setting, text string) (producer.Extractor, bool) {
	x, err := producer.ParseExtractor(text)
	if err != nil {
		b.errs.Add(h.Node.Place(setting), "", "%s: %v", setting, err)
	}
	return x, err == nil
}

// limit returns what limits the context of a run, for exec. A timer for each event costs more than
// a line of stdout, which ignores its context, and targets of forward have the same timeout.
func (b *handlerBuilder) limit(h *Handler) func(context.Context) (context.Context, context.CancelFunc) {
	timeout := b.timeout(h)
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		if len(h.Exec) > 0 {
			return context.WithTimeout(ctx, timeout)
		}
		return ctx, func() {}
	}
}

func (b *handlerBuilder) timeout(h *Handler) time.Duration {
	if b.answers(h) {
		return cmp.Or(h.Timeout, receiver.DefaultAnswerTimeout)
	}
	return cmp.Or(h.Timeout, b.Limits.HandlerTimeout, receiver.DefaultHandlerTimeout)
}

// sink returns what the handler does with events, and the word for it.
func (b *handlerBuilder) sink(h *Handler) (kind string, to sink.Sink) {
	kinds := h.kinds()
	for _, kind := range kinds {
		switch kind {
		case "stdout":
			to = sink.Stdout{Out: b.plan.Stdout}
		case "exec":
			to = b.exec(h)
		case "forward":
			to = b.forward(h, h.name("forward"))
		}
	}
	if len(kinds) != 1 {
		b.errs.Add(h.Node.At, "", "a handler needs one of stdout, exec and forward, and this one has %s",
			cmp.Or(strings.Join(kinds, " and "), "none"))
		return "none", nil
	}
	return kinds[0], to
}

func (b *handlerBuilder) exec(h *Handler) sink.Sink {
	argv := slices.Clone(h.Exec)
	if strings.ContainsRune(strings.Join(argv, ""), 0) {
		b.errs.Add(h.Node.Place("exec"), "", "a word of exec holds a NUL, which no program can be given")
		return nil
	}
	if strings.ContainsRune(argv[0], filepath.Separator) {
		argv[0] = b.Path(argv[0])
		if full, err := filepath.Abs(argv[0]); err == nil { // LookPath searches PATH for other names
			argv[0] = full
		}
	}
	full, err := exec.LookPath(argv[0])
	if err != nil {
		if lookErr, ok := errors.AsType[*exec.Error](err); ok {
			err = lookErr.Err
		}
		b.errs.Add(h.Node.Place("exec"),
			"the first word is a program, relative to the configuration file; chmod +x makes a file executable",
			"no program %s: %s", h.Exec[0], usage.Cause(err))
		return nil
	}
	argv[0] = full
	run := &sink.Exec{Argv: argv, Dir: filepath.Dir(b.File), Pass: h.Env, Tee: b.options.ExecOutput}
	if log := b.options.Log; log != nil && !b.Log.OmitErrors {
		run.Log = log.With("handler", h.name("exec"))
	}
	return run
}
