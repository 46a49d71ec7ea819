package badgerstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	ossignal "os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// A child of the campaign opens the store in campaignDirEnv with small files and uses it in
// every way until it is ended. It prints what it is about to do if that may happen without an
// answer, and what was acknowledged:
//
//	open                         the store is open
//	new ID EVENT                 accepted
//	known ID EVENT               a duplicate
//	done EVENT, dead EVENT       finished
//	purging EVENT, purged EVENT
//	reopening EVENT, reopened EVENT
//	closed                       after SIGTERM
//	failed ERROR                 the store ended by itself
//	wrong TEXT                   it broke a promise
const (
	campaignDirEnv  = "EYELET_CAMPAIGN_DIR"
	campaignLifeEnv = "EYELET_CAMPAIGN_LIFE"
	campaignIDsEnv  = "EYELET_CAMPAIGN_IDS" // a file with "ID EVENT" of some events
	campaignStepEnv = killStepEnv
	// campaignMarkedEnv is an identifier to claim after a while. Identifiers with the prefix
	// campaignMarked have bodies that fill several blocks of the disk.
	campaignMarkedEnv = "EYELET_CAMPAIGN_MARKED"
	campaignMarked    = "marked-"
)

// campaignEvents bounds the new events of a life, so that the store stays small enough for
// frequent checks.
const campaignEvents = 400

// campaignOptions returns options with small files and frequent background work.
func campaignOptions() Options {
	o := cramped()
	o.rhythm = rhythm{
		look: 200 * time.Millisecond, sweep: time.Second, slack: time.Millisecond,
		reclaim: time.Second, flatten: 2 * time.Second,
		prune: time.Second, check: 2 * time.Second,
	}
	return o
}

// campaignMain runs a child if this process is one.
func campaignMain() bool {
	dir := os.Getenv(campaignDirEnv)
	if dir == "" {
		return false
	}
	o := campaignOptions()
	o.step = killAtStep()
	c := &campaignChild{life: os.Getenv(campaignLifeEnv)}
	s, err := Open(dir, o)
	if err != nil {
		c.tell("failed %v", err)
		return true
	}
	c.store = s
	known, _ := os.ReadFile(os.Getenv(campaignIDsEnv))
	for line := range strings.Lines(string(known)) {
		c.known = append(c.known, strings.Fields(line))
	}
	c.tell("open")
	if diff := s.differs(); diff != "" {
		c.tell("wrong stock (of a summary: %t): %s", s.summary.known, diff)
	}
	c.run()
	return true
}

type campaignChild struct {
	store *Store
	life  string
	known [][]string // id and event
	mu    sync.Mutex
	count int // of new events
	sent  []string
}

func (c *campaignChild) tell(format string, args ...any) {
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Println(line)
}

func (c *campaignChild) run() {
	ctx, stop := ossignal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() { c.claim(ctx, n) })
	}
	wg.Go(func() { c.hold(ctx) })
	for range 2 {
		wg.Go(func() { c.work(ctx) })
	}
	wg.Go(func() { c.operate(ctx) })
	wg.Wait()
	if ctx.Err() == nil {
		return
	}
	if err := c.store.Close(); err != nil {
		c.tell("failed %v", err)
		return
	}
	c.tell("closed")
}

// claim claims new events and duplicates: of earlier lives, and of events that another claimer
// sends now.
func (c *campaignChild) claim(ctx context.Context, n int) {
	chance := rand.New(rand.NewPCG(rand.Uint64(), uint64(n)))
	for i := 0; ctx.Err() == nil; i++ {
		ids := []string{c.next(chance, n, i)}
		if i%11 == 10 {
			ids = append(ids, c.next(chance, n, i)+"-pair")
		}
		claims := make([]dedup.Claim, len(ids))
		for k, id := range ids {
			claims[k] = campaignClaim(id)
		}
		ds, err := c.store.Claim(ctx, claims...)
		if err != nil {
			if c.over(ctx, err) {
				return
			}
			continue
		}
		for k, d := range ds {
			c.decided(ids[k], d)
		}
		time.Sleep(time.Duration(chance.IntN(3)) * time.Millisecond)
	}
}

func (c *campaignChild) decided(id string, d dedup.Decision) {
	switch d.Verdict {
	case dedup.New, dedup.Known:
		c.tell("%s %s %s", d.Verdict, id, d.Record.Event)
	default:
		c.tell("wrong %s is %s", id, d.Verdict)
	}
}

// next chooses an identifier.
func (c *campaignChild) next(chance *rand.Rand, n, i int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch luck := chance.IntN(10); {
	case n == 0 && i == 10 && os.Getenv(campaignMarkedEnv) != "":
		return os.Getenv(campaignMarkedEnv)
	case luck < 3 && len(c.known) > 0:
		return c.known[chance.IntN(len(c.known))][0]
	case (luck < 6 || c.count >= campaignEvents) && len(c.sent) > 0:
		return c.sent[max(0, len(c.sent)-1-chance.IntN(8))]
	}
	c.count++
	id := fmt.Sprintf("%s-%d-%d", c.life, n, i)
	if i%7 == 0 {
		id = "short-" + id
	}
	c.sent = append(c.sent, id)
	return id
}

