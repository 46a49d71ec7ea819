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

// Call is one call of a store that concerns one key: a claim, the start of a task by Take, a Finish, or the restart
// of a store that was killed.
type Call struct {
	Key     string // empty for a Take that was cut off and a restart: they may concern any key
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
	Unknown bool // the call was cut off: it may have happened
}

// Operation is a call with its effect and the time that it took, in nanoseconds of any one clock.
type Operation struct {
	ID           int64 // of the call, in its recorder
	Client       int
	Call         Call
	Effect       Effect
	Began, Ended int64 // Ended is 0 for a call that has only begun
	Void         bool  // the call came to nothing, for certain
}

// keyState is what a key is, one call after another: the sequential store that a history of concurrent calls is
// compared with, by a checker of linearizability. The zero value is a key that was never claimed.
type keyState struct {
	State   dedup.State
	Hold    bool
	Print   byte
	Token   uint64
	Blind   bool // the newest token is larger than Token, and nobody has seen it
	Attempt int
	Code    int
}

// steps returns the states that the key can be in after a call with the effect; none when the effect is wrong.
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

// happened returns the state after a call that was cut off and happened all the same.
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

// Recorder calls a store at random and tells what it did.
type Recorder struct {
	Store dedup.Store
	// Keys is how many keys there are. The first half of them is held by its claimers.
	Keys int
	// Now is a clock that never goes back.
	Now func() int64
	// Note is told of every call when it begins and when it has ended, by any goroutine.
	Note func(Operation)

	last atomic.Int64
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
	ds, err := r.Store.Claim(ctx, c)
	if err != nil {
		return dedup.Lease{}, err
	}
	d := ds[0]
	r.end(o, Effect{Verdict: d.Verdict, Token: d.Lease.Token, Attempt: d.Record.Tasks[0].Attempt, Code: d.Record.Response.Status})
	return d.Lease, nil
}

// take waits a moment for a task only.
func (r *Recorder) take(ctx context.Context, client int) (dedup.Lease, string, error) {
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	o := r.begin(client, Call{Take: true})
	ws, err := r.Store.Take(short, 1, 1, time.Hour)
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
	err := r.Store.Finish(ctx, l, dedup.Result{Kind: in.Kind, Response: dedup.Response{Status: in.Code}})
	if err != nil && !errors.Is(err, dedup.ErrLeaseLost) {
		return err
	}
	r.end(o, Effect{Lost: err != nil})
	return nil
}

// Run is one caller: it claims, takes and finishes at random, some leases twice, so many times.
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

// byKey sorts the operations of a history by key. Those without one stand with every key.
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

// History lets so many callers at once make so many calls each and returns those that came to something, in the order
// of their ends. It takes the place of Note. The same seed makes the same choices, though not the same order of calls.
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

// checkFor is how long the check of one key may take before it is given up.
const checkFor = 20 * time.Second

// CheckLinearizable compares a history, key by key, with a store that does one call after another. It returns an error that
// names a key when no order of its calls explains what their callers saw, or when none was found in 20 seconds.
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
			found = append(found, porcupine.Operation{ClientId: o.Client, Input: o.Call, Output: o.Effect, Call: o.Began, Return: o.Ended})
		}
		if got := porcupine.CheckOperationsTimeout(model, found, checkFor); got != porcupine.Ok {
			return fmt.Errorf("key %s: the order of %d calls is %s", key, len(found), got)
		}
	}
	return nil
}
