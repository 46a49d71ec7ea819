package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
)

// reloads is what a server knows of its reloads.
type reloads struct {
	turn     sync.Mutex // held during a reload
	stopping bool       // no reload begins any more; guarded by turn
	old      sync.WaitGroup
	ended    context.Context //nolint:containedctx // ends when replaced receivers must end
	end      context.CancelFunc

	mu       sync.Mutex
	last     *inspect.Reload // nil if there was none
	success  time.Time       // of the last configuration that was applied
	applied  uint64
	refused  uint64
	retiring int // replaced receivers that still have work
}

var (
	errNoReload   = errors.New("this server cannot reload its configuration")
	errIsStopping = errors.New("the server is stopping")
)

// Reload reads the configuration again and replaces the receiver by one with the new configuration,
// all or nothing: after an error the old configuration stays in use. It returns once deliveries go
// to the new receiver. With orphan, tasks of handlers that were removed become dead letters, else
// these handlers finish them.
func (s *Server) Reload(ctx context.Context, orphan bool) (opsapi.Reload, error) {
	s.reloads.turn.Lock()
	defer s.reloads.turn.Unlock()
	began := time.Now()
	old := s.current.Load()
	switch {
	case old.rx == nil || old.Reread == nil:
		return opsapi.Reload{}, errNoReload
	case s.reloads.stopping:
		return opsapi.Reload{}, errIsStopping
	}
	notifySystemd(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	defer notifySystemd(daemon.SdNotifyReady)
	o, err := old.Reread(ctx)
	if err == nil {
		g := newGeneration(o)
		if err = s.replace(old, g, orphan); err == nil { //nolint:contextcheck // its explainer ends with the generation
			result := opsapi.Reload{Reloaded: true, Took: time.Since(began).Seconds(), Warnings: o.Warnings,
				Producers: len(o.Receiver.Producers), Handlers: len(o.HandlerNames), Retired: g.retiredNames()}
			s.noteReload(nil)
			s.Log.Info("the configuration was reloaded", "producers", result.Producers, "handlers", result.Handlers,
				"removed", result.Retired, "took", time.Since(began))
			for _, warning := range o.Warnings {
				s.Log.Warn(warning)
			}
			return result, nil
		}
		err = errors.Join(err, g.close())
	}
	s.noteReload(err)
	s.Log.Error("the configuration was not reloaded; the last one stays in use", "error", usage.OneLine(err.Error()))
	return opsapi.Reload{}, err
}

// replace makes a generation the current one. The work of the one before is finished meanwhile.
func (s *Server) replace(old, g *generation, orphan bool) error {
	loaded := [2]*certificateFiles{}
	for i, files := range []*KeyPair{g.TLS, g.OperationsTLS} {
		var err error
		if loaded[i], err = s.loadCertificate(certificateSettings[i], files); err != nil {
			return err
		}
	}
	g.retire(old, s.store, s.replacing(), orphan)
	if s.ring != nil {
		s.ring.AddRules(g.secretPlaces())
	}
	g.Targets.Succeed(old.Targets, g.retiredNames()...) // before its workers start
	rx, err := old.rx.Replace(g.receiverConfig(s))
	if err != nil {
		return usage.Errorf("", "%v", err)
	}
	g.serve(rx, s.servers[0].WriteTimeout, s.traces)
	for i, f := range loaded {
		if f != nil {
			s.certificates[i].set(f, s.HTTP2)
		}
	}
	s.Log.Level.Set(g.LogLevel)
	s.metrics.Expect(g.Receiver.Producers)
	s.listeners[0].SetLimits(g.Connections)
	old.comparing.stop()
	g.compare(s)
	s.current.Store(g)
	requests := s.handlers[0].set(g.deliver)
	if s.state != nil {
		s.listeners[1].SetLimits(operationsLimits(g.Connections))
		g.page = s.page.Renewed(s.pageOptions(g))
		s.handlers[1].set(s.operations(g))
	}
	for _, h := range g.retired {
		s.reloads.old.Go(func() {
			if h.watch(s.store, s.Log.Logger) && !slices.Contains(s.current.Load().HandlerNames, h.name) {
				s.metrics.Forget(prometheus.Labels{"handler": h.name})
			}
		})
	}
	s.finish(old, requests)
	return nil
}

// finish ends a replaced generation once it has answered its requests and finished its tasks.
func (s *Server) finish(old *generation, requests *sync.WaitGroup) {
	s.countReplaced(1)
	s.reloads.old.Go(func() {
		defer s.countReplaced(-1)
		answered := make(chan struct{})
		go func() {
			requests.Wait()
			close(answered)
		}()
		select {
		case <-answered:
		case <-s.reloads.ended.Done():
		}
		err := old.shutdown(s.reloads.ended)
		if err = errors.Join(err, old.close()); err != nil {
			s.Log.Warn("a replaced configuration did not end in order", "error", err)
		}
		s.forgetProducers(old)
	})
}

// forgetProducers deletes the metrics of the producers of a replaced generation that are gone.
func (s *Server) forgetProducers(old *generation) {
	now := s.current.Load().Receiver.Producers
	for i := range old.Receiver.Producers {
		name := old.Receiver.Producers[i].Name
		if !slices.ContainsFunc(now, func(p producer.Producer) bool { return p.Name == name }) {
			s.metrics.Forget(prometheus.Labels{"endpoint": name})
		}
	}
}

func (s *Server) countReplaced(n int) {
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	s.reloads.retiring += n
}

// replacing reports whether a replaced receiver may still accept events.
func (s *Server) replacing() bool {
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	return s.reloads.retiring > 0
}

// noteReload records the result of a reload for probes, metrics and the page.
func (s *Server) noteReload(err error) {
	r := &s.reloads
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = &inspect.Reload{Time: time.Now().UTC(), Applied: err == nil}
	if err == nil {
		r.applied++
		r.success = r.last.Time
		return
	}
	r.refused++
	r.last.Problem = usage.OneLine(err.Error())
	if found, ok := usage.Find(err); ok && len(found) > 1 {
		r.last.Problem = fmt.Sprintf("%s; and %d more", usage.OneLine(found[0].Error()), len(found)-1)
	}
}

// lastReload returns the last reload, or nil.
func (s *Server) lastReload() *inspect.Reload {
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	return s.reloads.last
}

// reloadAPI serves POST /reload?orphan=BOOL.
func (s *Server) reloadAPI(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	result, err := s.Reload(context.WithoutCancel(r.Context()), r.URL.Query().Get("orphan") == "true")
	status := http.StatusOK
	switch found, ok := usage.Find(err); {
	case errors.Is(err, errNoReload) || errors.Is(err, errIsStopping):
		writeProblem(w, http.StatusConflict, err)
		return
	case ok:
		status = http.StatusUnprocessableEntity
		for _, e := range found {
			result.Errors = append(result.Errors, opsapi.Finding{File: e.At.File, Line: e.At.Line,
				Message: usage.OneLine(e.What), Hint: usage.OneLine(e.Hint)})
		}
	case err != nil:
		status = http.StatusUnprocessableEntity
		result.Errors = []opsapi.Finding{{Message: usage.OneLine(err.Error())}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(result) // the client may be gone
}

// metrics are those of the reloads.
func (r *reloads) metrics() []prometheus.Collector {
	locked := func(value func() float64) func() float64 {
		return func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return value()
		}
	}
	total := func(result string, count *uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "eyelet_reload_total",
			Help:        "Reloads of the configuration, by result: applied or refused.",
			ConstLabels: prometheus.Labels{"result": result},
		}, locked(func() float64 { return float64(*count) }))
	}
	successful := func() float64 {
		if r.last != nil && !r.last.Applied {
			return 0
		}
		return 1
	}
	return []prometheus.Collector{
		total("applied", &r.applied), total("refused", &r.refused),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "eyelet_reload_last_successful",
			Help: "1 unless the last reload was refused."}, locked(successful)),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "eyelet_reload_last_success_timestamp_seconds",
			Help: "When the configuration in use was applied, in seconds of Unix time.",
		}, locked(func() float64 { return float64(r.success.UnixMilli()) / 1e3 })),
	}
}
