package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/sink"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

// handlers builds the handlers of the configuration. The names of tasks are stored, so the default name is made
// of what a person would keep: producer, pattern and kind.
func buildHandlers(c *Settings, stdout io.Writer, p *Plan) usage.Errors {
	p.Stdout = sink.NewOutput(stdout)
	b := &handlerBuild{Settings: c, stdout: p.Stdout, taken: map[string]usage.Place{}, targets: p.Targets, producers: p.Producers}
	for i := range c.Handlers {
		h, name := b.handler(&c.Handlers[i])
		p.Handlers, p.HandlerNames = append(p.Handlers, h), append(p.HandlerNames, name)
	}
	p.closers = append(p.closers, b.closers...)
	return b.wrong
}

type handlerBuild struct {
	*Settings
	stdout    *sink.Output
	taken     map[string]usage.Place
	targets   *forward.State // of forward handlers
	producers []producer.Producer
	closers   []io.Closer
	wrong     usage.Errors
}

func (b *handlerBuild) add(at usage.Place, hint, format string, args ...any) {
	b.wrong = append(b.wrong, &usage.Error{At: at, What: usage.OneLine(fmt.Sprintf(format, args...)), Hint: hint})
}

func (b *handlerBuild) handler(h *Handler) (receiver.Handler, string) {
	p := b.producerOf(h)
	if h.Type == "" {
		b.add(h.Node.at, `write an event type, "prefix*", or "*"`, "a handler needs a type")
	}
	kind, to := b.sink(h)
	answers := h.Answer
	if h.Forward != "" {
		answers = b.relays(h, p)
	} else {
		b.refuseForwardSettings(h)
	}
	if h.Answer && len(h.Exec) == 0 {
		b.add(h.Node.place("answer"), "", "answer is a setting of exec")
	}
	if len(h.Env) > 0 && len(h.Exec) == 0 {
		b.add(h.Node.place("env"), "", "env is a setting of exec")
	}
	for _, name := range h.Env {
		if name, _, value := strings.Cut(name, "="); value {
			b.add(h.Node.place("env"), "set it in the environment of eyelet", "env names variables, and %q comes with a value", name)
		}
	}
	name := h.named(kind)
	if first, twice := b.taken[name]; twice {
		b.add(h.Node.at, "give one of them a name of its own: name: ...", "two handlers are called %q, the first in line %d", name, first.Line)
	}
	b.taken[name] = h.Node.at
	return b.build(h, to, answers, name), name
}

// named is the handler's name: its own, or one of what a person would keep.
func (h *Handler) named(kind string) string {
	if h.Name != "" {
		return h.Name
	}
	return fmt.Sprintf("%s/%s/%s", h.Producer, h.Type, kind)
}

func (b *handlerBuild) build(h *Handler, to sink.Sink, answers bool, name string) receiver.Handler {
	timeout := b.timeoutOf(h, answers)
	var built receiver.Handler
	if answers {
		built = receiver.Answer(h.Producer, h.Type, func(ctx context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return to.Answer(ctx, h.payload(ev))
		})
	} else {
		built = receiver.On(h.Producer, h.Type, func(ctx context.Context, ev receiver.Event[[]byte]) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return to.Deliver(ctx, h.payload(ev))
		})
	}
	built = built.Named(name)
	if h.Otherwise {
		built = built.Otherwise()
	}
	if h.Lane != "" {
		lane, err := producer.ParseExtractor(h.Lane)
		if err != nil {
			b.add(h.Node.place("lane"), "", "lane: %v", err)
			return built
		}
		built = built.Lane(lane)
	}
	if h.Blocks != nil && h.Lane == "" {
		b.add(h.Node.place("lane_blocks"), "", "lane_blocks is a setting of lane")
	} else if h.Blocks != nil && !*h.Blocks {
		built = built.LaneYields()
	}
	return built
}

// payload is the event as the handler wants it. Who forwards it sends it on as it came; the others want to read
// it, without a content coding.
func (h *Handler) payload(ev receiver.Event[[]byte]) receiver.Event[[]byte] {
	if h.Forward == "" {
		ev.Body = ev.Data
		ev.Header.Del("Content-Encoding")
	}
	return ev
}

func (b *handlerBuild) timeoutOf(h *Handler, answers bool) time.Duration {
	switch {
	case h.Timeout > 0:
		return h.Timeout
	case answers && b.Limits.AnswerTimeout > 0:
		return b.Limits.AnswerTimeout
	case answers:
		return receiver.DefaultAnswerTimeout
	case b.Limits.HandlerTimeout > 0:
		return b.Limits.HandlerTimeout
	}
	return receiver.DefaultHandlerTimeout
}

func (b *handlerBuild) producerOf(h *Handler) *Producer {
	var names []string
	for i := range b.Producers {
		if b.Producers[i].Name == h.Producer {
			return &b.Producers[i]
		}
		names = append(names, b.Producers[i].Name)
	}
	if h.Producer == "" {
		b.add(h.Node.at, "", "a handler needs a producer")
	} else {
		b.add(h.Node.place("producer"), usage.DidYouMean(h.Producer, names), "handler for the unknown producer %q", h.Producer)
	}
	return nil
}

// sink returns the one thing that the handler does.
func (b *handlerBuild) sink(h *Handler) (kind string, to sink.Sink) {
	var kinds []string
	if h.Stdout {
		kinds, to = append(kinds, "stdout"), sink.Stdout{Out: b.stdout}
	}
	if len(h.Exec) > 0 {
		kinds, to = append(kinds, "exec"), b.exec(h)
	}
	if h.Forward != "" {
		kinds, to = append(kinds, "forward"), b.forward(h, h.named("forward"))
	}
	if len(kinds) != 1 {
		b.add(h.Node.at, "", "a handler needs one of stdout, exec and forward, and this one has %s", count(kinds))
		return "none", nil
	}
	return kinds[0], to
}

func count(kinds []string) string {
	if len(kinds) == 0 {
		return "none"
	}
	return strings.Join(kinds, " and ")
}

func (b *handlerBuild) exec(h *Handler) sink.Sink {
	argv := append([]string{}, h.Exec...)
	if strings.ContainsRune(strings.Join(argv, ""), 0) {
		b.add(h.Node.place("exec"), "", "a word of exec holds a NUL, which no program can be given")
		return nil
	}
	if strings.ContainsRune(argv[0], filepath.Separator) {
		argv[0] = b.Path(argv[0])
		if full, err := filepath.Abs(argv[0]); err == nil { // else LookPath would search for it
			argv[0] = full
		}
	}
	full, err := exec.LookPath(argv[0])
	var lookErr *exec.Error
	if errors.As(err, &lookErr) {
		err = lookErr.Err
	}
	if err != nil {
		b.add(h.Node.place("exec"), "the first word is a program, relative to the configuration file; chmod +x makes a file one",
			"no program %s: %s", h.Exec[0], usage.Cause(err))
		return nil
	}
	argv[0] = full
	return &sink.Exec{Argv: argv, Dir: filepath.Dir(b.File), Pass: h.Env}
}

// relays says whether a forward handler answers with the target's outcome.
func (b *handlerBuild) relays(h *Handler, p *Producer) bool {
	switch h.Mode {
	case "relay":
		return true
	case "store":
		return false
	case "":
		return p != nil && p.Scheme == "rfc9421"
	}
	b.add(h.Node.place("mode"), usage.DidYouMean(h.Mode, []string{"relay", "store"}), "mode is %q, want relay or store", h.Mode)
	return false
}
