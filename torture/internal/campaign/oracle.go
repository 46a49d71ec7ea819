package campaign

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// oracle records what the receiver promised: the payload of every delivery and, once one was read,
// its first response.
type oracle struct {
	progress  io.Writer
	mu        sync.Mutex
	sent      map[string]*sent
	order     []string // identifiers in the order of sending
	unknown   int
	dups      int
	transient int
	wrong     int
	events    map[string]bool // event ids before the last duplicates
	loaded    bool            // the load has ended: every further response is a replay
	effects   string          // of handlers
}

type sent struct {
	typ    string
	lane   string
	body   []byte
	answer string // status and body of the first response; empty without one

	began, answered time.Time // of the first delivery, and of the first response
}

func newOracle(progress io.Writer) *oracle {
	return &oracle{progress: progress, sent: map[string]*sent{}, events: map[string]bool{}}
}

// counts returns the counts of deliveries so far.
func (o *oracle) counts() Tally {
	acknowledged := len(o.ids(true))
	o.mu.Lock()
	defer o.mu.Unlock()
	return Tally{Acknowledged: acknowledged, Duplicates: o.dups, Unknown: o.unknown, Wrong: o.wrong,
		Transient: o.transient}
}

// ids returns the events with a response, or those without one, in the order of sending.
func (o *oracle) ids(answered bool) (ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range o.order {
		if (o.sent[id].answer != "") == answered {
			ids = append(ids, id)
		}
	}
	return ids
}

// violation counts a broken promise.
func (o *oracle) violation(count *int, format string, args ...any) {
	*count++
	if o.progress != nil {
		_, _ = fmt.Fprintf(o.progress, "BROKEN: "+format+"\n", args...)
	}
}

// broken is violation for a caller without the lock.
func (o *oracle) broken(count *int, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.violation(count, format, args...)
}

// acknowledged reports whether an event has a response.
func (o *oracle) acknowledged(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent[id].answer != ""
}

// load sends deliveries from several clients until ctx ends. Every fifth one is a duplicate, of
// this round or an earlier one.
func (o *oracle) load(ctx context.Context, url string, clients int, seed uint64, withCrasher bool) {
	if url == "" {
		return
	}
	clientsOf(ctx, clients, seed, func(rng *rand.Rand, client *http.Client, n int) bool {
		if n == 0 && withCrasher {
			withCrasher = false // no other client reads it
			o.send(ctx, client, url, o.create(rng, typeCrash))
		}
		return o.send(ctx, client, url, o.next(rng, "push", "push", typeLane, typeAsk)) // else the receiver is gone
	})
}

// clientsOf runs several clients until ctx ends, or their deliver returns false.
func clientsOf(ctx context.Context, clients int, seed uint64, deliver func(*rand.Rand, *http.Client, int) bool) {
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			for ctx.Err() == nil && deliver(rng, client, n) {
			}
		})
	}
	wg.Wait()
}

// patience is how long a client waits. It is longer than a receiver waits for its store.
const patience = 40 * time.Second

// next returns the identifier of a new event of one of the types, or for every fifth call of one
// that was sent.
func (o *oracle) next(rng *rand.Rand, types ...string) string {
	if id := o.pickSent(rng); id != "" && rng.IntN(5) == 0 {
		return id
	}
	return o.create(rng, types[rng.IntN(len(types))])
}

// create makes a new event. The payload is known before anything is sent.
func (o *oracle) create(rng *rand.Rand, typ string) string {
	if typ == typeLane {
		return o.createIn(rng, strconv.Itoa(rng.IntN(5)))
	}
	return o.add(rng, &sent{typ: typ, body: randomBody(rng)})
}

// createIn makes a new event of a lane.
func (o *oracle) createIn(rng *rand.Rand, lane string) string {
	body := fmt.Appendf(nil, `{"lane":"%s","pad":"%x"}`, lane, randomBody(rng))
	return o.add(rng, &sent{typ: typeLane, lane: lane, body: body})
}

func randomBody(rng *rand.Rand) []byte {
	body := make([]byte, 200+rng.IntN(1800))
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	return body
}

func (o *oracle) add(rng *rand.Rand, s *sent) (id string) {
	id = fmt.Sprintf("%s-%016x%016x", s.typ, rng.Uint64(), rng.Uint64())
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[id] = s
	o.order = append(o.order, id)
	return id
}

// pickSent picks an identifier that was sent before, mostly a recent one.
func (o *oracle) pickSent(rng *rand.Rand) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.order) == 0 {
		return ""
	}
	span := len(o.order)
	if rng.IntN(4) > 0 {
		span = min(span, 100)
	}
	return o.order[len(o.order)-1-rng.IntN(span)]
}

// send delivers an event and records the response. It returns false if none could be read.
func (o *oracle) send(ctx context.Context, client *http.Client, url, id string) bool {
	o.mu.Lock()
	if o.sent[id].began.IsZero() {
		o.sent[id].began = time.Now()
	}
	s := *o.sent[id]
	o.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/webhooks/github", bytes.NewReader(s.body))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(s.body)
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("X-GitHub-Event", s.typ)
	req.Header.Set("X-GitHub-Delivery", id)
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	got, err := exchange(client, req)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.unknown++
		return false
	}
	o.recordAnswer(id, got)
	return true
}

