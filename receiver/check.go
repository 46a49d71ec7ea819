package receiver

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// withDefaults returns the configuration with its zero fields replaced by their defaults.
func withDefaults(c Config) Config {
	c.URL = strings.TrimRight(c.URL, "/")
	c.PolicyURL = cmp.Or(c.PolicyURL, c.URL+policyPath)
	if c.Decode == nil {
		c.Decode = decodeJSON
	}
	c.Attempts = cmp.Or(c.Attempts, DefaultAttempts)
	c.BackoffBase = cmp.Or(c.BackoffBase, DefaultBackoffBase)
	c.BackoffCap = cmp.Or(c.BackoffCap, DefaultBackoffCap)
	c.PostponeMax = cmp.Or(c.PostponeMax, DefaultPostponeMax)
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, DefaultHandlerTimeout)
	c.AnswerTimeout = cmp.Or(c.AnswerTimeout, DefaultAnswerTimeout)
	c.InFlightWait = cmp.Or(c.InFlightWait, DefaultInFlightWait)
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.OrphanAfter = cmp.Or(c.OrphanAfter, defaultOrphanAfter(c.Store))
	c.Workers = cmp.Or(c.Workers, 4*runtime.GOMAXPROCS(0))
	c.RetryAfter = cmp.Or(c.RetryAfter, DefaultRetryAfter)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, DefaultBodyTimeout)
	c.StoreTimeout = cmp.Or(c.StoreTimeout, DefaultStoreTimeout)
	c.MaxBody = cmp.Or(c.MaxBody, DefaultMaxBody)
	c.BodyBudget = cmp.Or(c.BodyBudget, DefaultBodyBudget)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	c.Producers = slices.Clone(c.Producers)
	producer.PinURLs(c.Producers)
	inline := func(name string) bool {
		return slices.ContainsFunc(c.Handlers, func(h Handler) bool { return h.inline && h.producer == name })
	}
	for i := range c.Producers {
		if c.Producers[i].MaxBody == 0 {
			c.Producers[i].MaxBody = c.MaxBody
		}
		for _, h := range c.Handlers {
			if h.producer == c.Producers[i].Name {
				c.Producers[i].Reads = slices.Concat(c.Producers[i].Reads, h.consumes())
			}
		}
		if p := &c.Producers[i]; inline(p.Name) { // its functions get the request
			p.Reads = slices.Concat(p.Reads, []string{"@authority", "@path"})
		}
		c.Producers[i] = c.Producers[i].WithDefaults()
	}
	return c
}

func defaultOrphanAfter(s dedup.Store) time.Duration {
	if s != nil && s.Guarantees().Shared {
		return DefaultOrphanAfter
	}
	return DefaultOrphanAfterAlone
}

// check returns the registry of the handlers, or every error in the configuration at once.
func check(c Config) (*registry, error) {
	var errs faults
	errs.when(c.Store == nil, "store: required; try memstore.New")
	errs.when(len(c.Producers) == 0, "producers: at least one is required")
	errs.when(c.Via != "" && (!verify.IsToken(c.Via) || len(c.Via) > MaxVia),
		"via: the name is not a token of at most %d characters", MaxVia)
	errs = append(errs, checkAddresses(c)...)
	errs = append(errs, checkNumbers(c)...)
	seen := map[string]bool{}
	for i := range c.Producers {
		p := &c.Producers[i]
		errs = append(errs, p.Check()...)
		for _, err := range checkProducer(c, p) {
			errs = append(errs, &producer.CheckError{Producer: p.Name, Err: err})
		}
		if seen[p.Name] {
			errs = append(errs, &producer.CheckError{Producer: p.Name, Err: errors.New("the name is used twice")})
		}
		seen[p.Name] = true
	}
	for i := range c.Handlers {
		h := &c.Handlers[i]
		if err := h.joins(c.Store); c.Store != nil && err != nil {
			name, _ := h.Names()
			errs = append(errs, &HandlerError{Handler: name, Err: err})
		}
	}
	handlers, err := newRegistry(c.Handlers, c.Producers, c.Decode)
	return handlers, errors.Join(append(errs, err)...)
}

