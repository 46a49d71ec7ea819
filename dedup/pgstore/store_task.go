package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

// pace is how long after a look that found less than was wanted the next one begins, and after a
// batch of results the next one, so that each finds more.
const pace = 5 * time.Millisecond

// Take implements [dedup.Store]. One Take of a process looks for work at a time. It looks at once
// when this process stored some, unless the last look was less than 5 ms ago, and four times a
// second for that of others and for what became due.
func (s *Store) Take(ctx context.Context, want dedup.Want) ([]dedup.Work, error) {
	if err := want.Check(); err != nil {
		return nil, err
	}
	end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.done:
		return nil, dedup.ErrClosed
	}
	t := &s.take
	if t.named, err = s.handlers.name(ctx, s.db, want.Handlers); err != nil {
		return nil, fault(err)
	}
	for {
		if wait := time.Until(t.next); wait > 0 {
			if err := s.pause(ctx, wait, nil); err != nil {
				return nil, err
			}
		}
		changed := s.changed.wait()
		work, err := t.try(ctx, s.ctx, &want)
		if t.next = time.Now().Add(pace); len(t.lanes) > 0 || len(work) == want.Tasks {
			t.next = time.Time{} // there is more
		}
		switch {
		case err == nil && len(work) > 0:
			s.commits.Add(1)
			return work, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && !raced(err):
			return nil, fault(err)
		case len(t.lanes) > 0: // there are more lanes
			continue
		}
		if err := s.pause(ctx, s.options.poll/2+rand.N(s.options.poll), changed); err != nil {
			return nil, err
		}
	}
}

// pause waits, unless it is woken. It ends with ctx and with the store.
func (s *Store) pause(ctx context.Context, wait time.Duration, woken <-chan struct{}) error {
	select {
	case <-woken:
	case <-time.After(wait):
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return dedup.ErrClosed
	}
	return nil
}

// finishOp are the results or extensions of one call.
type finishOp struct {
	entries []*finishEntry
	waits   bool        // for locks, see setAside
	gone    atomic.Bool // nobody waits for it
	done    chan struct{}
}

func (op *finishOp) weight() int { return len(op.entries) }

// finishEntry is a result, or an extension if extend is positive.
type finishEntry struct {
	seq    int64
	lease  dedup.Lease
	result dedup.Result
	extend time.Duration
	ended  bool
	fenced bool // it waits for the lock of a fence, and not only of its event
	err    error
}

// maxResult bounds the texts and the response of a result.
const maxResult = 8 << 20

// Finish implements [dedup.Store]. A result of more than 8 MiB is too large.
func (s *Store) Finish(ctx context.Context, l dedup.Lease, r dedup.Result) error {
	return s.finishAll(ctx, true, newFinish(l, r))[0]
}

// Extend implements [dedup.Store]. It is durable.
func (s *Store) Extend(ctx context.Context, l dedup.Lease, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%w: extension by %v", dedup.ErrInvalid, d)
	}
	return s.finishAll(ctx, true, &finishEntry{seq: seqOf(l.Event), lease: l, extend: micros(d)})[0]
}

// FinishMany implements [dedup.Store]. A result that would wait for a lock for more than a
// quarter of a second gets [dedup.ErrUnavailable], so that the others need not wait. Finish waits.
func (s *Store) FinishMany(ctx context.Context, results ...dedup.LeaseResult) []error {
	entries := make([]*finishEntry, len(results))
	for i, r := range results {
		entries[i] = newFinish(r.Lease, r.Result)
	}
	return s.finishAll(ctx, false, entries...)
}

// TxTypes implements [dedup.Transactor]: pgx.Tx and *sql.Tx.
func (s *Store) TxTypes() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[pgx.Tx](), reflect.TypeFor[*sql.Tx]()}
}

// InTx implements [dedup.Transactor]. The transaction has the isolation read committed.
func (s *Store) InTx(
	ctx context.Context, l dedup.Lease, as reflect.Type, fn func(context.Context, any) (dedup.Result, error),
) error {
	if !slices.Contains(s.TxTypes(), as) {
		return fmt.Errorf("%w: there are no transactions of type %v", dedup.ErrInvalid, as)
	}
	end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	end() // Close does not wait for handlers
	for run := 0; ; run++ {
		own, err := inTx(ctx, s, l, as, fn)
		code := codeOf(err)
		undone := code == codeSerialization || code == codeDeadlock || errors.Is(err, errConflict)
		switch {
		case undone && run < maxReruns && ctx.Err() == nil:
			continue
		case own:
			return err
		case err == nil:
			s.commits.Add(1)
			s.changed.wake() // its lane may be free
		}
		return fault(err)
	}
}

// newFinish returns an entry for a result, which is ended if the result is too large.
func newFinish(l dedup.Lease, r dedup.Result) *finishEntry {
	e := &finishEntry{seq: seqOf(l.Event), lease: l, result: r}
	e.result.After = micros(r.After)
	if n := len(r.Response.Body) + len(r.Err); n > maxResult {
		e.ended, e.err = true, fmt.Errorf("%w: a result of %d bytes", dedup.ErrTooLarge, n)
	}
	return e
}

