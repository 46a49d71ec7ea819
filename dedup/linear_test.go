package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/eyelet-dev/eyelet/dedup"
)

// call is one call of a store that concerns one key: a claim, the start of a task by Take, or a Finish.
type call struct {
	key   string
	claim bool
	take  bool
	hold  bool
	print byte
	token uint64 // of Finish
	kind  dedup.Kind
	code  int
}

type outcome struct {
	verdict dedup.Verdict
	token   uint64
	attempt int
	code    int
	lost    bool
}

// entry is what one key is, one call after another.
type entry struct {
	state   dedup.State
	hold    bool
	print   byte
	token   uint64
	attempt int
	code    int
}

func sequential() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			for _, op := range history {
				key := op.Input.(call).key
				byKey[key] = append(byKey[key], op)
			}
			var out [][]porcupine.Operation
			for _, ops := range byKey {
				out = append(out, ops)
			}
			return out
		},
		Init: func() any { return entry{} },
		Step: func(state, input, output any) (bool, any) {
			e, in, out := state.(entry), input.(call), output.(outcome)
			switch {
			case in.claim:
				return e.claim(in, out)
			case in.take:
				return e.start(out, e.state == dedup.Pending)
			default:
				return e.finish(in, out)
			}
		},
	}
}

func (e entry) start(out outcome, may bool) (bool, any) {
	ok := may && out.token > e.token && out.attempt == e.attempt+1
	e.state, e.token, e.attempt = dedup.Running, out.token, out.attempt
	return ok, e
}

func (e entry) claim(in call, out outcome) (bool, any) {
	fresh := e.state == 0
	switch {
	case !fresh && e.print != in.print:
		return out.verdict == dedup.Conflict, e
	case in.hold && (fresh || e.state == dedup.Pending):
		e.print, e.hold = in.print, true
		return e.start(out, out.verdict == dedup.New)
	case fresh:
		return out.verdict == dedup.New, entry{state: dedup.Pending, print: in.print}
	}
	return out.verdict == dedup.Known && out.code == e.code, e
}

func (e entry) finish(in call, out outcome) (bool, any) {
	if e.state != dedup.Running || e.token != in.token {
		return out.lost, e
	}
	switch in.kind {
	case dedup.ResultDone:
		e.state, e.code = dedup.Done, in.code
	case dedup.ResultDead:
		e.state, e.code = dedup.Dead, in.code
	default:
		e.state = dedup.Pending
		if in.kind == dedup.ResultRelease && !e.hold {
			e.attempt--
		}
	}
	return !out.lost, e
}

// recorder notes what concurrent callers do.
type recorder struct {
	store dedup.Store
	mu    sync.Mutex
	ops   []porcupine.Operation
	start time.Time
}

func (r *recorder) note(client int, in call, began time.Duration, out outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, porcupine.Operation{
		ClientId: client, Input: in, Call: int64(began), Output: out, Return: int64(time.Since(r.start)),
	})
}

func (r *recorder) claim(ctx context.Context, client int, in call) (dedup.Lease, error) {
	c := dedup.Claim{
		Key: dedup.Key{ID: in.key}, Fingerprint: dedup.Fingerprint{in.print},
		Tasks: []dedup.NewTask{{Handler: "h"}}, Hold: in.hold, Lease: time.Hour,
	}
	began := time.Since(r.start)
	ds, err := r.store.Claim(ctx, c)
	if err != nil {
		return dedup.Lease{}, err
	}
	d := ds[0]
	r.note(client, in, began, outcome{
		verdict: d.Verdict, token: d.Lease.Token, attempt: d.Record.Tasks[0].Attempt, code: d.Record.Answer.Status,
	})
	return d.Lease, nil
}

// take waits a moment for a task only; the history is of those that were given.
func (r *recorder) take(ctx context.Context, client int) (dedup.Lease, string, error) {
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	began := time.Since(r.start)
	ws, err := r.store.Take(short, 1, 1, time.Hour)
	if errors.Is(err, context.DeadlineExceeded) {
		return dedup.Lease{}, "", nil
	}
	if err != nil {
		return dedup.Lease{}, "", err
	}
	key := ws[0].Record.Key.ID
	r.note(client, call{key: key, take: true}, began, outcome{token: ws[0].Lease.Token, attempt: ws[0].Task().Attempt})
	return ws[0].Lease, key, nil
}

func (r *recorder) finish(ctx context.Context, client int, in call, l dedup.Lease) error {
	began := time.Since(r.start)
	err := r.store.Finish(ctx, l, dedup.Result{Kind: in.kind, Answer: dedup.Answer{Status: in.code}})
	if err != nil && !errors.Is(err, dedup.ErrLeaseLost) {
		return err
	}
	in.token = l.Token
	r.note(client, in, began, outcome{lost: err != nil})
	return nil
}

// run is one caller: it claims, takes and finishes at random, some leases twice.
func (r *recorder) run(ctx context.Context, client int, random *rand.Rand) error {
	type lease struct {
		dedup.Lease
		key string
	}
	var leases []lease
	for range 40 {
		var l dedup.Lease
		var err error
		key := fmt.Sprint("k", random.IntN(6))
		switch n := random.IntN(10); {
		case n < 5:
			in := call{key: key, claim: true, hold: key < "k3", print: byte(1 + random.IntN(8)/7)}
			l, err = r.claim(ctx, client, in)
		case n < 7:
			l, key, err = r.take(ctx, client)
		case len(leases) > 0:
			used := leases[random.IntN(len(leases))]
			in := call{key: used.key, kind: dedup.Kind(4 - random.IntN(8)/2%3), code: 200 + random.IntN(300)}
			if random.IntN(12) == 0 {
				in.kind = dedup.ResultDone
			}
			err = r.finish(ctx, client, in, used.Lease)
		}
		if err != nil {
			return err
		}
		if l.Token != 0 {
			leases = append(leases, lease{l, key})
		}
	}
	return nil
}

func TestConcurrentHistoriesOfMemoryAreLinearizable(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		seed := rand.Uint64()
		store := dedup.NewMemory(dedup.MemoryOptions{})
		r := &recorder{store: store, start: time.Now()}
		var wg sync.WaitGroup
		for client := range 6 {
			wg.Go(func() {
				if err := r.run(t.Context(), client, rand.New(rand.NewPCG(seed, uint64(client)))); err != nil {
					t.Errorf("client %d: %v", client, err)
				}
			})
		}
		wg.Wait()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if len(r.ops) < 60 {
			t.Errorf("round %d: only %d calls", round, len(r.ops))
		}
		if got := porcupine.CheckOperationsTimeout(sequential(), r.ops, 20*time.Second); got != porcupine.Ok {
			t.Fatalf("round %d, seed %d: %d calls are %s", round, seed, len(r.ops), got)
		}
	}
}