// The mistakes of a configuration that a program may explain in its own words.
var (
	// ErrNoURL is of a producer whose public URL is unknown, although its signatures cover it.
	ErrNoURL = errors.New("its signatures cover the URL")
	// ErrAnswersAlone is of an [Answer] handler and another one for the same events.
	ErrAnswersAlone = errors.New("an Answer handler takes its events alone")
)

// HandlerError is a mistake at a handler. Other is the handler that it conflicts with, or empty.
type HandlerError struct {
	Handler, Other string
	Err            error
}

// Error returns the mistake after the names of the handlers.
func (e *HandlerError) Error() string {
	if e.Other != "" {
		return fmt.Sprintf("handlers %q and %q: %v", e.Handler, e.Other, e.Err)
	}
	return fmt.Sprintf("handler %q: %v", e.Handler, e.Err)
}

// Unwrap returns Err.
func (e *HandlerError) Unwrap() error { return e.Err }

// faults are the errors of a configuration.
type faults []error

// when adds an error if the condition holds.
func (f *faults) when(holds bool, format string, args ...any) {
	if holds {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

func checkProducer(c Config, p *producer.Producer) (errs faults) {
	errs.when(p.SignsURL && p.URL == "" && c.URL == "",
		"%w: set Config.URL to the public base, such as https://hooks.example", ErrNoURL)
	errs.when(p.Nonce == producer.NonceUnique && p.Split != nil, "unique nonces cannot be used with batches")
	fetches := p.Source.On() && !p.Source.Asks()
	errs.when(fetches && slices.ContainsFunc(c.Handlers, func(h Handler) bool {
		return h.producer == p.Name && h.answer && !h.retired
	}), "reconcile: events of this producer cannot be fetched: an Answer handler responds to a delivery")
	if err := checkUntil(p, c.Clock().UTC()); err != nil {
		errs = append(errs, err)
	}
	errs.when(p.MaxBody > c.BodyBudget, "bodies of %d bytes exceed the budget of %d", p.MaxBody, c.BodyBudget)
	return errs
}

func checkAddresses(c Config) (errs faults) {
	u, err := url.Parse(c.URL)
	errs.when(c.URL != "" && (err != nil || !isScheme(u.Scheme) || u.Host == "" || u.User != nil ||
		strings.ContainsAny(c.URL, "?#")), "url: not an absolute base such as https://hooks.example")
	u, err = url.Parse(c.PolicyURL)
	errs.when(err != nil || u.Fragment != "" || strings.ContainsAny(c.PolicyURL, "<>\" "),
		"policy url: not a URL without a fragment")
	for _, host := range c.Hosts {
		errs.when(host == "" || strings.ContainsAny(host, "/ @"), "hosts: %q is not a host", host)
	}
	for _, prefix := range c.TrustedProxies {
		errs.when(!prefix.IsValid(), "trusted proxies: an address range is not valid")
	}
	return errs
}

// checkNumbers refuses negative values. A negative InFlightWait or OrphanAfter means not to wait.
func checkNumbers(c Config) (errs faults) {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"attempts", int64(c.Attempts)}, {"backoff base", int64(c.BackoffBase)}, {"backoff cap", int64(c.BackoffCap)},
		{"postpone max", int64(c.PostponeMax)}, {"handler timeout", int64(c.HandlerTimeout)},
		{"answer timeout", int64(c.AnswerTimeout)}, {"lease", int64(c.Lease)}, {"workers", int64(c.Workers)},
		{"retry after", int64(c.RetryAfter)}, {"body timeout", int64(c.BodyTimeout)},
		{"store timeout", int64(c.StoreTimeout)}, {"max body", c.MaxBody}, {"body budget", c.BodyBudget},
	} {
		errs.when(n.value < 0, "%s: must not be negative", n.name)
	}
	return errs
}
