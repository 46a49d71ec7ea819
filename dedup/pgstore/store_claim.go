package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	// maxClaims and maxBytes bound one call of Claim.
	maxClaims = 1024
	maxBytes  = 64 << 20
	// claimWeight is what a claim weighs in a batch beside its bytes.
	claimWeight = 8 << 10
)

// item is a claim that is being decided.
type item struct {
	claim    dedup.Claim
	hash     [32]byte
	seq      int64 // the number that a claim of the call got, before it was known whether it needs one
	decided  bool
	decision dedup.Decision
	op       *claimOp
}

// claimOp is a call of Claim.
type claimOp struct {
	items []*item
	bytes int
	done  chan error
}

func (op *claimOp) weight() int { return op.bytes + claimWeight*len(op.items) }

// Claim implements [dedup.Store]. A call takes at most 1,024 claims and 64 MiB.
func (s *Store) Claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	op, err := newClaimOp(claims)
	if err != nil {
		return nil, err
	}
	end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if len(claims) == 0 {
		return nil, nil
	}
	if err := s.claims.put(ctx, op); err != nil {
		return nil, err
	}
	select {
	case err = <-op.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	out := make([]dedup.Decision, len(op.items))
	for i, it := range op.items {
		out[i] = it.decision
	}
	return out, nil
}

func newClaimOp(claims []dedup.Claim) (*claimOp, error) {
	op := &claimOp{items: make([]*item, len(claims)), done: make(chan error, 1)}
	for i, c := range claims {
		if err := c.Check(); err != nil {
			return nil, fmt.Errorf("claim %d: %w", i, err)
		}
		op.bytes += len(c.Payload.Body) + len(c.Response.Body)
		c.Lease, c.Window = micros(c.Lease), micros(c.Window)
		op.items[i] = &item{claim: c, hash: c.Key.Hash(), op: op}
	}
	if len(claims) > maxClaims || op.bytes > maxBytes {
		return nil, fmt.Errorf("%w: %d claims of %d bytes, of at most %d and %d",
			dedup.ErrTooLarge, len(claims), op.bytes, maxClaims, maxBytes)
	}
	return op, nil
}

// writeClaims decides the claims of several calls.
func (s *Store) writeClaims(ops []*claimOp) {
	ctx, cancel := context.WithTimeout(s.ctx, stepTimeout)
	defer cancel()
	var items []*item
	for _, op := range ops {
		items = append(items, op.items...)
	}
	err := s.decide(ctx, items)
	again := len(ops) > 1 && (refused(err) || errors.Is(err, errDamaged))
	for _, op := range ops { // one must not fail the others
		switch {
		case !slices.ContainsFunc(op.items, (*item).open):
			op.done <- nil // what was decided is stored
		case again:
			op.done <- fault(s.decide(ctx, op.items))
		default:
			op.done <- fault(err)
		}
	}
}

func (it *item) open() bool { return !it.decided }

// decide decides claims: first the plain ones, which are probably new, in one statement. Then
// those that are not are read, and most are duplicates. What is left changes records that exist,
// or may: it is decided and stored under locks. A step that another process overtook starts again
// with what is not decided.
func (s *Store) decide(ctx context.Context, items []*item) error {
	return retry(func() error {
		if err := s.handlers.note(ctx, s.db, handlersOf(items)); err != nil {
			return err
		}
		if err := s.insert(ctx, plain(items)); err != nil && !raced(err) {
			return err
		}
		for _, step := range []func(context.Context, []*item) error{s.look, s.settle} {
			items = slices.DeleteFunc(slices.Clone(items), func(it *item) bool { return it.decided })
			if len(items) == 0 {
				return nil
			}
			if err := step(ctx, items); err != nil {
				return err
			}
		}
		return nil
	})
}

// handlersOf returns the handlers of the tasks.
func handlersOf(items []*item) []string {
	var names []string
	for _, it := range items {
		for _, t := range it.claim.Tasks {
			if !slices.Contains(names, t.Handler) {
				names = append(names, t.Handler)
			}
		}
	}
	return names
}

