package main

import (
	"context"
	"errors"
	"os"
	"time"
)

// figures are the results of one receiver in one round. CPU and allocations are per delivery.
type figures struct {
	Deliveries float64 `json:"deliveries"`
	Events     float64 `json:"events"` // new ones
	// PerSecond counts deliveries until every event of them was handled.
	PerSecond float64 `json:"per_second"`
	Drain     float64 `json:"drain_s"` // from the last answer until every event was handled
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	CPU       float64 `json:"cpu_us"` // with that of Redis
	RedisCPU  float64 `json:"redis_cpu_us,omitempty"`
	Allocs    float64 `json:"allocs,omitempty"`
	// EventsPerFlush is 0 where flushes of the device cannot be counted, or without any.
	EventsPerFlush   float64 `json:"events_per_flush,omitempty"`
	FlushesPerCommit float64 `json:"flushes_per_commit,omitempty"` // of Eyelet
	Switches         float64 `json:"switches,omitempty"`           // of the context, by the threads of the receiver
	Calls            float64 `json:"calls,omitempty"`              // reads and writes: system calls with data
}

// round starts a receiver, loads it, and waits until every event is handled. The CPU time and the
// flushes of that wait count.
func (b *bench) round(ctx context.Context, name string, w workload, rate float64) (f figures, err error) {
	if name != "eyelet" && name != "old" {
		w.signature = "github" // the others know no other
	}
	r, err := b.receivers.start(ctx, name, w)
	if err != nil {
		return f, err
	}
	defer func() {
		r.stop()
		_ = os.RemoveAll(r.dir)
	}()
	p := plan{workload: w, address: r.address, length: b.time, size: b.body, rate: rate}
	if w.once > 0 {
		p.length = w.once
	}
	// An uncounted warm-up opens connections and files, and fills pools.
	warm := p
	warm.length = min(time.Second, b.time)
	senders, err := p.senders(ctx)
	if err != nil {
		return f, err
	}
	before, err := warm.run(ctx, senders)
	for err == nil && before.fresh < w.before {
		var more answered
		more, err = warm.run(ctx, senders)
		before.fresh += more.fresh
	}
	if err != nil {
		return f, err
	}
	if err := r.wait(ctx, float64(before.fresh)); err != nil {
		return f, err
	}
	if b.profile != "" && name == "eyelet" {
		saved := make(chan error, 1)
		go func() { saved <- saveProfile(ctx, r.profile, b.profile, p.length) }()
		defer func() { err = errors.Join(err, <-saved) }()
	}
	return b.measure(ctx, r, p, senders, before.fresh)
}

// measure loads a receiver that has handled so many events, all there were.
func (b *bench) measure(ctx context.Context, r *running, p plan, senders []*sender, handled int) (figures, error) {
	var f figures
	start, err := b.sample(ctx, r)
	if err != nil {
		return f, err
	}
	a, err := p.run(ctx, senders)
	if err != nil {
		return f, err
	}
	answered := time.Now()
	if err := r.wait(ctx, float64(handled+a.fresh)); err != nil {
		return f, err
	}
	end, err := b.sample(ctx, r)
	if err != nil {
		return f, err
	}
	n := float64(len(a.took))
	at := func(q float64) float64 { return float64(a.took[int(q*(n-1))].Nanoseconds()) / 1e6 }
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / n }
	f = figures{
		Deliveries: n, Events: float64(a.fresh), PerSecond: n / end.at.Sub(start.at).Seconds(),
		Drain: end.at.Sub(answered).Seconds(), P50: at(0.50), P99: at(0.99),
		CPU:      micros(end.cpu - start.cpu + end.services - start.services),
		RedisCPU: micros(end.services - start.services), Allocs: (end.mallocs - start.mallocs) / n,
	}
	if flushed := end.flushes - start.flushes; flushed > 0 {
		f.EventsPerFlush = f.Events / float64(flushed)
		if commits := end.commits - start.commits; commits > 0 {
			f.FlushesPerCommit = float64(flushed) / commits
		}
	}
	f.Switches, f.Calls = (end.switches-start.switches)/n, (end.calls-start.calls)/n
	return f, nil
}

// sample is the state of a receiver at one time.
type sample struct {
	at            time.Time
	cpu, services time.Duration
	flushes       int64
	mallocs       float64
	commits       float64
	switches      float64
	calls         float64
}

func (b *bench) sample(ctx context.Context, r *running) (s sample, err error) {
	s.at = time.Now()
	s.cpu, s.services = r.cpu()
	s.flushes = flushes(b.disk.dir)
	m, err := r.scrape(ctx)
	s.mallocs, s.commits = m["go_memstats_mallocs_total"], m["eyelet_store_commits_total"]
	s.switches, s.calls = switches(r.process.Process.Pid), calls(r.process.Process.Pid)
	return s, err
}
