package torture

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

// oracle records what the receiver promised: the payload of every delivery and, once one was read,
// its first response.
type oracle struct {
	progress io.Writer
	mu       sync.Mutex
	sent     map[string]*sent
	order    []string // identifiers in the order of sending
	unknown  int
	dups     int
	wrong    int
	events   map[string]bool // event ids before the last duplicates
	loaded   bool            // the load has ended: every further response is a replay
}

type sent struct {
	typ    string
	lane   string
	body   []byte
	answer string // status and body of the first response; empty without one
}

func newOracle(progress io.Writer) *oracle {
	return &oracle{progress: progress, sent: map[string]*sent{}, events: map[string]bool{}}
}

// counts returns the counts of deliveries so far.
func (o *oracle) counts() Tally {
	acknowledged := len(o.ids(true))
	o.mu.Lock()
	defer o.mu.Unlock()
	return Tally{Acknowledged: acknowledged, Duplicates: o.dups, Unknown: o.unknown, Wrong: o.wrong}
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

// load sends deliveries from several clients until ctx ends. Every fifth one is a duplicate, of
// this round or an earlier one.
func (o *oracle) load(ctx context.Context, url string, clients int, seed uint64, withCrasher bool) {
	if url == "" {
		return
	}
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			if withCrasher && n == 0 {
				o.send(ctx, client, url, o.create(rng, typeCrash))
			}
			for ctx.Err() == nil {
				id := o.pickSent(rng)
				if id == "" || rng.IntN(5) > 0 {
					id = o.create(rng, [...]string{"push", "push", typeLane, typeAsk}[rng.IntN(4)])
				}
				if !o.send(ctx, client, url, id) {
					return // the receiver is gone
				}
			}
		})
	}
	wg.Wait()
}

// create makes a new event. The payload is known before anything is sent.
func (o *oracle) create(rng *rand.Rand, typ string) string {
	id := fmt.Sprintf("%s-%016x%016x", typ, rng.Uint64(), rng.Uint64())
	s := &sent{typ: typ, body: make([]byte, 200+rng.IntN(1800))}
	for i := range s.body {
		s.body[i] = byte(rng.Uint32())
	}
	if typ == typeLane {
		s.lane = strconv.Itoa(rng.IntN(5))
		s.body = fmt.Appendf(nil, `{"lane":"%s","pad":"%x"}`, s.lane, s.body)
	}
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
	status, body, replayed, err := exchange(client, req)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.unknown++
		return false
	}
	o.recordAnswer(id, status, body, replayed)
	return true
}

func exchange(client *http.Client, req *http.Request) (status int, body []byte, replayed bool, err error) {
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, false, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, resp.Header.Get("Idempotency-Replayed") == "true", err
}

// recordAnswer compares a response with the earlier ones; the oracle's lock is held. The responses
// to two concurrent deliveries of one event may be read in either order, so during the load only
// their content is compared. After the load every response must be marked as a replay.
func (o *oracle) recordAnswer(id string, status int, body []byte, replayed bool) {
	if status == http.StatusServiceUnavailable {
		return // transient: nothing was promised
	}
	s, answer := o.sent[id], fmt.Sprintf("%d %s", status, body)
	switch {
	case status != http.StatusOK:
		o.violation(&o.wrong, "%s: answered %s", id, answer)
	case s.answer == "":
		s.answer = answer
	case s.answer != answer:
		o.violation(&o.wrong, "%s: first answered %q, then %q", id, s.answer, answer)
	case o.loaded && !replayed:
		o.violation(&o.wrong, "%s: a duplicate's answer is not marked as a replay", id)
	default:
		o.dups++
	}
}

// duplicates sends every acknowledged event once more: each must get its first response.
func (o *oracle) duplicates(ctx context.Context, url string) {
	o.mu.Lock()
	o.loaded = true
	o.mu.Unlock()
	for _, id := range o.deliver(ctx, url, o.ids(true)) {
		o.mu.Lock()
		o.violation(&o.wrong, "%s: no answer to the last duplicate", id)
		o.mu.Unlock()
	}
}