func (s *Store) finishAll(ctx context.Context, waits bool, entries ...*finishEntry) []error {
	all := func(err error) []error { return slices.Repeat([]error{err}, len(entries)) }
	end, err := s.begin(ctx)
	if err != nil {
		return all(err)
	}
	defer end()
	if len(entries) == 0 {
		return nil
	}
	op := &finishOp{entries: entries, waits: waits, done: make(chan struct{})}
	if err := s.finishes.put(ctx, op); err != nil {
		return all(err)
	}
	select {
	case <-op.done:
	case <-ctx.Done():
		op.gone.Store(true)
		return all(ctx.Err())
	}
	errs := make([]error, len(entries))
	for i, e := range entries {
		errs[i] = e.err
	}
	return errs
}

// writeFinishes stores the results of several calls, last those that have to wait for a lock.
func (s *Store) writeFinishes(ops []*finishOp) {
	s.writeEntries(ops, shortWait)
	for _, op := range ops {
		if slices.ContainsFunc(op.entries, (*finishEntry).open) {
			s.wg.Go(func() { s.writeBlocked(op) })
		} else {
			close(op.done)
		}
	}
}

func (e *finishEntry) open() bool { return !e.ended }

// writeBlocked stores what waits for locks, one call at a time.
func (s *Store) writeBlocked(op *finishOp) {
	s.blocked.Lock()
	defer s.blocked.Unlock()
	if !op.gone.Load() {
		s.writeEntries([]*finishOp{op}, nil)
	}
	close(op.done)
}

// writeEntries stores what did not end. wait is how many milliseconds it waits for a lock, and then
// leaves the results that are blocked. nil is the time of the session, after which they fail.
func (s *Store) writeEntries(ops []*finishOp, wait *string) {
	ctx, cancel := context.WithTimeout(s.ctx, stepTimeout)
	defer cancel()
	var left []*finishEntry
	for _, op := range ops {
		left = append(left, op.entries...)
	}
	for {
		left = slices.DeleteFunc(left, func(e *finishEntry) bool { return e.ended })
		round := firstOfEach(left)
		if len(round) == 0 {
			break
		}
		err := s.finishRound(ctx, round, wait)
		if wait != nil && codeOf(err) == codeLockTimeout {
			var blocked []int64
			if blocked, err = blockedOf(ctx, s.db, round); err == nil {
				if len(blocked) == 0 { // a fence is, which may be one that is not stored yet
					blocked = fencedOf(round)
				}
				left = setAside(ops, blocked)
				continue
			}
		}
		for _, e := range round {
			if !e.ended {
				e.ended, e.err = true, fault(err)
			}
		}
	}
	s.commits.Add(1)
	s.changed.wake() // lanes may be free, and tasks be due again
}

// firstOfEach returns the first entry of each task.
func firstOfEach(entries []*finishEntry) []*finishEntry {
	type task struct {
		seq int64
		idx int
	}
	seen := map[task]bool{}
	var out []*finishEntry
	for _, e := range entries {
		if t := (task{e.seq, e.lease.Task}); !seen[t] {
			seen[t] = true
			out = append(out, e)
		}
	}
	return out
}

// finishRound stores at most one result of each task. Most are Done, or extensions, which one
// statement stores. The others, those of tasks with versions, and those that it finds lost, are
// decided by the record.
func (s *Store) finishRound(ctx context.Context, entries []*finishEntry, wait *string) error {
	return retry(func() error {
		left := slices.DeleteFunc(slices.Clone(entries), func(e *finishEntry) bool { return e.ended })
		simple := slices.DeleteFunc(slices.Clone(left), func(e *finishEntry) bool { return !e.simple() })
		if len(simple) > 0 {
			if err := s.finishSimple(ctx, s.db.pool, false, wait, simple); err != nil {
				return err
			}
		}
		left = slices.DeleteFunc(left, func(e *finishEntry) bool { return e.ended })
		return s.finishByRecord(ctx, left, wait)
	})
}

func (e *finishEntry) simple() bool {
	return e.lease.Task >= 0 && e.lease.Task < 1<<15 &&
		(e.extend > 0 || e.result.Kind == dedup.ResultDone && e.result.Response.Status == 0 && e.result.Reply == "")
}

