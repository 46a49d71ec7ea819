package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/replay"
)

// trial is a delivery that dev sends, and what is expected of it.
type trial struct {
	input
	expectation
	name string
}

// readTrials reads the deliveries of files, which producers send, and returns the errors of all.
// The names of files below a folder, which ends in a separator, begin there.
func readTrials(paths, producers []string, folder string) (trials []trial, err error) {
	all, err := readFiles(nil, paths)
	found, ok := usage.Find(err)
	if err != nil && !ok {
		return nil, err
	}
	for _, one := range all {
		t := trial{input: one, name: one.name}
		if one.rec != nil {
			t.expectation, err = expectationOf(one, producers)
			if ms, ok := usage.Find(err); ok {
				found = append(found, ms...)
			}
			t.name = strings.TrimPrefix(one.rec.Name, folder)
		}
		trials = append(trials, t)
	}
	return trials, found.Err()
}

// The verdicts on a delivery.
const (
	verdictNew         = "new"
	verdictDuplicate   = "duplicate"
	verdictConflict    = "conflict"
	verdictQuarantined = "quarantined" // kept, but not run
	verdictRefused     = "refused"
	verdictFailed      = "failed"
)

// The colours of verdicts, as SGR codes.
var colours = map[string]string{
	verdictNew: "32", verdictDuplicate: "36", verdictConflict: "33", verdictQuarantined: "33", verdictRefused: "35",
	verdictFailed: "31",
}

var verdicts = []string{verdictNew, verdictDuplicate, verdictConflict, verdictQuarantined, verdictRefused,
	verdictFailed}

// verdictFor classifies the response to a delivery.
func verdictFor(status int, code string) string {
	switch code {
	case "accepted":
		return verdictNew
	case "replayed":
		return verdictDuplicate
	case "quarantined":
		return verdictQuarantined
	case "idempotency_key_reused":
		return verdictConflict
	}
	switch {
	case status >= 500:
		return verdictFailed
	case status >= 400:
		return verdictRefused
	}
	return verdictNew
}

// expectation is the expected result in the notes of a recording:
//
//	# expect: refused 401 digest_mismatch
//	# id: 8e03978e-40d5-43dd-bc93-6894a57f9324
//	# type: order.paid
//	# sha256: 65ff...
//
// sha256 is the digest of the rest of the file, for bytes that no signature covers.
type expectation struct {
	now           time.Time
	verdict, code string // "" expects nothing
	status        int
	id, typ       string
	tampered      string // how the file differs from its sha256
}

// notesKnown are the notes that dev reads. Others are ignored, unless they look like a misspelled
// one.
var notesKnown = []string{"about", "producer", "now", "expect", "id", "type", "sha256"}

// expectationOf returns what the notes of a recording expect.
func expectationOf(one input, producers []string) (expectation, error) {
	rec := one.rec
	e := expectation{id: rec.Note("id"), typ: rec.Note("type"), tampered: tampered(one.file)}
	for _, n := range rec.Notes {
		if near := usage.Nearest(n.Name, notesKnown); near != "" && !slices.Contains(notesKnown, n.Name) {
			return e, noteError(rec, n.Name, fmt.Sprintf("did you mean %q?", near), "unknown note %q", n.Name)
		}
	}
	if name := rec.Note("producer"); name != "" && !slices.Contains(producers, name) {
		return e, noteError(rec, "producer", usage.DidYouMean(name, producers)+" (--config FILE names producers of "+
			"your own)", "unknown producer %q", name)
	}
	var err error
	if e.now, err = arrival(rec, ""); err != nil {
		return e, err
	}
	words := strings.Fields(rec.Note("expect"))
	if len(words) == 0 {
		return e, nil
	}
	const hint = `write "# expect: new 202" or "# expect: refused 401 digest_mismatch"`
	if len(words) < 2 || len(words) > 3 || !slices.Contains(verdicts, words[0]) {
		return e, noteError(rec, "expect", hint, "an expectation is a verdict (%s), a status and an optional code",
			strings.Join(verdicts, ", "))
	}
	if e.status, err = strconv.Atoi(words[1]); err != nil || e.status < 100 || e.status > 599 {
		return e, noteError(rec, "expect", hint, "%q is not a status", words[1])
	}
	e.verdict = words[0]
	if len(words) == 3 {
		e.code = words[2]
	}
	return e, nil
}

func noteError(rec *httpfile.File, note, hint, format string, args ...any) error {
	var e *httpfile.Error
	errors.As(rec.Errorf(note, format, args...), &e)
	return &usage.Error{At: usage.Place{File: e.File, Line: e.Line}, What: usage.OneLine(e.Msg), Hint: hint}
}