// retry delivers events without a response until they have one or the receiver is gone. Answer
// handlers may need a second attempt.
func (o *oracle) retry(ctx context.Context, url string) error {
	const tries = 10
	for range tries {
		ids := o.ids(false)
		if len(ids) == 0 || len(o.deliver(ctx, url, ids)) > 0 {
			return nil
		}
	}
	return fmt.Errorf("%d events get no answer, however often they are sent", len(o.ids(false)))
}

// deliver sends events, several at a time, and returns those that got no response.
func (o *oracle) deliver(ctx context.Context, url string, all []string) (silent []string) {
	if url == "" {
		return all
	}
	const clients = 16
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	ids := make(chan string, len(all))
	for _, id := range all {
		ids <- id
	}
	close(ids)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for id := range ids {
				if !o.send(ctx, client, url, id) {
					mu.Lock()
					silent = append(silent, id)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return silent
}

// check compares the store and the effects with what was promised.
func (o *oracle) check(ctx context.Context, dir string) (Tally, error) {
	sent := o.counts()
	t := Tally{Acknowledged: sent.Acknowledged, Unknown: sent.Unknown}
	records := map[string]dedup.Record{}
	err := eachRecord(ctx, dir, func(r dedup.Record) {
		if _, twice := records[r.Payload.VendorID]; twice || r.Generation != 1 {
			o.violation(&t.Doubled, "%s: accepted twice", r.Payload.VendorID)
		}
		records[r.Payload.VendorID] = r
		o.events[r.Event] = true
	})
	if err != nil {
		return t, err
	}
	runs, err := readEffects(effects(dir))
	if err != nil {
		return t, err
	}
	t.Runs, t.Crashes, t.Laned = runs.lines, runs.crashes, len(runs.laned)
	for id, s := range o.sent {
		o.checkEvent(&t, id, s, records, runs)
	}
	o.checkLanes(&t, records, runs)
	return t, nil
}

// checkAgain adds the results of the last duplicates: their responses, and their records.
func (o *oracle) checkAgain(ctx context.Context, dir string, t *Tally) error {
	sent := o.counts()
	t.Duplicates, t.Wrong = sent.Duplicates, t.Wrong+sent.Wrong
	return eachRecord(ctx, dir, func(r dedup.Record) {
		if !o.events[r.Event] {
			o.violation(&t.Doubled, "%s: accepted twice, the second time as its last duplicate", r.Payload.VendorID)
		}
	})
}

// eachRecord calls f for every record of the store that a child left.
func eachRecord(ctx context.Context, dir string, f func(dedup.Record)) error {
	store, err := badgerstore.Open(storeDir(dir), badgerstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
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
	if !bytes.Equal(r.Payload.Body, s.body) {
		o.violation(&t.Damaged, "%s: stored with another payload", id)
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
	"push": {"first", "second"}, typeLane: {"laned"}, typeAsk: {"ask"}, typeCrash: {"beside"},
}

// checkRuns requires that each handler of a stored event ran with the stored payload under one
// event id, and that a crasher ran at most as often as it has attempts.
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
		for _, run := range got {
			if run != r.Event+" "+hex.EncodeToString(sum[:]) {
				o.violation(&t.Damaged, "%s: handler %s ran with another event or payload", id, h)
			}
		}
	}
}

// effectLog is the parsed effects file.
type effectLog struct {
	lines, crashes int
	of             map[string][]string // "handler id" -> "event payload-digest" of each run
	laned          []string            // events that ran in lanes, in order
	crashesOf      map[string]int
}

func readEffects(path string) (*effectLog, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	log := &effectLog{of: map[string][]string{}, crashesOf: map[string]int{}}
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		line, whole := strings.CutSuffix(scan.Text(), lineEnd)
		if !whole {
			continue
		}
		part := strings.Fields(line)
		if len(part) != 4 {
			return nil, fmt.Errorf("%s: not a line of effects: %q", path, scan.Text())
		}
		log.lines++
		if part[0] == "crash" {
			log.crashes++
			log.crashesOf[part[2]]++
			continue
		}
		if part[0] == "laned" {
			log.laned = append(log.laned, part[2])
		}
		key := part[0] + " " + part[2]
		log.of[key] = append(log.of[key], part[1]+" "+part[3])
	}
	return log, scan.Err()
}
