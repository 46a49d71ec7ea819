// Package conform tests how a program of any make follows the documents of event delivery: RFC
// 9421, the drafts on Idempotency-Key and on the semantics of event delivery, Standard Webhooks,
// and what HTTP asks of them. It sees only what goes over the wire, and effects where the profile
// says how to see them.
//
// A consumer receives deliveries: the kit is its sender. A producer sends them: the kit is its
// receiver. An intermediary does both: the kit is on either side. Package conform imports nothing
// of this module, so that no mistake is made twice.
package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Version is that of the checks. It changes when a check is added, or decides otherwise.
const Version = "1"

// Role is what the tested program does.
type Role string

// The roles of programs.
const (
	Consumer     Role = "consumer"
	Producer     Role = "producer"
	Intermediary Role = "intermediary"
)

// Options configure a run.
type Options struct {
	// Role is that of the program. Required.
	Role Role
	// URL is the endpoint of a consumer or an intermediary.
	URL string
	// Listen is the address at which the kit receives: the deliveries of a producer, or what an
	// intermediary sends on, such as 127.0.0.1:9000.
	Listen string
	// Profile says how deliveries are signed and named, and what the program claims. Required.
	Profile *Profile
	// Mine are hosts beside loopback addresses that may be tested: a run is a load, and attacks.
	Mine []string
	// Only are checks, by their numbers. Defaults to all of the role.
	Only []string
	// Seed decides identifiers, the order of checks and the times of kills.
	Seed uint64
	// Kills is how often a consumer is killed. Defaults to 200.
	Kills int
	// MaxWait is how long a delivery of a producer, and its retry, may take. Defaults to a minute,
	// after which nothing that did not come is wrong.
	MaxWait   time.Duration
	isPatient bool // MaxWait is the default
	// Progress gets each result. May be nil.
	Progress func(Result)
	// Waiting gets what a person must do now, such as to make a producer send. May be nil.
	Waiting func(string)
}

// Run tests a program. The error is one of the options, or that of ctx: what the program does
// wrong is in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	target, err := o.complete()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	s := &session{o: o, p: o.Profile, began: began, url: target}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	defer s.close()
	if o.Role != Producer {
		conn, err := s.dial(ctx)
		if err != nil {
			return nil, fmt.Errorf("nothing accepts connections there: %w", err)
		}
		_ = conn.Close() // nothing was sent
		t := &run{session: s}
		_, _ = t.accepted(ctx, t.delivery()) // waits for a program that starts; the checks report others
	}
	r := &Report{
		Kit: Version, Role: o.Role, Target: o.Listen, Profile: o.Profile.Name,
		Claims: o.Profile.Claims, Seed: o.Seed, Began: began.UTC().Truncate(time.Second),
	}
	if target != nil {
		r.Target = target.Redacted()
	}
	all, results := checksOf(o.Role), map[*check]Result{}
	for _, c := range ordered(all, o.Seed) {
		if len(o.Only) > 0 && !slices.Contains(o.Only, c.number) {
			continue
		}
		if c.phase == lastPhase {
			s.tardy(ctx, results) // a program that is killed may handle events again
		}
		results[c] = s.evaluate(ctx, c)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(results[c])
		}
	}
	s.tardy(ctx, results)
	for _, c := range all {
		if result, ok := results[c]; ok {
			r.Results = append(r.Results, result)
		}
	}
	r.Requests, r.Took = int(s.requests.Load()), time.Since(began).Round(time.Millisecond)
	return r, nil
}

// ordered returns checks phase by phase, in an order of the seed within each.
func ordered(all []*check, seed uint64) []*check {
	out, random := slices.Clone(all), rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // for a reproducible order
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	slices.SortStableFunc(out, func(a, b *check) int { return a.phase - b.phase })
	return out
}

// complete sets defaults, and returns the URL of the program; nil for a producer.
func (o *Options) complete() (*url.URL, error) {
	if o.Profile == nil {
		return nil, errors.New("conform: no profile")
	}
	o.isPatient = o.MaxWait == 0
	o.Kills, o.MaxWait = cmp.Or(o.Kills, 200), cmp.Or(o.MaxWait, time.Minute)
	for _, number := range o.Only {
		if !slices.ContainsFunc(checksOf(o.Role), func(c *check) bool { return c.number == number }) {
			return nil, fmt.Errorf("the role %s has no check %s: --list shows them", o.Role, number)
		}
	}
	if o.Role == Producer {
		return nil, nil //nolint:nilnil // it has none
	}
	if name := o.Profile.keyField(); name != "" && o.Profile.field(name) == "" {
		return nil, fmt.Errorf("key is field:%s, and the fields of the profile have none of that name", name)
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("%q is not the http or https URL of an endpoint", o.URL)
	}
	if !isLoopback(u.Hostname()) && !slices.Contains(o.Mine, u.Hostname()) {
		return nil, fmt.Errorf("%s is not this machine. A run sends attacks and hundreds of requests: "+
			"if it is yours, add --mine %s", u.Hostname(), u.Hostname())
	}
	return u, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