// response is what a client reads.
type response struct {
	status int
	header http.Header
	body   []byte
}

func exchange(client *http.Client, req *http.Request) (r response, err error) {
	resp, err := client.Do(req)
	if err != nil {
		return r, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, body}, err
}

// recordAnswer compares a response with the earlier ones; the oracle's lock is held. The responses
// to two concurrent deliveries of one event may be read in either order, so during the load only
// their content is compared. After the load every response must be marked as a replay.
func (o *oracle) recordAnswer(id string, got response) {
	s, answer := o.sent[id], fmt.Sprintf("%d %s", got.status, got.body)
	switch {
	case got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") != "":
		o.transient++ // nothing was promised
	case got.status != http.StatusOK:
		o.violation(&o.wrong, "%s: answered %s", id, answer)
	case s.answer == "":
		s.answer, s.answered = answer, time.Now()
	case s.answer != answer:
		o.violation(&o.wrong, "%s: first answered %q, then %q", id, s.answer, answer)
	case o.loaded && got.header.Get("Idempotency-Replayed") != "true":
		o.violation(&o.wrong, "%s: a duplicate's answer is not marked as a replay", id)
	default:
		o.dups++
	}
}

// duplicates sends every acknowledged event once more: each must get its first response.
func (o *oracle) duplicates(ctx context.Context, url func() string) {
	o.mu.Lock()
	o.loaded = true
	o.mu.Unlock()
	for _, id := range o.deliver(ctx, url, o.ids(true)) {
		o.broken(&o.wrong, "%s: no answer to the last duplicate", id)
	}
}

// retry delivers events without a response until they have one or the receiver is gone. Answer
// handlers may need a second attempt.
func (o *oracle) retry(ctx context.Context, url string) error {
	const tries = 10
	for range tries {
		ids := o.ids(false)
		if len(ids) == 0 || len(o.deliver(ctx, func() string { return url }, ids)) > 0 {
			return nil
		}
	}
	return fmt.Errorf("%d events get no answer, however often they are sent", len(o.ids(false)))
}

// deliver sends events, several at a time, and returns those that got no response.
func (o *oracle) deliver(ctx context.Context, url func() string, all []string) (silent []string) {
	ids := make(chan string, len(all))
	for _, id := range all {
		ids <- id
	}
	close(ids)
	var mu sync.Mutex
	clientsOf(ctx, 16, 0, func(_ *rand.Rand, client *http.Client, _ int) bool {
		id, more := <-ids
		if more && !o.send(ctx, client, url(), id) {
			mu.Lock()
			silent = append(silent, id)
			mu.Unlock()
		}
		return more
	})
	return silent
}

// lister calls f for every record of a store.
type lister func(ctx context.Context, f func(dedup.Record)) error

// check compares the store and the effects with what was promised. It returns the records by the
// identifiers of their senders.
func (o *oracle) check(ctx context.Context, each lister, runs *effectLog) (Tally, map[string]dedup.Record, error) {
	sent := o.counts()
	t := Tally{Acknowledged: sent.Acknowledged, Unknown: sent.Unknown, Transient: sent.Transient}
	records := map[string]dedup.Record{}
	err := each(ctx, func(r dedup.Record) {
		if _, twice := records[r.Payload.VendorID]; twice || r.Generation != 1 {
			o.violation(&t.Doubled, "%s: accepted twice", r.Payload.VendorID)
		}
		o.checkStored(&t, &r)
		records[r.Payload.VendorID] = r
		o.events[r.Event] = true
	})
	t.Runs, t.Crashes, t.Laned = runs.lines, runs.crashes, len(runs.laned)
	for id, s := range o.sent {
		o.checkEvent(&t, id, s, records, runs)
	}
	return t, records, err
}

// checkStored compares the payload of a record with what was sent, and forgets it.
func (o *oracle) checkStored(t *Tally, r *dedup.Record) {
	if s := o.sent[r.Payload.VendorID]; s != nil && !bytes.Equal(r.Payload.Body, s.body) {
		o.violation(&t.Damaged, "%s: stored with another payload", r.Payload.VendorID)
	}
	r.Payload.Body = nil
}

// checkAgain adds the results of the last duplicates: their responses, and their records.
func (o *oracle) checkAgain(ctx context.Context, each lister, t *Tally) error {
	sent := o.counts()
	t.Duplicates, t.Wrong = sent.Duplicates, t.Wrong+sent.Wrong
	return each(ctx, func(r dedup.Record) {
		if !o.events[r.Event] {
			o.violation(&t.Doubled, "%s: accepted twice, the second time as its last duplicate", r.Payload.VendorID)
		}
	})
}

// listStore calls f for every record of a store, and closes it.
func listStore(ctx context.Context, store dedup.Store, f func(dedup.Record)) error {
	for r, err := range store.List(ctx, dedup.Filter{Body: true}) {
		if err != nil {
			return errors.Join(err, store.Close())
		}
		f(r)
	}
	return store.Close()
}

