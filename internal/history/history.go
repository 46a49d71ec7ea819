// Package history records concurrent calls of a store and checks that they are linearizable.
package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Call is one call that concerns one key: a claim, the start of a task by Take, a Finish, or
// the restart of a killed store.
type Call struct {
	Key     string // empty if it may be any key: a restart, or a Take that was cut off
	Claim   bool
	Take    bool
	Restart bool
	Hold    bool       // of a claim
	Print   byte       // the fingerprint of a claim
	Token   uint64     // of a Finish
	Kind    dedup.Kind // of a Finish
	Code    int        // the status that a Finish stores
}

// Effect is what a caller saw of its call.
type Effect struct {
	Verdict dedup.Verdict
	Token   uint64
	Attempt int
	Code    int
	Lost    bool
	Unknown bool // cut off: it may have taken effect
}

// Operation is a call with its effect and its times, in nanoseconds of any one clock.
type Operation struct {
	ID           int64 // of the call in its Recorder
	Client       int
	Call         Call
	Effect       Effect
	Began, Ended int64 // Ended is 0 for a call in progress
	Void         bool  // the call certainly had no effect
}

// keyState is the state of a key in a sequential store. A history of concurrent calls is
// compared with it. The zero value is a key that was never claimed.
type keyState struct {
	State   dedup.State
	Hold    bool
	Print   byte
	Token   uint64
	Blind   bool // the newest token is unknown, but larger than Token
	Attempt int
	Code    int
}

// steps returns the possible states of the key after a call with the effect, none if the effect
// is wrong.
func (e keyState) steps(in Call, out Effect) []keyState {
	if in.Restart {
		if e.State == dedup.Running {
			e.State = dedup.Pending
		}
		return []keyState{e}
	}
	if out.Unknown {
		return append(e.happened(in), e)
	}
	var ok bool
	switch {
	case in.Claim:
		ok, e = e.claim(in, out)
	case in.Take:
		ok, e = e.start(out, e.State == dedup.Pending && !e.Hold)
	default:
		ok, e = e.finish(in, out)
	}
	if !ok {
		return nil
	}
	return []keyState{e}
}

// happened returns the state after a call that was cut off but took effect.
func (e keyState) happened(in Call) []keyState {
	started := e
	started.State, started.Blind, started.Attempt = dedup.Running, true, e.Attempt+1
	switch {
	case in.Claim && in.Hold && (e.State == 0 || e.State == dedup.Pending && e.Print == in.Print):
		started.Print, started.Hold = in.Print, true
		return []keyState{started}
	case in.Claim && e.State == 0:
		return []keyState{{State: dedup.Pending, Print: in.Print}}
	case in.Take && e.State == dedup.Pending && !e.Hold:
		return []keyState{started}
	case !in.Claim && !in.Take:
		if ok, after := e.finish(in, Effect{}); ok {
			return []keyState{after}
		}
	}
	return nil
}

func (e keyState) start(out Effect, may bool) (bool, keyState) {
	ok := may && out.Token > e.Token && out.Attempt == e.Attempt+1
	e.State, e.Token, e.Blind, e.Attempt = dedup.Running, out.Token, false, out.Attempt
	return ok, e
}

func (e keyState) claim(in Call, out Effect) (bool, keyState) {
	fresh := e.State == 0
	switch {
	case !fresh && e.Print != in.Print:
		return out.Verdict == dedup.Conflict, e
	case in.Hold && (fresh || e.State == dedup.Pending):
		e.Print, e.Hold = in.Print, true
		return e.start(out, out.Verdict == dedup.New)
	case fresh:
		return out.Verdict == dedup.New, keyState{State: dedup.Pending, Print: in.Print}
	}
	return out.Verdict == dedup.Known && out.Code == e.Code, e
}

func (e keyState) finish(in Call, out Effect) (bool, keyState) {
	if e.State != dedup.Running || e.Blind || e.Token != in.Token {
		return out.Lost, e
	}
	switch in.Kind {
	case dedup.ResultDone:
		e.State, e.Code = dedup.Done, in.Code
	case dedup.ResultDead:
		e.State, e.Code = dedup.Dead, in.Code
	default:
		e.State = dedup.Pending
		if in.Kind == dedup.ResultRelease && !e.Hold {
			e.Attempt--
		}
	}
	return !out.Lost, e
}

// Recorder makes random calls of a store and reports them.
type Recorder struct {
	Store dedup.Store
	// Second is another opening of the store, for every other client. Nil means Store.
	Second dedup.Store
	// Keys is the number of keys. Claims of the first half have Hold.
	Keys int
	// Now is a monotonic clock in nanoseconds.
	Now func() int64
	// Note is called when a call begins and when it ended, by any goroutine.
	Note func(Operation)

	last atomic.Int64
}

// store returns the store of a client.
func (r *Recorder) store(client int) dedup.Store {
	if r.Second != nil && client%2 == 1 {
		return r.Second
	}
	return r.Store
}

func (r *Recorder) begin(client int, in Call) Operation {
	o := Operation{ID: r.last.Add(1), Client: client, Call: in, Began: r.Now()}
	r.Note(o)
	return o
}

func (r *Recorder) end(o Operation, out Effect) {
	o.Effect, o.Ended = out, r.Now()
	r.Note(o)
}

