package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/replay"
)

// devResult is the result of one delivery.
type devResult struct {
	File     string   `json:"file"`
	Producer string   `json:"producer"`
	About    string   `json:"about,omitempty"`
	Verdict  string   `json:"verdict"`
	Status   int      `json:"status"`
	Code     string   `json:"code"`
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Event    string   `json:"event,omitempty"`
	Why      string   `json:"why,omitempty"`
	OK       bool     `json:"ok"`
	Misses   []string `json:"misses,omitempty"`
	// Handlers are the outcomes of the handlers, with --config.
	Handlers []devOutcome `json:"handlers,omitempty"`
	Printed  string       `json:"printed,omitempty"` // by the handlers
}

// devClock starts at the time of each recording.
type devClock struct {
	mu      sync.Mutex
	base    time.Time
	started time.Time
}

func (c *devClock) start(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.started = at, time.Now()
}

// Now returns the time of the recording plus the time since its start.
func (c *devClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base.Add(time.Since(c.started))
}

// devRun is a receiver for recordings: HTTP on loopback and a store on disk, with a clock of its
// own.
type devRun struct {
	store    dedup.Store
	rx       *receiver.Receiver
	clock    *devClock
	server   *http.Server
	plan     *config.Plan
	address  string
	pass     string // the pass of our own deliveries
	observed chan receiver.Observation
	settings *config.Settings
	flags    senderFlags
	printed  *printed // by the handlers; nil without --config
}

// passHeader carries the pass. The keys of the bundled deliveries are public, so only deliveries
// with the pass are received; the field is removed before the receiver sees the request.
const passHeader = "Eyelet-Dev-Pass"

// sendRecordings sends the recordings, prints the results, and checks the content of the store.
// Then it calls watch, with a function that sends files again.
func (f *devCmd) sendRecordings(ctx context.Context, s *config.Settings, recs []devRecording,
	watch func(again func(files []string))) (err error) {
	var out *printed
	if f.config != "" {
		out = &printed{}
	}
	run, err := newDevRun(ctx, f.program, s, out)
	if err != nil {
		return err
	}
	run.flags = f.senderFlags
	defer func() { err = errors.Join(err, run.close()) }() //nolint:contextcheck // closing takes its own time
	if err := run.checkProducers(recs); err != nil {
		return err
	}
	screen := f.newScreen(recs)
	err = run.sendAll(ctx, recs, screen)
	watch(func(files []string) {
		again, err := devRecordings(files)
		if err == nil {
			err = run.sendSome(ctx, again, screen, nil)
		}
		if err != nil {
			f.explain(err)
		}
	})
	return err
}

// sendAll sends the recordings and checks the content of the store.
func (r *devRun) sendAll(ctx context.Context, recs []devRecording, screen *devScreen) error {
	var outcomes []devResult
	if err := r.sendSome(ctx, recs, screen, &outcomes); err != nil {
		return err
	}
	var missed []string
	for _, o := range outcomes {
		if !o.OK {
			missed = append(missed, o.File)
		}
	}
	wrongs, stored, err := r.compare(ctx, outcomes)
	if err != nil {
		return failf("the store cannot be read: %v", err)
	}
	screen.summary(outcomes, wrongs, stored)
	switch {
	case len(missed) > 0:
		return failf("not as expected: %s", strings.Join(missed, ", "))
	case len(wrongs) > 0:
		return failf("the store does not hold exactly what was accepted: %s", strings.Join(wrongs, "; "))
	}
	return nil
}

// sendSome sends recordings, prints the results and adds them to outcomes, which may be nil.
func (r *devRun) sendSome(ctx context.Context, recs []devRecording, screen *devScreen, outcomes *[]devResult) error {
	for _, rec := range recs {
		o, err := r.deliver(ctx, rec)
		if _, ok := usage.Find(err); ok {
			return err
		} else if err != nil {
			return failf("%s: %v", rec.Name, err)
		}
		if outcomes != nil {
			*outcomes = append(*outcomes, o)
		}
		screen.delivery(o)
	}
	return nil
}

// newDevRun opens a receiver. What handlers print goes to out, unless it is nil.
func newDevRun(ctx context.Context, p *program, s *config.Settings, out *printed) (run *devRun, err error) {
	run = &devRun{clock: &devClock{}, pass: rand.Text(), observed: make(chan receiver.Observation, 1024), settings: s,
		printed: out}
	o := config.BuildOptions{Stdout: io.Discard, TestKeys: true}
	if out != nil {
		o.Stdout, o.ExecOutput = out, out
	}
	if run.plan, err = s.Build(ctx, o); err != nil {
		return nil, err
	}
	defer func() { //nolint:contextcheck // closing takes its own time
		if err != nil {
			err = errors.Join(err, run.close())
		}
	}()
	log := server.NewLog(p.Err, "text", slog.LevelError).Logger
	if run.store, err = s.OpenStore(ctx, log); err != nil {
		return nil, err
	}
	c := run.plan.Config
	c.Store, c.Logger, c.Clock, c.Observe = run.store, log, run.clock.Now, run.observe
	if run.rx, err = receiver.Open(c); err != nil {
		return nil, usage.Errorf("", "%v", err)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, usage.Errorf("", "loopback: %s", usage.RootCause(err))
	}
	run.address = "http://" + ln.Addr().String()
	run.server = &http.Server{Handler: run.requirePass(server.Handler(run.rx)),
		ReadHeaderTimeout: s.Limits.HeaderTimeout, MaxHeaderBytes: config.DefaultHead}
	go func() { _ = run.server.Serve(ln) }() // ends with close
	return run, nil
}

