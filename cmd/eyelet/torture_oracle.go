package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

// oracle knows what the receiver promised: for every delivery that it sent, the payload and, once one was
// read, the first answer.
type oracle struct {
	progress io.Writer
	mu       sync.Mutex
	sent     map[string]*sent
	order    []string // identifiers in the order of sending
	unknown  int
	dups     int
	wrong    int
	loaded   bool // the load is over: every answer from now on repeats one
}

type sent struct {
	typ    string
	body   []byte
	answer string // status and body of the first answer; empty while there is none
}

func newOracle(progress io.Writer) *oracle {
	return &oracle{progress: progress, sent: map[string]*sent{}}
}

func (o *oracle) counts() (acknowledged, duplicates, unknown int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.sent {
		if s.answer != "" {
			acknowledged++
		}
	}
	return acknowledged, o.dups, o.unknown
}

func (o *oracle) wrongAnswers() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wrong
}

func (o *oracle) fault(format string, args ...any) {
	if o.progress != nil {
		_, _ = fmt.Fprintf(o.progress, "BROKEN: "+format+"\n", args...)
	}
}

// load sends deliveries from a number of clients until ctx ends: mostly new ones, every fifth one that was
// sent before, in this round or an earlier one.
func (o *oracle) load(ctx context.Context, url string, clients int, seed uint64, withBomb bool) {
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
			if withBomb && n == 0 {
				o.send(ctx, client, url, o.create(rng, "bomb"))
			}
			for ctx.Err() == nil {
				id := o.again(rng)
				if id == "" || rng.IntN(5) > 0 {
					id = o.create(rng, "push")
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
	body := make([]byte, 200+rng.IntN(1800))
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[id] = &sent{typ: typ, body: body}
	o.order = append(o.order, id)
	return id
}

// again picks an identifier that was sent before, the recent ones above all.
func (o *oracle) again(rng *rand.Rand) string {
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

// send delivers an event and notes the answer. It returns false when no answer could be read.
func (o *oracle) send(ctx context.Context, client *http.Client, url, id string) bool {
	o.mu.Lock()
	s := *o.sent[id]
	o.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/webhooks/github", bytes.NewReader(s.body))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(tortureSecret))
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
	o.note(id, status, body, replayed)
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

// note compares an answer with what was answered before; the oracle's lock is held. Of two concurrent
// deliveries of one event the answers may be read in either order, so during the load only what they say is
// compared; once the load is over, every answer must be marked as a replay.
func (o *oracle) note(id string, status int, body []byte, replayed bool) {
	if status == http.StatusServiceUnavailable {
		return // transient: nothing was promised
	}
	s, answer := o.sent[id], fmt.Sprintf("%d %s", status, body)
	switch {
	case status != http.StatusOK:
		o.wrong++
		o.fault("%s: answered %s", id, answer)
	case s.answer == "":
		s.answer = answer
	case s.answer != answer:
		o.wrong++
		o.fault("%s: first answered %q, then %q", id, s.answer, answer)
	case o.loaded && !replayed:
		o.wrong++
		o.fault("%s: a duplicate's answer is not marked as a replay", id)
	default:
		o.dups++
	}
}

// duplicates sends every acknowledged event once more: each must be answered as the first time.
func (o *oracle) duplicates(ctx context.Context, url string) {
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	o.mu.Lock()
	o.loaded = true
	ids := make(chan string, len(o.order))
	for _, id := range o.order {
		if o.sent[id].answer != "" {
			ids <- id
		}
	}
	close(ids)
	o.mu.Unlock()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for id := range ids {
				if !o.send(ctx, client, url, id) {
					o.mu.Lock()
					o.wrong++
					o.fault("%s: no answer to the last duplicate", id)
					o.mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
}

// check compares the store and the effects with what was promised.
func (o *oracle) check(ctx context.Context, dir string) (tally, error) {
	store, err := badgerstore.Open(storeDir(dir), badgerstore.Options{})
	if err != nil {
		return tally{}, err
	}
	defer func() { _ = store.Close() }()
	var t tally
	t.Acknowledged, t.Duplicates, t.Unknown = o.counts()
	t.Wrong = o.wrongAnswers()
	records := map[string]dedup.Record{}
	for r, err := range store.List(ctx, dedup.Filter{Body: true}) {
		if err != nil {
			return t, err
		}
		if _, twice := records[r.Key.ID]; twice || r.Generation != 1 {
			t.Doubled++
			o.fault("%s: accepted twice", r.Key.ID)
		}
		records[r.Key.ID] = r
	}
	runs, err := readEffects(effects(dir))
	if err != nil {
		return t, err
	}
	t.Runs, t.Bombs = runs.lines, runs.bombs
	for id, s := range o.sent {
		o.checkEvent(&t, id, s, records, runs)
	}
	return t, nil
}

func (o *oracle) checkEvent(t *tally, id string, s *sent, records map[string]dedup.Record, runs *effectLog) {
	r, stored := records[id]
	if s.answer != "" && !stored {
		t.Lost++
		o.fault("%s: acknowledged and gone", id)
		return
	}
	if !stored {
		return
	}
	if !bytes.Equal(r.Payload.Body, s.body) {
		t.Damaged++
		o.fault("%s: stored with another payload", id)
	}
	if s.answer != "" && !strings.Contains(s.answer, r.Event) {
		t.Wrong++
		o.fault("%s: the answer %q does not name the event %s", id, s.answer, r.Event)
	}
	o.checkRuns(t, id, s, r, runs)
}

// checkRuns wants each handler of a stored event to have run with the stored payload, under one event id, and
// a bomb to have gone off at most as often as it has attempts.
func (o *oracle) checkRuns(t *tally, id string, s *sent, r dedup.Record, runs *effectLog) {
	sum := sha256.Sum256(s.body)
	handlers := []string{"first", "second"}
	if s.typ == "bomb" {
		handlers = []string{"first"}
		if n := runs.bombsOf[id]; n > bombAttempts {
			t.Doubled++
			o.fault("%s: a handler with %d attempts killed the process %d times", id, bombAttempts, n)
		}
	}
	for _, h := range handlers {
		got := runs.of[h+" "+id]
		if len(got) == 0 {
			t.Unhandled++
			o.fault("%s: handler %s never ran (state %s)", id, h, r.State())
		}
		for _, run := range got {
			if run != r.Event+" "+hex.EncodeToString(sum[:]) {
				t.Damaged++
				o.fault("%s: handler %s ran with another event or payload", id, h)
			}
		}
	}
}

// effectLog is what the handlers wrote.
type effectLog struct {
	lines, bombs int
	of           map[string][]string // "handler id" -> "event payload-digest" of each run
	bombsOf      map[string]int
}

func readEffects(path string) (*effectLog, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	log := &effectLog{of: map[string][]string{}, bombsOf: map[string]int{}}
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		part := strings.Fields(scan.Text())
		if len(part) != 4 {
			return nil, fmt.Errorf("%s: not a line of effects: %q", path, scan.Text())
		}
		log.lines++
		if part[0] == "bomb" {
			log.bombs++
			log.bombsOf[part[2]]++
			continue
		}
		key := part[0] + " " + part[2]
		log.of[key] = append(log.of[key], part[1]+" "+part[3])
	}
	return log, scan.Err()
}