// misses lists the differences from the expectation.
func (e expectation) misses(o devResult) (all []string) {
	for _, part := range []struct {
		what      string
		want, got any
	}{
		{"verdict", e.verdict, o.Verdict}, {"status", e.status, o.Status}, {"code", e.code, o.Code},
		{"id", e.id, o.ID}, {"type", e.typ, o.Type},
	} {
		if part.want != "" && part.want != 0 && part.want != part.got {
			got := sanitize(fmt.Sprint(part.got))
			all = append(all, fmt.Sprintf("expected %s %v, got %s", part.what, part.want, got))
		}
	}
	return all
}

// digestLike also matches a damaged note, because a change of any byte must be found, those of the
// note included.
var (
	digestLike = regexp.MustCompile(`(?m)^(?:#.*[0-9a-f]{31}.*|.*sha256: [0-9a-f]{31}.*)\n?`)
	digestNote = regexp.MustCompile(`^# sha256: ([0-9a-f]{64})\n$`)
)

// tampered returns how a recording differs from its note sha256, the digest of the rest of the
// file, if it has one.
func tampered(data []byte) string {
	at := digestLike.FindIndex(data)
	if at == nil {
		return ""
	}
	note := digestNote.FindSubmatch(data[at[0]:at[1]])
	sum := sha256.Sum256(append(slices.Clone(data[:at[0]]), data[at[1]:]...))
	if note == nil || hex.EncodeToString(sum[:]) != string(note[1]) {
		return "the file has changed since it was recorded: its sha256 differs (remove that note if you changed it)"
	}
	return ""
}

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
	note     string       // of the event
}

// devOutcome is the state of one handler's task.
type devOutcome struct {
	Handler string `json:"handler"`
	State   string `json:"state"` // done, dead, or pending if it is tried again
	Reason  string `json:"reason,omitempty"`
	Error   string `json:"error,omitempty"`
}

// text implements what a screen shows.
func (o devResult) text(on *screen) string {
	why, mark := cmp.Or(o.About, o.Type), "ok  "
	if o.Verdict == verdictRefused || o.Verdict == verdictFailed {
		why = strings.Trim(why+": "+strings.ReplaceAll(o.Code, "_", " "), ": ")
	}
	if !o.OK {
		mark = on.paint("31", "FAIL")
	}
	verdict := on.paint(colours[o.Verdict], fmt.Sprintf("%-11s", o.Verdict))
	lines := []string{fmt.Sprintf("%s %-*s  %s %d  %s", mark, on.width, o.File, verdict, o.Status, sanitize(why))}
	detail := func(prefix, text string) { lines = append(lines, "       "+prefix+sanitize(text)) }
	for _, miss := range o.Misses {
		detail("", miss)
	}
	for _, handler := range o.Handlers {
		detail("", handler.text())
	}
	if o.Handlers != nil && len(o.Handlers) == 0 {
		_, why, unmet := strings.Cut(o.note, "; ")
		if !unmet {
			why = "none matches the type " + o.Type
		}
		detail("", "no handler: "+why)
	}
	for line := range strings.Lines(o.Printed) {
		detail("| ", strings.TrimRight(line, "\r\n"))
	}
	if !o.OK && o.Why != "" {
		detail("why: ", o.Why)
	}
	return strings.Join(lines, "\n")
}

// text returns the outcome in words.
func (o devOutcome) text() string {
	state := o.State
	switch {
	case o.State == "pending" && o.Error != "":
		state = "failed, will be tried again"
	case o.State == "pending" || o.State == "running":
		state = "still running"
	}
	if o.Reason != "" && o.Reason != "failed" {
		state += " (" + strings.ReplaceAll(o.Reason, "_", " ") + ")"
	}
	if o.Error != "" {
		state += ": " + o.Error
	}
	return o.Handler + ": " + state
}

// devSummary counts the results and the events in the store.
type devSummary struct {
	Deliveries  int            `json:"deliveries"`
	Events      int            `json:"events"`
	OK          bool           `json:"ok"`
	Quarantined int            `json:"quarantined"`
	Verdicts    map[string]int `json:"verdicts"`
	// Wrong are the differences between the store and the results.
	Wrong []string `json:"wrong,omitempty"`
}

func (h *devSummary) text(on *screen) string {
	var counts []string
	for _, v := range verdicts {
		if h.Verdicts[v] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", h.Verdicts[v], v))
		}
	}
	store := fmt.Sprintf("the store holds exactly the %s, and %d quarantined", count(h.Events, "accepted event"),
		h.Quarantined)
	if len(h.Wrong) > 0 {
		store = on.paint("31", "the store does not hold exactly what was accepted")
	}
	return fmt.Sprintf("\n%s: %s\n%s", count(h.Deliveries, "delivery"), strings.Join(counts, ", "), store)
}

