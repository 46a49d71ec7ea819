package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/refused"
	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// explainer logs why deliveries are refused: for each endpoint and code in a minute, the first one
// of each of four networks, and of four networks of known peers. One worker does it, after the
// response.
type explainer struct {
	explain *explain.Explainer
	offsets offsetsOf
	log     *slog.Logger
	work    chan receiver.Refused
	stop    context.CancelFunc
	stopped chan struct{}

	mu      sync.Mutex
	minutes map[refusal]explained // endpoints and codes are closed sets
}

// refusal is what networks share.
type refusal struct {
	endpoint string
	code     verify.Code
	known    bool
}

// explained are the networks of deliveries that were explained, in the minute that began at since.
type explained struct {
	since    time.Time
	networks []netip.Prefix
}

const (
	explainEvery    = time.Minute
	explainNetworks = 4
	explainQueue    = 4 // deliveries with their bodies, half of them for known peers; others are not explained
)

// offsetsOf is the function for [explain.Delivery.Offsets]; see [signedTimes].
type offsetsOf func(context.Context, *receiver.Refused) []time.Duration

func newExplainer(c receiver.Config, offsets offsetsOf) *explainer {
	ctx, stop := context.WithCancel(context.Background())
	e := &explainer{
		explain: explain.New(c.Producers), offsets: offsets, log: c.Logger,
		work: make(chan receiver.Refused, explainQueue), stop: stop,
		stopped: make(chan struct{}), minutes: map[refusal]explained{},
	}
	go e.run(ctx)
	return e
}

// add takes a delivery if it is one of the first of its kind. It does not block.
func (e *explainer) add(f receiver.Refused) {
	if f.Endpoint == "" {
		return
	}
	kind, network := refusal{f.Endpoint, f.Code, f.Known}, refused.Network(f.Peer)
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.minutes[kind]
	if f.Time.Sub(m.since) >= explainEvery {
		m = explained{since: f.Time}
	}
	if len(m.networks) == explainNetworks || slices.Contains(m.networks, network) ||
		!f.Known && len(e.work) >= explainQueue/2 {
		return
	}
	select {
	case e.work <- f:
		m.networks = append(m.networks, network)
		e.minutes[kind] = m
	default:
	}
}

// run explains deliveries until the context ends.
func (e *explainer) run(ctx context.Context) {
	defer close(e.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-e.work:
			e.write(ctx, f)
		}
	}
}

// deliveryOf returns what explain needs of a refused delivery. A body of which a part is missing
// counts as unread, unless the client sent no more.
func deliveryOf(ctx context.Context, f receiver.Refused, offsets offsetsOf) explain.Delivery {
	return explain.Delivery{
		Endpoint: f.Endpoint, Request: f.Request, Body: f.Body, Unread: f.BodyRead != receiver.BodyWhole,
		Declared: f.Declared, Code: f.Code, Now: f.Time, Offsets: offsets(ctx, &f),
	}
}

// explainRefused explains a refused delivery that is kept; ok is false for another. An excerpt of
// a part that is redacted is left out. secret, if not empty, is tried, too.
func (g *generation) explainRefused(
	ctx context.Context, number uint64, secret string,
) (report explain.Report, ok bool) {
	ring := g.times.ring
	if ring == nil {
		return report, false
	}
	f, ok := ring.Kept(number)
	shown, still := ring.RefusedDetail(number)
	if !ok || !still {
		return report, false
	}
	d := deliveryOf(ctx, f, g.times.offsets)
	if secret != "" {
		d.Secrets = []verify.Offer{{Name: "the secret that you tried", Secret: verify.Secret(secret)}}
	}
	report = g.explain.Explain(ctx, d)
	for i := range report.Findings {
		found := &report.Findings[i]
		if shown.Hidden || shown.Header.Get(found.Detail) != f.Request.Header.Get(found.Detail) {
			found.Signed, found.Came = "", ""
		}
	}
	if !maps.EqualFunc(shown.Header, f.Request.Header, slices.Equal) { // a base may hold what is redacted
		report.Bases = nil
	}
	return report, true
}

// explanation is explainRefused for the page.
func (g *generation) explanation(
	ctx context.Context, number uint64, secret string,
) (why inspect.Explanation, ok bool) {
	report, ok := g.explainRefused(ctx, number, secret)
	why.Verifies, why.Complete = report.Code == "", report.Complete
	for _, f := range report.Findings {
		why.Causes = append(why.Causes, inspect.Cause{
			Sentence: f.Cause.Sentence(), Remedy: f.Cause.Remedy(), Proved: f.Proved, Detail: f.Detail,
			Signed: f.Signed, Came: f.Came, At: f.At,
		})
	}
	return why, ok
}

// explainAPI serves GET /refused/NUMBER/explain: the cause of a refused delivery that is kept.
func (g *generation) explainAPI(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.ParseUint(r.PathValue("number"), 10, 64)
	if err != nil {
		writeProblem(w, http.StatusBadRequest, errors.New("that is not the number of a refused delivery"))
		return
	}
	report, ok := g.explainRefused(r.Context(), number, "")
	if !ok {
		writeProblem(w, http.StatusNotFound, fmt.Errorf("no refused delivery %d is kept", number))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(report)
}

func (e *explainer) write(ctx context.Context, f receiver.Refused) {
	report := e.explain.Explain(ctx, deliveryOf(ctx, f, e.offsets))
	for _, found := range report.Findings {
		e.log.LogAttrs(ctx, slog.LevelWarn, "refused delivery explained", slog.String("endpoint", f.Endpoint),
			slog.String("code", string(f.Code)), slog.String("cause", string(found.Cause)),
			slog.Bool("proved", found.Proved), slog.String("detail", found.Detail),
			slog.String("remedy", found.Cause.Remedy()))
	}
}

// close ends the worker.
func (e *explainer) close() {
	e.stop()
	<-e.stopped
}

// refusedHook returns the function that gets refused deliveries, or nil.
func refusedHook(ring *refused.Ring, why *explainer) func(context.Context, receiver.Refused) {
	switch {
	case why == nil && ring == nil:
		return nil
	case why == nil:
		return ring.Add
	}
	return func(ctx context.Context, f receiver.Refused) {
		if ring != nil {
			ring.Add(ctx, f)
		}
		why.add(f)
	}
}