func (o *oracle) checkEvent(t *Tally, id string, s *sent, records map[string]dedup.Record, runs *effectLog) {
	r, stored := records[id]
	if !stored {
		if s.answer != "" {
			o.violation(&t.Lost, "%s: acknowledged and gone", id)
		}
		return
	}
	if s.answer != "" && !strings.Contains(s.answer, r.Event) {
		o.violation(&t.Wrong, "%s: the answer %q does not name the event %s", id, s.answer, r.Event)
	}
	if s.typ == typeAsk && s.answer != "" {
		if t.Answered++; s.answer != fmt.Sprintf("%d %s", r.Response.Status, r.Response.Body) {
			o.violation(&t.Wrong, "%s: answered %q, and another answer is stored", id, s.answer)
		}
	}
	o.checkRuns(t, id, s, r, runs)
}

// checkLanes requires the successful runs of each lane to be in accepted order. A run whose
// outcome was not recorded before a kill is repeated before the next.
func (o *oracle) checkLanes(t *Tally, records map[string]dedup.Record, runs *effectLog) {
	accepted, ran := map[string][]string{}, map[string][]string{}
	for id, r := range records {
		if s := o.sent[id]; s != nil && s.typ == typeLane {
			accepted[s.lane] = append(accepted[s.lane], r.Payload.VendorID)
		}
	}
	for _, id := range runs.laned {
		s := o.sent[id]
		if s == nil {
			continue
		}
		if lane := ran[s.lane]; len(lane) == 0 || lane[len(lane)-1] != id {
			ran[s.lane] = append(lane, id)
		}
	}
	for lane, ids := range accepted {
		slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(records[a].Seq, records[b].Seq) })
		if !slices.Equal(ids, ran[lane]) {
			o.violation(&t.Disordered, "lane %s: %d events were accepted, and their %d runs were not in that order",
				lane, len(ids), len(ran[lane]))
		}
	}
}

// handlersOf lists the handlers that must have run, by event type.
var handlersOf = map[string][]string{
	"push": {"first", "second"}, typeLane: {"laned"}, typeSlow: {"slow"}, typeAsk: {"ask"}, typeCrash: {"beside"},
}

// checkRuns requires that each handler of a stored event ran with the stored payload under one
// event id, once if effects happen once, and that a crasher ran at most as often as it has
// attempts.
func (o *oracle) checkRuns(t *Tally, id string, s *sent, r dedup.Record, runs *effectLog) {
	sum := sha256.Sum256(s.body)
	if n := runs.crashesOf[id]; n > maxAttempts {
		o.violation(&t.Doubled, "%s: a handler with %d attempts killed the process %d times", id, maxAttempts, n)
	}
	for _, h := range handlersOf[s.typ] {
		got := runs.of[h+" "+id]
		if len(got) == 0 && (s.typ != typeAsk || s.answer != "") {
			o.violation(&t.Unhandled, "%s: handler %s never ran (state %s)", id, h, r.State())
		}
		if len(got) > 1 && exact(o.effects) && (o.effects != EffectsOnce || s.typ != typeAsk) {
			o.violation(&t.Twice, "%s: handler %s has %d effects", id, h, len(got))
		} else if len(got) > 1 {
			t.Repeated++
		}
		for _, run := range got {
			if run != r.Event+" "+hex.EncodeToString(sum[:]) {
				o.violation(&t.Damaged, "%s: handler %s ran with another event or payload", id, h)
			}
		}
	}
}

// effectLog are the effects of handlers.
type effectLog struct {
	lines, crashes int
	of             map[string][]string // "handler id" -> "event payload-digest" of each run
	laned          []string            // events that ran in lanes, in order
	crashesOf      map[string]int
}

func newEffectLog() *effectLog {
	return &effectLog{of: map[string][]string{}, crashesOf: map[string]int{}}
}

// readEffects reads the effects, and calls each for every line of the log.
func (t *Harness) readEffects(ctx context.Context, db *database, each func(run)) (*effectLog, error) {
	log := newEffectLog()
	err := readRuns(t.Dir, func(r run) {
		each(r)
		log.crash(r)
		if db == nil || t.Effects == EffectsLogged || t.Effects == EffectsOnce && r.handler == "ask" {
			log.add(r)
		}
	})
	if err == nil && db != nil && t.Effects != EffectsLogged {
		err = db.effects(ctx, log.add)
	}
	return log, err
}

// crash counts the starts of crashers.
func (log *effectLog) crash(r run) {
	if r.kind == kindStart && r.handler == "crasher" {
		log.crashes++
		log.crashesOf[r.vendor]++
	}
}

// add adds the effect of a handler.
func (log *effectLog) add(r run) {
	if r.kind != kindEnd {
		return
	}
	log.lines++
	if r.handler == "laned" {
		log.laned = append(log.laned, r.vendor)
	}
	key := r.handler + " " + r.vendor
	log.of[key] = append(log.of[key], r.event+" "+r.detail)
}