// devRun is a receiver for recordings: HTTP on loopback and a store on disk, with a clock of its
// own.
type devRun struct {
	senderFlags
	settings *config.Settings
	plan     *config.Plan
	store    dedup.Store
	offset   atomic.Int64 // of its clock, which starts at the time of each recording, in nanoseconds
	address  string
	pass     string // the pass of our own deliveries
	observed chan receiver.Observation
	output   handlerOutput // with --config
	closers  []func() error
}

// passHeader carries the pass. The keys of the bundled deliveries are public, so only deliveries
// with the pass are received; the field is removed before the receiver sees the request.
const passHeader = "Eyelet-Dev-Pass"

// newDevRun opens a receiver.
func newDevRun(ctx context.Context, p *program, s *config.Settings, f senderFlags) (run *devRun, err error) {
	run = &devRun{senderFlags: f, settings: s, pass: rand.Text(), observed: make(chan receiver.Observation, 1024)}
	defer func() { //nolint:contextcheck // closing takes its own time
		if err != nil {
			err = errors.Join(err, run.close())
		}
	}()
	o := config.BuildOptions{Stdout: io.Discard, TestKeys: true}
	if f.config != "" {
		o.Stdout, o.ExecOutput = &run.output, &run.output
	}
	if run.plan, err = s.Build(ctx, o); err != nil {
		return run, err
	}
	run.closers = append(run.closers, run.plan.Close)
	log := server.NewLog(p.Err, "text", slog.LevelError).Logger
	if run.store, err = s.OpenStore(ctx, log); err != nil {
		return run, err
	}
	run.closers = append(run.closers, run.store.Close)
	c := run.plan.Config
	c.Store, c.Logger = run.store, log
	c.Clock = func() time.Time { return time.Now().Add(time.Duration(run.offset.Load())) }
	c.Observe = func(_ context.Context, o receiver.Observation) {
		if o.Kind == receiver.KindDelivery {
			run.observed <- o
		}
	}
	rx, err := receiver.Open(c)
	if err != nil {
		return run, usage.Errorf("", "%v", err)
	}
	run.closers = append(run.closers, rx.Close)
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return run, usage.Errorf("", "loopback: %s", usage.RootCause(err))
	}
	run.address = "http://" + ln.Addr().String()
	serving := &http.Server{Handler: run.requirePass(server.Handler(rx)), ReadHeaderTimeout: s.Limits.HeaderTimeout,
		MaxHeaderBytes: config.DefaultHead}
	run.closers = append(run.closers, serving.Close)
	go func() { _ = serving.Serve(ln) }() // ends with close
	return run, nil
}