// plain returns the claims that [insertSQL] can decide: a claim whose names nothing else in the
// batch has and that depends on no other record. A call with any other claim is decided in its
// order.
func plain(items []*item) []*item {
	seen := map[keyHash]bool{}
	var odd *claimOp
	var out []*item
	for _, it := range items {
		c := &it.claim
		once := !it.decided && it.op != odd && !seen[it.hash]
		seen[it.hash] = true
		for _, name := range c.Aliases {
			h := name.Hash()
			once = once && !seen[h]
			seen[h] = true
		}
		if c.OnlyKnown || c.Occurrence != nil || c.Series != (dedup.Key{}) || c.Quarantine != nil || c.Remember != nil {
			odd = it.op
			continue
		}
		if once {
			out = append(out, it)
		}
	}
	return out
}

// insert stores the claims that are new. Those that are not stay undecided.
func (s *Store) insert(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	var in insertion
	for _, it := range items {
		r := dedup.Accept(dedup.Record{}, it.claim, "", 0, 0, time.Unix(0, 0))
		in.add(&r, it.hash[:], 0)
		in.addAliases(r.Aliases, true)
		if it.claim.Former != nil {
			in.addAliases(it.claim.Former.Names, false)
			in.addAliases(it.claim.Former.Contents, false)
		}
	}
	began := time.Now()
	rows, err := s.db.pool.Query(ctx, s.db.sql(insertSQL), in.args(s.db.now())...)
	if err != nil {
		return err
	}
	all, err := collectInserted(rows) // read to the end: only then is it committed
	if err != nil {
		return err
	}
	s.flush.Store(int64(time.Since(began)))
	accepted := 0
	for _, got := range all {
		i := got.ord - 1
		it := items[i]
		if it.seq = got.seq; got.generation == nil {
			continue
		}
		it.decision, it.decided = newDecision(it, &got), true
		s.kept.add(it.decision.Record, it.claim.Payload.Body, in.about[i], in.extra[i], in.response[i])
		accepted++
	}
	s.stored(accepted)
	return nil
}

// newDecision returns the decision about a claim that was stored.
func newDecision(it *item, got *inserted) dedup.Decision {
	before := dedup.Record{Generation: *got.generation - 1}
	event := eventID(got.seq, it.hash[:])
	r := dedup.Accept(before, it.claim, event, uint64(got.seq), uint64(got.token), got.now)
	r.Payload.Body = nil
	d := dedup.Decision{Verdict: dedup.New, Record: r}
	if r.Hold {
		d.Lease = dedup.Lease{Event: event, Token: uint64(got.token), Until: r.Tasks[0].Until}
	}
	return d
}

// stored counts a commit and wakes the Takes that wait.
func (s *Store) stored(accepted int) {
	s.commits.Add(1)
	s.accepted.Add(int64(accepted))
	s.changed.wake()
}

// look decides the claims that change nothing. Once a claim of a call is not decided, neither are
// the later ones of that call, which may depend on it.
func (s *Store) look(ctx context.Context, items []*item) error {
	st := source{view: newView(ctx, s.db, s.db.pool)}
	if err := st.load(foresee(items)); err != nil {
		return err
	}
	var left *claimOp
	for _, it := range items {
		if it.op == left {
			continue
		}
		d, err := st.claim(&it.claim)
		switch {
		case errors.Is(err, errWrites):
			left = it.op
		case err != nil:
			return err
		default:
			it.decision, it.decided = d, true
		}
	}
	return nil
}

const numbersSQL = `SELECT nextval('{{schema}}.seq'), nextval('{{schema}}.token') FROM generate_series(1, $1::int)`

// settle decides and stores claims under the locks of the records that they are about.
func (s *Store) settle(ctx context.Context, items []*item) error {
	st, first := source{view: newView(ctx, s.db, nil)}, &pgx.Batch{}
	st.queue(first, foresee(items))
	// After the locks: a token is larger than those of the tasks that are locked.
	first.Queue(s.db.sql(numbersSQL), len(items)).Query(func(rows pgx.Rows) error {
		return pairs(rows, func(seq, token int64) {
			st.seqs, st.tokens = append(st.seqs, seq), append(st.tokens, token)
		})
	})
	err := s.edit(ctx, st.view, first, func(*pgx.Batch) (err error) {
		for _, it := range items {
			if it.seq != 0 { // numbers follow the order of the call
				st.seqs = slices.Insert(st.seqs[1:], 0, it.seq)
			}
			if it.decision, err = st.claim(&it.claim); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, it := range items {
		it.decided = true
	}
	s.stored(st.accepted)
	return nil
}