// hold claims events as the receiver does for an Answer handler: it finishes some and releases
// others.
func (c *campaignChild) hold(ctx context.Context) {
	for i := 0; i < 60 && ctx.Err() == nil; i++ {
		// Twice each: after a release the second one runs it.
		claim := campaignClaim(fmt.Sprintf("%s-hold-%d", c.life, i/2))
		claim.Response, claim.Hold, claim.Lease = dedup.Response{}, true, time.Minute
		ds, err := c.store.Claim(ctx, claim)
		if err != nil {
			if c.over(ctx, err) {
				return
			}
			continue
		}
		if ds[0].Verdict == dedup.New {
			result := dedup.Result{Kind: dedup.ResultRelease}
			if i%4 != 0 {
				result = dedup.Result{Kind: dedup.ResultDone, Response: dedup.Response{Status: 200,
					Body: []byte(claim.Key.ID)}}
			}
			if err := c.store.Finish(ctx, ds[0].Lease, result); c.over(ctx, err) {
				return
			} else if err == nil && result.Kind == dedup.ResultDone {
				c.tell("done %s", ds[0].Record.Event)
				c.tell("new %s %s", claim.Key.ID, ds[0].Record.Event)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// work takes tasks and ends each as its event requires.
func (c *campaignChild) work(ctx context.Context) {
	for ctx.Err() == nil {
		work, err := c.store.Take(ctx, dedup.Want{Tasks: 16, Bytes: 4 << 20, Lease: time.Minute})
		if err != nil {
			if c.over(ctx, err) {
				return
			}
			continue
		}
		for _, w := range work {
			id := w.Record.Key.ID
			if !bytes.Equal(w.Record.Payload.Body, campaignBody(id)) {
				c.tell("wrong body of %s: %d bytes", id, len(w.Record.Payload.Body))
			}
			result, word := campaignEnd(&w.Record)
			err := c.store.Finish(ctx, w.Lease, result)
			if c.over(ctx, err) {
				return
			}
			if err == nil && word != "" {
				c.tell("%s %s", word, w.Record.Event)
			}
		}
	}
}

// campaignEnd returns how a task ends: most are done, some after a retry, some are dead.
func campaignEnd(r *dedup.Record) (dedup.Result, string) {
	sum := sha256.Sum256([]byte(r.Key.ID))
	switch {
	case sum[3] < 20 && r.Tasks[0].Attempt < 2:
		return dedup.Result{Kind: dedup.ResultRetry, After: 10 * time.Millisecond}, ""
	case sum[4] < 10:
		return dedup.Result{Kind: dedup.ResultDead, Reason: "campaign"}, "dead"
	}
	return dedup.Result{Kind: dedup.ResultDone}, "done"
}

// operate does the work of an operator: it purges, reopens, lists and makes backups.
func (c *campaignChild) operate(ctx context.Context) {
	chance := rand.New(rand.NewPCG(rand.Uint64(), 99))
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(15 * time.Millisecond)
		var err error
		switch {
		case i%20 == 19:
			err = c.store.Backup(ctx, io.Discard)
		case i%20 == 9:
			for _, err = range c.store.List(ctx, dedup.Filter{Limit: 50, Body: true}) {
				if err != nil {
					break
				}
			}
		case len(c.known) > 0:
			event := c.known[chance.IntN(len(c.known))][1]
			if i%2 == 0 {
				err = c.change("purg", event, func() error { return c.store.Purge(ctx, event) })
			} else {
				err = c.change("reopen", event, func() error { _, err := c.store.Reopen(ctx, event); return err })
			}
		}
		if c.over(ctx, err) {
			return
		}
	}
}

func (c *campaignChild) change(verb, event string, do func() error) error {
	c.tell("%sing %s", verb, event)
	err := do()
	if err == nil {
		c.tell("%sed %s", verb, event)
	}
	return err
}

// over reports whether the store can no longer be used.
func (c *campaignChild) over(ctx context.Context, err error) bool {
	var unavailable *dedup.ErrUnavailable
	var damage *DamagedError
	switch {
	case err == nil:
		return false
	case ctx.Err() != nil:
		return true
	case errors.As(err, &damage) && !errors.Is(err, syscall.EIO):
		c.tell("wrong %v", err)
		return true
	case errors.As(err, &unavailable), errors.As(err, &damage): // the disk may be gone
		c.tell("failed %v", err)
		return true
	case errors.Is(err, dedup.ErrClosed):
		return true
	}
	return false // an error of one operation: the event is gone or has open tasks
}

// campaignBody returns the body of an identifier: mostly small, sometimes larger than a segment,
// never compressible.
func campaignBody(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	size := 100 + int(binary.BigEndian.Uint16(sum[8:]))%3000
	if sum[1] < 4 {
		size = 400<<10 + int(binary.BigEndian.Uint32(sum[12:]))%(2<<20)
	}
	if strings.HasPrefix(id, campaignMarked) {
		size = 9000
	}
	body := make([]byte, size)
	_, _ = rand.NewChaCha8(sum).Read(body)
	return body
}

// campaignClaim returns the claim of an identifier. Those with the prefix "short-" have a short
// window.
func campaignClaim(id string) dedup.Claim {
	sum := sha256.Sum256([]byte(id))
	c := dedup.Claim{
		Key:      dedup.Key{Principal: "p", Endpoint: "e", ID: id},
		Aliases:  []dedup.Key{{Principal: "p", Endpoint: "e", Space: dedup.SpaceNonce, ID: id}},
		Payload:  dedup.Payload{Producer: "p", Endpoint: "e", Type: "campaign", Body: campaignBody(id)},
		Tasks:    []dedup.NewTask{{Handler: "h"}},
		Response: dedup.Response{Status: 202},
	}
	if sum[2] < 40 {
		c.Tasks[0].Lane = fmt.Sprint(sum[5] % 4)
	}
	if strings.HasPrefix(id, "short-") {
		c.Window = campaignShort
	}
	return c
}

// campaignShort is a window that ends within a life or between two.
const campaignShort = 300 * time.Millisecond
