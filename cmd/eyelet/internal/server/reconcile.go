package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/reconcile"
)

// comparing are the comparisons with the lists of vendors.
type comparing struct {
	all   map[string]*reconcile.Reconciler // by producer
	end   context.CancelFunc               // nil before they begin
	loops sync.WaitGroup
}

// compare begins the comparisons of a generation.
func (g *generation) compare(s *Server) {
	ctx, end := context.WithCancel(context.Background())
	g.comparing.end, g.comparing.all = end, map[string]*reconcile.Reconciler{}
	for _, p := range g.Receiver.Producers {
		if !p.Source.On() {
			continue
		}
		r := reconcile.New(reconcile.Options{Receiver: g.rx, Store: s.store, Producer: p, Logger: s.Log.Logger,
			Observe: s.observe})
		g.comparing.all[p.Name] = r
		g.comparing.loops.Go(func() { r.Run(ctx) })
	}
}

// stop ends the comparisons. The next ones continue where they were.
func (c *comparing) stop() {
	if c.end != nil {
		c.end()
		c.loops.Wait()
	}
}

// lists are the last comparisons, for the page.
func (c *comparing) lists(ctx context.Context) (all []inspect.List) {
	for _, name := range slices.Sorted(maps.Keys(c.all)) {
		r := c.all[name]
		p, err := r.Last(ctx)
		if err != nil {
			p.Error = err.Error()
		}
		all = append(all, inspect.List{
			Producer: name, From: r.Producer.Source.Host(), Since: p.Since, Until: p.Until, Ended: !p.Ended.IsZero(),
			Listed: p.Listed, Missed: p.Missed, GivenUp: p.GivenUp, Unknown: p.Unknown, Problem: p.Error,
		})
	}
	return all
}

// reconcileAPI serves POST /reconcile/PRODUCER with the parameters since, dry_run and adopt_before:
// a line of JSON for each page of the list, and one for the result.
func (g *generation) reconcileAPI(w http.ResponseWriter, r *http.Request) {
	name, query := r.PathValue("producer"), r.URL.Query()
	of := g.comparing.all[name]
	if of == nil {
		writeProblem(w, http.StatusNotFound,
			fmt.Errorf("producer %q has no reconcile in the configuration of the server", name))
		return
	}
	q := reconcile.Request{DryRun: query.Get("dry_run") == "true"}
	var err, err2 error
	if text := query.Get("since"); text != "" {
		q.Since, err = duration.Parse(text)
	}
	if text := query.Get("adopt_before"); text != "" {
		q.AdoptBefore, err2 = time.Parse(time.RFC3339, text)
	}
	if err = errors.Join(err, err2); err != nil || q.Since < 0 {
		writeProblem(w, http.StatusBadRequest,
			errors.New("since needs a duration, and adopt_before a time of RFC 3339"))
		return
	}
	control, out := http.NewResponseController(w), json.NewEncoder(w)
	_ = control.SetWriteDeadline(time.Time{})
	began := false
	line := func(p reconcile.Progress) {
		if !began {
			w.Header().Set("Content-Type", "application/jsonl")
		}
		began = true
		_ = out.Encode(p) // the client may be gone, which ends its context
		_ = control.Flush()
	}
	p, err := of.Compare(r.Context(), q, line)
	if err != nil && p.Ended.IsZero() {
		writeProblem(w, http.StatusConflict, err)
		return
	}
	line(p)
}