func (r *Recorder) claim(ctx context.Context, client int, in Call) (dedup.Lease, error) {
	c := dedup.Claim{
		Key: dedup.Key{ID: in.Key}, Fingerprint: dedup.Fingerprint{in.Print},
		Tasks: []dedup.NewTask{{Handler: "h"}}, Hold: in.Hold, Lease: time.Hour,
	}
	o := r.begin(client, in)
	ds, err := r.store(client).Claim(ctx, c)
	if err != nil {
		return dedup.Lease{}, err
	}
	rec, l := ds[0].Record, ds[0].Lease
	r.end(o, Effect{Verdict: ds[0].Verdict, Token: l.Token, Attempt: rec.Tasks[0].Attempt, Code: rec.Response.Status})
	return l, nil
}

// take waits for a task for a few milliseconds only.
func (r *Recorder) take(ctx context.Context, client int) (dedup.Lease, string, error) {
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	o := r.begin(client, Call{Take: true})
	ws, err := r.store(client).Take(short, dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Hour})
	if errors.Is(err, context.DeadlineExceeded) {
		o.Void, o.Ended = true, r.Now()
		r.Note(o)
		return dedup.Lease{}, "", nil
	}
	if err != nil {
		return dedup.Lease{}, "", err
	}
	o.Call.Key = ws[0].Record.Key.ID
	r.end(o, Effect{Token: ws[0].Lease.Token, Attempt: ws[0].Task().Attempt})
	return ws[0].Lease, o.Call.Key, nil
}

func (r *Recorder) finish(ctx context.Context, client int, in Call, l dedup.Lease) error {
	in.Token = l.Token
	o := r.begin(client, in)
	err := r.store(client).Finish(ctx, l, dedup.Result{Kind: in.Kind, Response: dedup.Response{Status: in.Code}})
	if err != nil && !errors.Is(err, dedup.ErrLeaseLost) {
		return err
	}
	r.end(o, Effect{Lost: err != nil})
	return nil
}

// Run makes random calls as one client. It finishes some leases twice.
func (r *Recorder) Run(ctx context.Context, client, calls int, random *rand.Rand) error {
	type lease struct {
		dedup.Lease
		key string
	}
	var leases []lease
	for range calls {
		var l dedup.Lease
		var err error
		k := random.IntN(r.Keys)
		key := fmt.Sprint("k", k)
		switch n := random.IntN(10); {
		case n < 5:
			in := Call{Key: key, Claim: true, Hold: k < r.Keys/2, Print: byte(1 + random.IntN(8)/7)}
			l, err = r.claim(ctx, client, in)
		case n < 7:
			l, key, err = r.take(ctx, client)
		case len(leases) > 0:
			used := leases[random.IntN(len(leases))]
			in := Call{Key: used.key, Kind: dedup.Kind(4 - random.IntN(8)/2%3), Code: 200 + random.IntN(300)}
			if random.IntN(12) == 0 {
				in.Kind = dedup.ResultDone
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

// byKey groups the operations by key. Those without a key are in every group.
func byKey(history []Operation) map[string][]Operation {
	out := map[string][]Operation{}
	for _, o := range history {
		if o.Call.Key != "" {
			out[o.Call.Key] = nil
		}
	}
	for key := range out {
		for _, o := range history {
			if o.Call.Key == key || o.Call.Key == "" {
				out[key] = append(out[key], o)
			}
		}
	}
	return out
}

// History runs clients concurrently, each with a number of calls, and returns the calls that
// took effect, in the order of their ends. It sets Note. A seed repeats the calls of each
// client, but not their interleaving.
func (r *Recorder) History(ctx context.Context, clients, calls int, seed uint64) ([]Operation, error) {
	var mu sync.Mutex
	var history []Operation
	r.Note = func(o Operation) {
		mu.Lock()
		defer mu.Unlock()
		if o.Ended != 0 && !o.Void {
			history = append(history, o)
		}
	}
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() { errs[client] = r.Run(ctx, client, calls, rand.New(rand.NewPCG(seed, uint64(client)))) })
	}
	wg.Wait()
	return history, errors.Join(errs...)
}

// checkFor is how long the check of one key may take.
const checkFor = 20 * time.Second

// CheckLinearizable compares a history, key by key, with a sequential store. It returns an
// error that names a key if no order of its calls explains their effects, or if none was found
// within 20 seconds.
func CheckLinearizable(history []Operation) error {
	model := (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{keyState{}} },
		Step: func(state, input, output any) []any {
			var out []any
			for _, s := range state.(keyState).steps(input.(Call), output.(Effect)) {
				out = append(out, s)
			}
			return out
		},
	}).ToModel()
	for key, ops := range byKey(history) {
		var found []porcupine.Operation
		for _, o := range ops {
			found = append(found, porcupine.Operation{
				ClientId: o.Client, Input: o.Call, Output: o.Effect, Call: o.Began, Return: o.Ended,
			})
		}
		if got := porcupine.CheckOperationsTimeout(model, found, checkFor); got != porcupine.Ok {
			return fmt.Errorf("key %s: the order of %d calls is %s", key, len(found), got)
		}
	}
	return nil
}
