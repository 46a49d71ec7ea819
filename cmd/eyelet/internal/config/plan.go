package config

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"fmt"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/sink"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// buildOptions is what building needs beside the settings.
type BuildOptions struct {
	Stdout   io.Writer // of handlers
	TestKeys bool      // keys that everybody knows are good
}

// plan is everything that the settings describe, without a store.
type Plan struct {
	receiver.Config
	settings     *Settings
	HandlerNames []string // of the handlers, as they stand in the settings
	closers      []io.Closer
	Targets      *forward.State // of forward handlers
	Stdout       *sink.Output   // of stdout handlers
}

// Close ends what fetches keys.
func (p *Plan) Close() error {
	var errs []error
	for _, c := range p.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// build checks the settings as far as that is possible without opening anything, and reports every mistake at
// once.
func (c *Settings) Build(ctx context.Context, o BuildOptions) (*Plan, error) {
	pb := &producerBuild{Settings: c, testKeys: o.TestKeys}
	p := &Plan{settings: c, Targets: forward.NewState()}
	p.Producers, p.Via = pb.build(ctx), c.viaName()
	found := buildHandlers(c, o.Stdout, p)
	p.closers = append(p.closers, pb.closers...)
	found = append(append(pb.wrong, found...), c.check()...)
	c.limits(&p.Config)
	if len(found) == 0 {
		found = p.rehearse() //nolint:contextcheck // closing takes its own time
	}
	if len(found) > 0 {
		return nil, errors.Join(found.Err(), p.Close())
	}
	return p, nil
}

// limits fills in the numbers. The receiver's bounds on handlers are the largest that any of them has; each
// handler keeps its own.
func (c *Settings) limits(rc *receiver.Config) {
	l := c.Limits
	rc.URL, rc.Hosts, rc.TrustedProxies = c.URL, c.Hosts, c.TrustedProxies
	rc.Attempts, rc.BackoffBase, rc.BackoffCap, rc.PostponeMax = l.Attempts, l.BackoffBase, l.BackoffCap, l.PostponeMax
	rc.Lease, rc.Workers, rc.RetryAfter, rc.InFlightWait = l.Lease, l.Workers, l.RetryAfter, l.InFlightWait
	if l.InFlightWait == 0 && l.Node.scalar("in_flight_wait") != "" {
		rc.InFlightWait = -1 // written as 0: not to wait, and no default
	}
	rc.StoreTimeout = l.StoreTimeout
	rc.BodyTimeout, rc.MaxBody, rc.BodyBudget = l.BodyTimeout, int64(l.MaxBody), int64(l.BodyBudget)
	rc.HandlerTimeout = cmp.Or(l.HandlerTimeout, receiver.DefaultHandlerTimeout)
	rc.AnswerTimeout = cmp.Or(l.AnswerTimeout, receiver.DefaultAnswerTimeout)
	for i := range c.Handlers {
		h := &c.Handlers[i]
		if c.answers(h) {
			rc.AnswerTimeout = max(rc.AnswerTimeout, h.Timeout)
		} else {
			rc.HandlerTimeout = max(rc.HandlerTimeout, h.Timeout)
		}
	}
}

// answers reports whether the handler answers the producer itself.
func (c *Settings) answers(h *Handler) bool {
	if h.Forward == "" {
		return h.Answer
	}
	for i := range c.Producers {
		if c.Producers[i].Name == h.Producer {
			return h.Mode == "relay" || h.Mode == "" && c.Producers[i].Scheme == "rfc9421"
		}
	}
	return false
}

// check judges the settings that are not of a producer or a handler.
func (c *Settings) check() usage.Errors {
	found := c.checkPorts()
	add := func(setting, hint, what string) {
		found = append(found, &usage.Error{At: c.Node.place(setting), What: what, Hint: hint})
	}
	if c.Via != "" && (!verify.IsToken(c.Via) || len(c.Via) > receiver.MaxVia) {
		add("via", "write a name that no other hop has, as in via: eyelet-berlin", fmt.Sprintf("via is no token of at most %d characters", receiver.MaxVia))
	}
	if !slices.Contains([]string{"text", "json"}, c.Log.Format) {
		found = append(found, &usage.Error{At: c.Log.Node.place("format"), What: "log.format is neither text nor json", Hint: ""})
	}
	if _, err := c.LogLevel(); err != nil {
		found = append(found, &usage.Error{At: c.Log.Node.place("level"), What: "log.level is none of debug, info, warn and error"})
	}
	kind, _, err := c.StoreKind()
	if err != nil {
		add("store", "write badger:./data, or memory: for trying out", err.Error())
	}
	if l := c.Limits; kind == "memory" && (l.BacklogBytes > 0 || l.BacklogEvents > 0 || l.MinFree > 0) {
		found = append(found, &usage.Error{At: l.Node.at, What: "backlog_bytes, backlog_events and min_free have no meaning for a store in memory", Hint: "leave them out, or write store: badger:DIR"})
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"backlog_events", c.Limits.BacklogEvents}, {"connections", c.Limits.Connections},
		{"connections_per_address", c.Limits.ConnectionsPerAddress},
	} {
		if n.value < 0 {
			found = append(found, &usage.Error{At: c.Limits.Node.place(n.name), What: "limits." + n.name + " is less than 0"})
		}
	}
	if head := c.Limits.Head; head != 0 && (head < minHead || head > maxHead) {
		found = append(found, &usage.Error{At: c.Limits.Node.place("head"), What: "limits.head is not between 8KiB and 1MiB"})
	}
	return found
}

// LogLevel returns the level of log.level.
func (c *Settings) LogLevel() (slog.Level, error) {
	var level slog.Level
	err := level.UnmarshalText([]byte(c.Log.Level))
	return level, err
}

// quoted finds the name in a mistake of package receiver: producer "shop": ..., handler "shop/a": ...
var quoted = regexp.MustCompile(`^(producer|handler)s? "([^"]*)"`)

// rehearse opens a receiver over a store that keeps nothing and closes it again, so that every mistake that
// only Open finds is found before anything is touched.
func (p *Plan) rehearse() usage.Errors {
	c := p.Config
	c.Store = dedup.NewMemory(dedup.MemoryOptions{})
	c.Logger = slog.New(slog.DiscardHandler)
	rx, err := receiver.Open(c)
	if err == nil {
		err = errors.Join(rx.Close(), c.Store.Close())
	}
	if err == nil {
		return nil
	}
	var found usage.Errors
	for line := range strings.Lines(err.Error()) {
		m := &usage.Error{At: p.placeOf(line), What: usage.OneLine(line)}
		if strings.Contains(line, "takes its events alone") {
			m.Hint = "forward answers for producers of scheme rfc9421: with mode: store it is one handler among others"
		}
		if what, _, ok := strings.Cut(m.What, ": set Config.URL"); ok { // that is for programs in Go
			m.What, m.Hint = what, "write the public base at the top of the file, as in url: https://hooks.example"
		}
		found = append(found, m)
	}
	return found
}

// placeOf returns where the producer or handler of a mistake stands.
func (p *Plan) placeOf(line string) usage.Place {
	m := quoted.FindStringSubmatch(line)
	if m == nil {
		return usage.Place{File: p.settings.File, Line: 1}
	}
	for i, name := range p.HandlerNames {
		if m[1] == "handler" && name == m[2] {
			return p.settings.Handlers[i].Node.at
		}
	}
	for i := range p.settings.Producers {
		if m[1] == "producer" && p.settings.Producers[i].Name == m[2] {
			return p.settings.Producers[i].at
		}
	}
	return usage.Place{File: p.settings.File, Line: 1}
}