func (r *devRun) close() error {
	var errs []error
	for _, end := range slices.Backward(r.closers) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
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

// check checks and prints the results and the content of the store.
func (r *devRun) check(ctx context.Context, results []devResult, screen *screen) error {
	sum, err := r.compare(ctx, results)
	if err != nil {
		return failf("the store cannot be read: %v", err)
	}
	var missed []string
	for _, o := range results {
		sum.Verdicts[o.Verdict]++
		if !o.OK {
			missed = append(missed, o.File)
		}
	}
	sum.OK = len(missed)+len(sum.Wrong) == 0
	screen.show(sum)
	switch {
	case len(missed) > 0:
		return failf("not as expected: %s", strings.Join(missed, ", "))
	case len(sum.Wrong) > 0:
		return failf("the store does not hold exactly what was accepted: %s", strings.Join(sum.Wrong, "; "))
	}
	return nil
}

// send sends deliveries and prints the results.
func (r *devRun) send(ctx context.Context, trials []trial, screen *screen) (results []devResult, err error) {
	for _, t := range trials {
		o, err := r.deliver(ctx, t)
		if _, ok := usage.Find(err); ok {
			return nil, err
		} else if err != nil {
			return nil, failf("%s: %v", t.name, err)
		}
		results = append(results, o)
		screen.show(o)
	}
	return results, nil
}

// deliver sends one delivery and compares its result with the expectation.
func (r *devRun) deliver(ctx context.Context, t trial) (o devResult, err error) {
	o.File = t.name
	options := replay.Options{URL: r.address, Header: http.Header{passHeader: {r.pass}}}
	if t.rec != nil {
		o.Producer, o.About = t.rec.Note("producer"), t.rec.Note("about")
	} else {
		t.now = time.Now()
		t.rec, o.Producer, err = r.sign(ctx, t.input, &options)
		if err != nil {
			return o, err
		}
	}
	r.offset.Store(int64(time.Until(t.now)))
	res, err := replay.Send(ctx, t.rec, options)
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
	o.Misses = t.misses(o)
	switch { // nothing was expected
	case t.verdict != "":
	case o.Code == codeNotFound:
		path, _, _ := strings.Cut(t.rec.Target, "?")
		o.Misses = append(o.Misses, fmt.Sprintf("no endpoint has the path %s; there are: /webhooks/%s", path,
			strings.Join(r.settings.ProducerNames(), ", /webhooks/")))
	case t.body != nil && (o.Verdict == verdictRefused || o.Verdict == verdictFailed):
		o.Misses = append(o.Misses, "the payload was signed for this run, and not accepted")
	}
	if r.config != "" && o.Verdict == verdictNew {
		if o.Handlers, o.note, err = r.outcomes(ctx, o.Event); err != nil {
			return o, err
		}
		o.Printed = r.output.take()
		if slices.ContainsFunc(o.Handlers, func(h devOutcome) bool { return h.State != "done" }) {
			o.Misses = append(o.Misses, "a handler failed")
		}
	}
	if t.tampered != "" {
		o.Misses = append(o.Misses, t.tampered)
	}
	o.OK = len(o.Misses) == 0
	return o, nil
}

// sign makes a delivery of a payload, signed by the producer that its path or --producer names.
func (r *devRun) sign(
	ctx context.Context, one input, o *replay.Options,
) (rec *replay.Recording, producer string, err error) {
	known, flags := r.settings.ProducerNames(), r.senderFlags
	name, stem := one.origin(flags.producer, known)
	if name == "" {
		return nil, "", noOrigin(one, known)
	}
	flags.producer, flags.url, flags.signedURL = name, r.address, r.plan.URL
	from, err := flags.sender(ctx, r.settings, r.plan)
	if err != nil {
		return nil, "", err
	}
	rec, _, o.Sign, err = from.deliver(one.draft(from, stem)) //nolint:contextcheck // nothing is sent
	o.SignedURL, o.Now = r.plan.URL, from.now
	return rec, name, err
}

// outcomes waits until every handler of the event was run once, and returns their states, and the
// note of the event.
func (r *devRun) outcomes(ctx context.Context, event string) (all []devOutcome, note string, err error) {
	for end := time.Now().Add(35 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		rec, err := r.store.Get(ctx, event)
		if err != nil {
			return nil, "", err
		}
		all, busy := []devOutcome{}, false
		for _, task := range rec.Tasks {
			tried := task.Err != "" || task.Postponed > 0
			busy = busy || task.State == dedup.Running || task.State == dedup.Pending && !tried
			all = append(all, devOutcome{task.Handler, task.State.String(), task.Reason, task.Err})
		}
		if !busy || time.Now().After(end) {
			return all, rec.Note, nil
		}
	}
}

// handlerOutput collects what handlers print. It can be used by several goroutines.
type handlerOutput struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// maxPrinted bounds what is kept until it is taken.
const maxPrinted = 64 << 10

func (p *handlerOutput) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.b.Write(data[:min(len(data), max(0, maxPrinted-p.b.Len()))])
	return len(data), nil
}

// take returns what was printed since the last call.
func (p *handlerOutput) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.b.String()
	p.b.Reset()
	return text
}

// compare checks that the store holds exactly the accepted events, each once.
func (r *devRun) compare(ctx context.Context, results []devResult) (*devSummary, error) {
	sum := &devSummary{Deliveries: len(results), Verdicts: map[string]int{}}
	missing, file := map[string]int{}, map[string]string{} // by endpoint and identifier, which events may share
	for _, o := range results {
		if o.Verdict == verdictNew {
			missing[o.Producer+" "+o.ID]++
			file[o.Producer+" "+o.ID] = o.File
		}
	}
	for rec, err := range r.store.List(ctx, dedup.Filter{}) {
		if err != nil {
			return nil, err
		}
		if rec.QuarantineReason != "" {
			sum.Quarantined++
			continue
		}
		sum.Events++
		missing[rec.Payload.Endpoint+" "+cmp.Or(rec.Payload.VendorID, rec.Key.ID)]--
	}
	for name, n := range missing {
		shown := strconv.Quote(sanitize(name))
		if n > 0 {
			sum.Wrong = append(sum.Wrong, shown+" of "+file[name]+" was accepted and is not in the store")
		} else if n < 0 {
			sum.Wrong = append(sum.Wrong, shown+" is in the store and was not accepted, or is there twice")
		}
	}
	slices.Sort(sum.Wrong)
	return sum, nil
}