func (r *devRun) close() error {
	var errs []error
	if r.server != nil {
		errs = append(errs, r.server.Close())
	}
	if r.rx != nil {
		errs = append(errs, r.rx.Close())
	}
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	return errors.Join(append(errs, r.plan.Close())...)
}

func (r *devRun) requirePass(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if subtle.ConstantTimeCompare([]byte(req.Header.Get(passHeader)), []byte(r.pass)) != 1 {
			http.Error(w, "only deliveries of this process are received here", http.StatusForbidden)
			return
		}
		req.Header.Del(passHeader)
		next.ServeHTTP(w, req)
	})
}

func (r *devRun) observe(_ context.Context, o receiver.Observation) {
	if o.Kind == "delivery" {
		r.observed <- o
	}
}

// checkProducers checks that the producer of every recording is configured.
func (r *devRun) checkProducers(recs []devRecording) error {
	var found usage.Errors
	names := r.settings.ProducerNames()
	for _, rec := range recs {
		if name := rec.Note("producer"); name != "" && !slices.Contains(names, name) {
			err := noteError(rec.File, "producer",
				usage.DidYouMean(name, names)+" (--config FILE names producers of your own)", "unknown producer %q",
				name)
			if rec.tampered != "" {
				return failf("%v: %s", err, rec.tampered)
			}
			ms, _ := usage.Find(err)
			found = append(found, ms...)
		}
	}
	return found.Err()
}

// deliver sends one recording and compares its result with the expectation.
func (r *devRun) deliver(ctx context.Context, rec devRecording) (devResult, error) {
	o := devResult{File: rec.Name, Producer: rec.Note("producer"), About: rec.Note("about")}
	options := replay.Options{URL: r.address, Header: http.Header{passHeader: {r.pass}}}
	if rec.payload != nil {
		rec.expect.now = time.Now()
		var err error
		rec.File, o.Producer, err = r.sign(*rec.payload, &options) //nolint:contextcheck // nothing is sent
		if err != nil {
			return o, err
		}
	}
	r.clock.start(rec.expect.now)
	res, err := replay.Send(ctx, rec.File, options)
	if err != nil {
		return o, err
	}
	select {
	case seen := <-r.observed:
		o.Status, o.Code, o.ID, o.Type, o.Event = res.Status, string(seen.Code), seen.ID, seen.Type, seen.Event
		if seen.Err != nil && res.Status >= 400 {
			o.Why = usage.OneLine(seen.Err.Error())
		}
	case <-time.After(10 * time.Second):
		return o, errors.New("the delivery was not observed")
	}
	o.Verdict = verdictFor(o.Status, o.Code)
	o.Misses = rec.expect.misses(o)
	if rec.expect.verdict == "" {
		o.Misses = append(o.Misses, r.unexpected(o, rec)...)
	}
	if r.printed != nil && o.Verdict == verdictNew {
		if o.Handlers, err = r.outcomes(ctx, o.Event); err != nil {
			return o, err
		}
		o.Printed = r.printed.take()
		for _, handler := range o.Handlers {
			if handler.State != "done" {
				o.Misses = append(o.Misses, "a handler failed")
				break
			}
		}
	}
	if rec.tampered != "" {
		o.Misses = append(o.Misses, rec.tampered)
	}
	o.OK = len(o.Misses) == 0
	return o, nil
}

// stored counts the records of the store.
type stored struct{ events, quarantined int }

// compare checks that the store holds exactly the accepted events, each once.
func (r *devRun) compare(ctx context.Context, outcomes []devResult) (wrongs []string, h stored, err error) {
	accepted := map[string][]string{} // files by endpoint and identifier, which several events may share
	for _, o := range outcomes {
		if o.Verdict == verdictNew {
			accepted[o.Producer+" "+o.ID] = append(accepted[o.Producer+" "+o.ID], o.File)
		}
	}
	for rec, err := range r.store.List(ctx, dedup.Filter{}) {
		if err != nil {
			return nil, h, err
		}
		if rec.QuarantineReason != "" {
			h.quarantined++
			continue
		}
		h.events++
		name := rec.Payload.Endpoint + " " + cmp.Or(rec.Payload.VendorID, rec.Key.ID)
		if len(accepted[name]) == 0 {
			wrongs = append(wrongs, fmt.Sprintf("%q is in the store and was not accepted, or is there twice",
				sanitize(name)))
			continue
		}
		accepted[name] = accepted[name][1:]
	}
	for name, files := range accepted {
		for _, file := range files {
			wrongs = append(wrongs, fmt.Sprintf("%q of %s was accepted and is not in the store", sanitize(name), file))
		}
	}
	slices.Sort(wrongs)
	return wrongs, h, nil
}