// finishSQL stores results and extensions of leases. The tag in the id of the event is compared
// as well: sequence and tokens of a database that was restored begin again. The array of sequence
// numbers is there so that no plan reads other tasks (see withTasks).
const finishSQL = `WITH n AS MATERIALIZED (SELECT coalesce($1::timestamptz, now()) AS now, 
  set_config('lock_timeout', coalesce($10, current_setting('lock_timeout')), true)),
v AS MATERIALIZED (SELECT * FROM unnest($2::int8[], $3::int2[], $4::int8[], $5::int8[], $6::text[], $7::text[], $8::bytea[])
  WITH ORDINALITY AS v(seq, idx, token, extend, reason, err, tag, ord)),
e AS MATERIALIZED (SELECT e.seq, substr(e.hash, 1, 20) AS tag FROM {{schema}}.event e WHERE e.seq = ANY($2))
UPDATE {{schema}}.task t SET state = CASE WHEN v.extend > 0 THEN 2 ELSE 3 END,
  until = CASE WHEN v.extend > 0 THEN n.now + v.extend * interval '1 microsecond' END,
  ended = CASE WHEN v.extend > 0 THEN t.ended ELSE n.now END,
  reason = CASE WHEN v.extend > 0 THEN t.reason ELSE v.reason END,
  err = CASE WHEN v.extend > 0 THEN t.err ELSE v.err END,
  expires = CASE WHEN v.extend = 0 THEN n.now + t.win * interval '1 microsecond'
    WHEN t.hold THEN n.now + (v.extend + t.win) * interval '1 microsecond' END
FROM v JOIN e USING (seq, tag), n WHERE t.seq = ANY($2) AND t.seq = v.seq AND t.idx = v.idx AND t.token = v.token AND t.state = 2
  AND (v.extend > 0 OR NOT t.drops AND t.version IS NULL) AND (t.expires IS NULL OR t.expires > n.now)
  AND (NOT $9 OR ` + unchained + `)
RETURNING v.ord`

// finishSimple stores simple results, those of handlers in the transactions that were lent to them.
func (s *Store) finishSimple(
	ctx context.Context, q querier, lent bool, wait *string, entries []*finishEntry,
) error {
	slices.SortFunc(entries, func(a, b *finishEntry) int { // in one order, against deadlocks
		return cmp.Or(cmp.Compare(a.seq, b.seq), a.lease.Task-b.lease.Task)
	})
	n := len(entries)
	seq, idx, token, extend := make([]int64, n), make([]int16, n), make([]int64, n), make([]int64, n)
	reason, errText, tag := make([]string, n), make([]string, n), make([][]byte, n)
	for i, e := range entries {
		seq[i], idx[i], token[i] = e.seq, int16(e.lease.Task), int64(e.lease.Token)
		extend[i], reason[i], errText[i] = e.extend.Microseconds(), text(e.result.Reason), text(e.result.Err)
		tag[i] = tagOf(e.lease.Event)
	}
	rows, err := q.Query(ctx, s.db.sql(finishSQL),
		s.db.now(), seq, idx, token, extend, reason, errText, tag, lent, wait)
	if err != nil {
		return err
	}
	ords, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	for _, ord := range ords {
		entries[ord-1].ended = true
	}
	return nil
}

// finishByRecord applies the results to the records, under their locks.
func (s *Store) finishByRecord(ctx context.Context, entries []*finishEntry, wait *string) error {
	if len(entries) == 0 {
		return nil
	}
	v, first, w := newView(ctx, s.db, nil), &pgx.Batch{}, &wanted{}
	for _, e := range entries {
		w.seqs = append(w.seqs, e.seq)
	}
	first.Queue(waitSQL, wait)
	v.queue(first, w)
	var errs []error
	err := s.edit(ctx, v, first, func(*pgx.Batch) (err error) {
		errs, err = v.apply(entries)
		return err
	})
	if err != nil {
		return err
	}
	for i, e := range entries {
		e.ended, e.err = true, errs[i]
	}
	return nil
}

// apply applies results to the records of a view, and locks their fences before, in one order. It
// returns why results were refused.
func (v *view) apply(entries []*finishEntry) (refused []error, err error) {
	var fences []dedup.Key
	for _, e := range entries {
		w, err := v.event(e.lease.Event)
		if err != nil || w == nil || e.extend > 0 || e.result.Kind != dedup.ResultDone || !w.rec.Holds(e.lease) {
			continue // apply finds out
		}
		if k, ok := w.rec.FenceOf(e.lease.Task); ok {
			fences, e.fenced = append(fences, k), true
		}
	}
	if len(fences) > 0 {
		b := &pgx.Batch{}
		v.queueNotes(b, fences...)
		if err := v.q.SendBatch(v.ctx, b).Close(); err != nil {
			return nil, err
		}
	}
	refused = make([]error, len(entries))
	for i, e := range entries {
		if refused[i], err = e.apply(v); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// apply applies the result to its record, which may refuse it.
func (e *finishEntry) apply(v *view) (refused, err error) {
	switch found, err := v.event(e.lease.Event); {
	case errors.Is(err, errDamaged): // the others of the round are not
		return fault(err), nil
	case err != nil:
		return nil, err
	case found == nil:
		return dedup.ErrLeaseLost, nil
	case e.extend > 0:
		return found.rec.Extend(e.lease, e.extend, v.now), nil
	default:
		return found.rec.Finish(v, e.lease, e.result, v.now), nil
	}
}
