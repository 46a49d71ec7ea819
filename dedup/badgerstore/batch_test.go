package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// manualStore is a store whose batches the test makes: its committer runs only at the end of
// the test.
type manualStore struct {
	*Store
	writer *committer
}

func openManual(t *testing.T, dir string, o Options) manualStore {
	t.Helper()
	s := newStore(dir, o)
	c, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		go c.run()
		if err := s.Close(); err != nil && s.failure.Load() == nil {
			t.Errorf("Close: %v", err)
		}
		s, c = nil, nil // as in open
	})
	return manualStore{s, c}
}

func claimOpOf(t *testing.T, claims ...dedup.Claim) *claimOp {
	t.Helper()
	o, err := prepare(claims, record.HashOf(claims[0].Key))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func takeOpOf(n int) *takeOp {
	return &takeOp{
		want:   dedup.Want{Tasks: n, Bytes: 1 << 30, Lease: time.Hour},
		ticket: ticket{done: make(chan struct{}, 1)},
	}
}

// together processes operations as one batch. Those that are answered at once must succeed.
func together(t *testing.T, s manualStore, ops ...op) {
	t.Helper()
	s.writer.process(slices.Clone(ops)) // which it changes
	for i, o := range ops {
		if err := o.self().err; err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
}

func finishOf(l dedup.Lease, kind dedup.Kind) *finishOp {
	o := newFinish(l, dedup.Result{Kind: kind}, make(chan struct{}, 1))
	return &o
}

// TestAKeyThatIsForgottenAndClaimedInOneBatchIsAWholeEvent ends an event and claims its key
// again in one commit.
func TestAKeyThatIsForgottenAndClaimedInOneBatchIsAWholeEvent(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(s *Store, event string) []op{
		"purged": func(_ *Store, event string) []op { return []op{&purgeOp{ticket: newTicket(true), event: event}} },
		"swept": func(_ *Store, event string) []op {
			h, _, _ := record.ParseEventID(event)
			return []op{&sweepOp{ticket: newTicket(false), found: []*row{{place: record.Place{Hash: h}}},
				slack: -1000 * time.Hour}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openManual(t, dir, quiet())
			claim := claimOf("a")
			claim.Tasks[0].Lane = "lane"
			first := claimOpOf(t, claim)
			together(t, s, first)
			take := takeOpOf(1)
			together(t, s, take)
			together(t, s, finishOf(take.work[0].Lease, dedup.ResultDone))
			second := claimOpOf(t, claim)
			together(t, s, append(forget(s.Store, first.decisions[0].Record.Event), second)...)
			if v := second.decisions[0].Verdict; v != dedup.New {
				t.Fatalf("the second claim is %v", v)
			}
			if s.stats.Records != 1 || s.stats.Pending != 1 {
				t.Errorf("statistics: %+v", s.stats)
			}
			err := s.db.View(func(txn *kv.View) error {
				r, err := s.readRow(txn, decisionPlace(t, second.decisions[0]))
				if err == nil && r.rec.Event != second.decisions[0].Record.Event {
					err = fmt.Errorf("it is event %s", r.rec.Event)
				}
				return err
			})
			if err != nil {
				t.Errorf("the new event on disk: %v", err)
			}
		})
	}
}

// TestATaskThatEndsAndIsForgottenInOneBatchLeavesItsLane ends, purges and replaces an event in
// one commit.
func TestATaskThatEndsAndIsForgottenInOneBatchLeavesItsLane(t *testing.T) {
	t.Parallel()
	s := openManual(t, t.TempDir(), quiet())
	claim, other := claimOf("a"), claimOf("b")
	claim.Tasks[0].Lane, other.Tasks[0].Lane = "lane", "lane"
	together(t, s, claimOpOf(t, claim, other))
	take := takeOpOf(1)
	together(t, s, take)
	lease := take.work[0].Lease
	together(t, s, finishOf(lease, dedup.ResultDone), &purgeOp{ticket: newTicket(true), event: lease.Event},
		claimOpOf(t, claim))
	next := takeOpOf(1)
	together(t, s, next)
	if len(next.work) != 1 || next.work[0].Record.Key != other.Key {
		t.Fatalf("the next task of the lane is not given out: %v", next.work)
	}
	if open, _ := s.writer.tasks.Len(); open != 2 {
		t.Errorf("%d tasks in the queue, want 2", open)
	}
}

// decisionPlace returns the place of the record of a decision.
func decisionPlace(t *testing.T, d dedup.Decision) record.Place {
	t.Helper()
	h, _, ok := record.ParseEventID(d.Record.Event)
	if !ok {
		t.Fatalf("event %q", d.Record.Event)
	}
	return record.Place{Hash: h}
}

// TestABatchOfManyKeysIsOneCommit has more keys than a transaction of Badger takes, and a Take.
func TestABatchOfManyKeysIsOneCommit(t *testing.T) {
	t.Parallel()
	s := openManual(t, t.TempDir(), quiet())
	together(t, s, claimOpOf(t, claimOf("waits")))
	var ops []op
	for c := range 40 {
		claims := make([]dedup.Claim, 8)
		for i := range claims {
			claims[i] = dedup.Claim{Key: dedup.Key{ID: fmt.Sprint(c, "-", i)}}
			for a := range 100 {
				alias := dedup.Key{Space: "nonce", ID: fmt.Sprint(c, "-", i, "-", a)}
				claims[i].Aliases = append(claims[i].Aliases, alias)
			}
		}
		ops = append(ops, claimOpOf(t, claims...))
	}
	both, before := takeOpOf(2), s.stats.Commits
	together(t, s, append(ops, claimOpOf(t, claimOf("new")), both)...)
	if len(both.work) != 2 || s.stats.Running != 2 || s.stats.Commits != before+1 {
		t.Errorf("work %v, %d run, %d commits", both.work, s.stats.Running, s.stats.Commits-before)
	}
}

// TestABatchReadsFewEventsToStartTheirTasks takes the tasks of a backlog that is not in memory, and
// then of one that is.
func TestABatchReadsFewEventsToStartTheirTasks(t *testing.T) {
	t.Parallel()
	const many = 3 * readsMost
	claims := func(from int) (all []dedup.Claim) {
		for i := range many {
			all = append(all, claimOf(fmt.Sprint(from+i)))
		}
		return all
	}
	dir := t.TempDir()
	before := open(t, dir, quiet())
	if _, err := before.Claim(t.Context(), claims(0)...); err != nil {
		t.Fatal(err)
	}
	shut(t, before)
	s := openManual(t, dir, quiet())
	first, second, third := takeOpOf(many), takeOpOf(many), takeOpOf(many)
	together(t, s, first, second)
	if len(first.work) != 1+readsMost || len(second.work) != 0 {
		t.Errorf("two Takes got %d and %d tasks, want %d and none", len(first.work), len(second.work), 1+readsMost)
	}
	together(t, s) // the second still waits
	together(t, s, third)
	if n := len(first.work) + len(second.work) + len(third.work); n != many {
		t.Errorf("three Takes got %d tasks, want %d", n, many)
	}
	fourth := takeOpOf(many)
	together(t, s, claimOpOf(t, claims(many)...))
	together(t, s, fourth)
	if len(fourth.work) != many {
		t.Errorf("%d of %d tasks were taken whose events are in memory", len(fourth.work), many)
	}
}

// largeState is a claim whose response is a quarter of the states that a batch starts.
func largeState(id string) dedup.Claim {
	c := claimOf(id)
	c.Response = dedup.Response{Status: 200, Body: make([]byte, batchBytes/4)}
	return c
}

// TestTakesOfLargeStatesAreServedInSeveralCommits takes tasks whose states are more than a batch
// starts, alone and in batches with claims.
func TestTakesOfLargeStatesAreServedInSeveralCommits(t *testing.T) {
	t.Parallel()
	const events = 12
	for _, takes := range []int{1, events} {
		for _, claims := range []int{0, 1, 2} {
			t.Run(fmt.Sprintf("%d Takes and %d claims", takes, claims), func(t *testing.T) {
				t.Parallel()
				s := openManual(t, t.TempDir(), quiet())
				for i := range events {
					together(t, s, claimOpOf(t, largeState(fmt.Sprint(i))))
				}
				for round, taken := 0, 0; taken < events; round++ {
					var ops []op
					for i := range claims {
						c := claimOf(fmt.Sprint("later", round, i))
						c.Tasks = nil
						ops = append(ops, claimOpOf(t, c))
					}
					for range takes {
						ops = append(ops, takeOpOf(events/takes))
					}
					together(t, s, ops...)
					before := taken
					for _, o := range s.given(ops) {
						taken += len(o.work)
					}
					if taken == before || s.stats.Running != int64(taken) {
						t.Fatalf("%d of %d tasks were given out, %d run", taken, events, s.stats.Running)
					}
					if takes == 1 && taken-before > 5 {
						t.Errorf("one batch has started %d tasks", taken-before)
					}
					s.writer.dropParked(nil)
				}
			})
		}
	}
}

// given returns the Takes among operations that were answered.
func (s manualStore) given(ops []op) (takes []*takeOp) {
	for _, o := range ops {
		if take, ok := o.(*takeOp); ok && len(take.done) > 0 {
			takes = append(takes, take)
		}
	}
	return takes
}

func TestAnOperationThatFailsIsNotCounted(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.MaxBacklogRecords = 2
	s := openManual(t, t.TempDir(), o)
	refused, fits := claimOpOf(t, claimOf("a"), claimOf("b"), claimOf("c")), claimOpOf(t, claimOf("d"))
	s.writer.process([]op{refused, fits})
	unavailable(t, refused.err, "backlog")
	if fits.err != nil {
		t.Errorf("there was room: %v", fits.err)
	}
	if s.stats.Accepted != 1 || s.stats.Records != 1 {
		t.Errorf("statistics: %+v", s.stats)
	}
}

func TestCancelledTakesLeaveAStoreOnAFullDisk(t *testing.T) {
	t.Parallel()
	fs, o := diskOf(10 << 30)
	s := openManual(t, t.TempDir(), o)
	fs.leave(s.Store, 3*memTable-1)
	for range 10 {
		take := takeOpOf(1)
		s.writer.process([]op{take})
		take.state.Store(takeGone)
	}
	s.writer.process(nil)
	if len(s.writer.parked) != 0 {
		t.Errorf("%d cancelled Takes are kept", len(s.writer.parked))
	}
}

// TestATakeWhoseCallerLeavesWhileItIsServedIsAnswered does not write its batch: it is not parked.
func TestATakeWhoseCallerLeavesWhileItIsServedIsAnswered(t *testing.T) {
	t.Parallel()
	s := openManual(t, t.TempDir(), quiet())
	take := takeOpOf(1)
	take.state.Store(takeServed)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answered := make(chan bool)
	go func() { answered <- take.wait(ctx, nil) }()
	for take.state.Load() != takeGone {
		time.Sleep(time.Millisecond)
	}
	s.writer.parked = take.park(s.writer.parked)
	if !<-answered || len(s.writer.parked) != 0 {
		t.Errorf("%d Takes are parked", len(s.writer.parked))
	}
}

func TestATaskWhosePayloadIsNotReadBecauseTheStoreClosesIsKept(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	event := mustClaim(t, s, largeClaim("a", 2*record.InlineMost), dedup.New).Record.Event
	take := takeOpOf(1)
	if err := s.queue.push(take); err != nil {
		t.Fatal(err)
	}
	<-take.done
	s.closed.Store(true) // Close has begun, and the committer still runs
	out := s.bodies(take)
	s.closed.Store(false)
	if len(out) != 0 {
		t.Error("a closed store was read")
	}
	mustClaim(t, s, claimOf("behind it"), dedup.New)
	r, err := s.Get(context.Background(), event)
	if err != nil || r.State() == dedup.Dead {
		t.Errorf("the event is %v, %v", r.State(), err)
	}
}

// TestABodyThatIsGoneIsNotDamaged ends events whose tasks were taken before their bodies are read.
func TestABodyThatIsGoneIsNotDamaged(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	for i := range 2 {
		c := largeClaim(fmt.Sprint(i), 2*record.InlineMost)
		c.DropBody = i == 0
		mustClaim(t, s, c, dedup.New)
	}
	take := takeOpOf(2)
	if err := s.queue.push(take); err != nil {
		t.Fatal(err)
	}
	<-take.done
	for i, w := range take.work {
		err := s.Finish(t.Context(), w.Lease, dedup.Result{Kind: dedup.ResultDone})
		if err == nil && i == 1 {
			err = s.Purge(t.Context(), w.Record.Event)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if works := s.bodies(take); len(works) != 0 || s.Damaged() != 0 {
		t.Errorf("%d tasks run, %d values are damaged", len(works), s.Damaged())
	}
}

// TestCloseDoesNotWaitForAList closes the store from within a List, which then ends.
func TestCloseDoesNotWaitForAList(t *testing.T) {
	t.Parallel()
	s := filled(t, 3, smallClaim)
	closed := make(chan error, 1)
	n := 0
	for r, err := range s.List(context.Background(), dedup.Filter{}) {
		if n++; n > 1 {
			if !errors.Is(err, dedup.ErrClosed) {
				t.Errorf("%v, want that the store is closed", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		go func() { closed <- s.Close() }()
		if err := <-closed; err != nil { // it does not wait for the List
			t.Error(err)
		}
		if _, err := s.Get(context.Background(), r.Event); !errors.Is(err, dedup.ErrClosed) {
			t.Errorf("%v, want that the store is closed", err)
		}
	}
	if n != 2 {
		t.Errorf("%d iterations", n)
	}
}

// TestCloseEndsAListThatReadsTheWholeStore closes the store during a List that matches nothing.
func TestCloseEndsAListThatReadsTheWholeStore(t *testing.T) {
	t.Parallel()
	s := filled(t, 3, smallClaim)
	read := 0
	err := s.eachPage(context.Background(), func(*kv.View, record.Place) { read++; s.closed.Store(true) })
	if !errors.Is(err, dedup.ErrClosed) || read != 3 {
		t.Errorf("%d events of the first page, then %v", read, err)
	}
	s.closed.Store(false)
}

// TestAListInPagesFindsWhatIsReplacedMeanwhile accepts the key of a dead letter again between
// two pages.
func TestAListInPagesFindsWhatIsReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	o := quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	c := smallClaim(1)
	first := mustClaim(t, s, c, dedup.New).Record.Event
	finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultDead})
	m := matcher{s: s, filter: &dedup.Filter{}, now: s.now()}
	var second string
	err := s.eachPage(context.Background(), func(txn *kv.View, p record.Place) {
		m.visit(txn, p)
		if second == "" {
			clock.Advance(25 * time.Hour)
			second = mustClaim(t, s, c, dedup.New).Record.Event
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if found := m.newest(); len(found) != 1 || record.EventID(found[0].Hash, found[0].Seq) != first {
		t.Errorf("%v: the dead letter %s must be found once", found, first)
	}
	n := 0
	for range s.List(context.Background(), dedup.Filter{}) {
		n++
	}
	if n != 2 {
		t.Errorf("%d events are listed, want both generations", n)
	}
}

func TestAWindowWithoutAnEndDoesNotEndAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, quiet())
	claim := claimOf("a")
	claim.Tasks, claim.Window = nil, math.MaxInt64
	mustClaim(t, s, claim, dedup.New)
	shut(t, s)
	mustClaim(t, open(t, dir, quiet()), claim, dedup.Known)
}

func TestAnAnswerThatIsTooLargeFailsAloneAndNotTheStore(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.valueFile = 8 << 20
	s := open(t, t.TempDir(), o)
	ctx := context.Background()
	mustClaim(t, s, claimOf("a"), dedup.New)
	work, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	huge := make([]byte, 9<<20)
	for name, res := range map[string]dedup.Result{
		"answer": {Kind: dedup.ResultDone, Response: dedup.Response{Status: 200, Body: huge}},
		"error":  {Kind: dedup.ResultRetry, Err: string(huge)},
		"field": {Kind: dedup.ResultDone, Response: dedup.Response{Status: 200,
			Header: map[string][]string{"X": {string(huge)}}}},
	} {
		if err := s.Finish(ctx, work[0].Lease, res); !errors.Is(err, dedup.ErrTooLarge) {
			t.Errorf("%s: %.200v, want that it is too large", name, err)
		}
	}
	claim := claimOf("b")
	claim.Response.Body = huge
	if _, err := s.Claim(ctx, claim); !errors.Is(err, dedup.ErrTooLarge) {
		t.Errorf("claim: %.200v, want that it is too large", err)
	}
	if err := s.Health(ctx); err != nil {
		t.Error("the store does not work")
	}
}

// TestASweepOfEventsWithManyNamesEnds deletes more at once than a transaction takes, and than a
// step of the sweep reads.
func TestASweepOfEventsWithManyNamesEnds(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	o := quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	for c := range 5 {
		claims := make([]dedup.Claim, 64)
		for i := range claims {
			claims[i] = dedup.Claim{Key: dedup.Key{ID: fmt.Sprint(c, "-", i)}, Window: time.Minute}
			for a := range 110 {
				claims[i].Aliases = append(claims[i].Aliases, dedup.Key{Space: "nonce",
					ID: fmt.Sprint(c, "-", i, "-", a)})
			}
		}
		if _, err := s.Claim(context.Background(), claims...); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(time.Hour)
	step, next, err := s.maintenance.ended(record.FamilyEvent, []byte{record.FamilyEvent}, 0, nil)
	if err != nil || next == nil {
		t.Errorf("a step reads all %d records, %v", len(step.found), err)
	}
	if err := s.maintenance.sweep(0); err != nil {
		t.Errorf("%.200v", err)
	}
	if st, err := s.Stats(context.Background()); err != nil || st.Records != 0 {
		t.Errorf("%d records are left, %v", st.Records, err)
	}
}

// TestANewEventIsStartedInTheStepThatAcceptsIt saves a write per event while a Take waits.
func TestANewEventIsStartedInTheStepThatAcceptsIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openManual(t, dir, quiet())
	claim, take := claimOpOf(t, claimOf("a"), claimOf("b")), takeOpOf(1)
	before := s.writer.meta.Commit
	together(t, s, claim, take)
	if len(take.work) != 1 || take.err != nil {
		t.Fatalf("the Take got %d tasks, %v", len(take.work), take.err)
	}
	if n := s.writer.meta.Commit - before; n != 1 {
		t.Errorf("%d commits", n)
	}
	for i, d := range claim.decisions {
		if d.Verdict != dedup.New || d.Record.Tasks[0].State != dedup.Pending {
			t.Errorf("claim %d: %v, task %v", i, d.Verdict, d.Record.Tasks[0].State)
		}
	}
	taken, waits := take.work[0].Record.Event, claim.decisions[1].Record.Event
	if taken == waits {
		waits = claim.decisions[0].Record.Event
	}
	// The store after a crash.
	crashed := open(t, copyStore(t, dir), quiet())
	for event, want := range map[string]int{taken: 1, waits: 0} {
		rec, err := crashed.Get(context.Background(), event)
		if err != nil || rec.Tasks[0].Attempt != want {
			t.Errorf("after a crash event %s has %d attempts, not %d: %v", event, rec.Tasks[0].Attempt, want, err)
		}
	}
	// The other event is given out once, the first one not again.
	next, none := takeOpOf(2), takeOpOf(2)
	together(t, s, next)
	together(t, s, none)
	if len(next.work) != 1 || next.work[0].Record.Event != waits || len(none.work) != 0 {
		t.Errorf("then Takes got %d and %d tasks", len(next.work), len(none.work))
	}
	together(t, s, finishOf(take.work[0].Lease, dedup.ResultDone), finishOf(next.work[0].Lease, dedup.ResultDone))
	if open, _ := s.writer.tasks.Len(); open != 0 {
		t.Errorf("%d tasks are left", open)
	}
}

// unwritable runs do while the file system takes no writes.
func unwritable(t *testing.T, s *Store, do func()) {
	t.Helper()
	other, err := storedir.LockDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Release(); err != nil {
		t.Fatal(err)
	}
	lock := s.lock
	s.lock = other // its file is closed
	do()
	s.lock = lock
	s.disk.recheck()
}

// TestANewEventThatIsNotWrittenIsNotStarted refuses the write that would accept and start an event.
func TestANewEventThatIsNotWrittenIsNotStarted(t *testing.T) {
	t.Parallel()
	s := openManual(t, t.TempDir(), quiet())
	lane := claimOf("a")
	lane.Tasks[0].Lane = "lane"
	refused, take := claimOpOf(t, lane, claimOf("b")), takeOpOf(2)
	unwritable(t, s.Store, func() { s.writer.process([]op{refused, take}) })
	unavailable(t, refused.err, "cannot be written")
	unavailable(t, take.err, "cannot be written")
	oldest, waits := s.writer.tasks.Oldest()
	if open, running := s.writer.tasks.Len(); open+running != 0 || waits {
		t.Errorf("%d tasks are left, %d of them running; the oldest was accepted %v", open, running, oldest)
	}
	again, next := claimOpOf(t, lane, claimOf("b")), takeOpOf(2)
	together(t, s, again, next)
	if again.decisions[0].Verdict != dedup.New || len(next.work) != 2 {
		t.Errorf("the retry: %v, %d tasks", again.decisions[0].Verdict, len(next.work))
	}
}

// TestRefusedCommitsUseNoMemory refuses many commits: only the events of the last one are noted.
func TestRefusedCommitsUseNoMemory(t *testing.T) {
	t.Parallel()
	s := openManual(t, t.TempDir(), quiet())
	unwritable(t, s.Store, func() {
		for i := range 10 {
			refused := claimOpOf(t, claimOf(fmt.Sprint(i)))
			s.writer.process([]op{refused})
			unavailable(t, refused.err, "cannot be written")
			s.disk.recheck()
		}
	})
	if n := len(s.writer.inFlight); n != 1 {
		t.Errorf("%d events are noted", n)
	}
}

// TestTheAgeOfTheOldestEventIsNotThatOfARefusedOne refuses an event whose sequence the next one
// gets.
func TestTheAgeOfTheOldestEventIsNotThatOfARefusedOne(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	o := quiet()
	o.Clock = clock
	s := openManual(t, t.TempDir(), o)
	refused, take := claimOpOf(t, claimOf("a")), takeOpOf(1)
	unwritable(t, s.Store, func() { s.writer.process([]op{refused, take}) })
	unavailable(t, refused.err, "cannot be written")
	clock.Advance(time.Hour)
	again := claimOpOf(t, claimOf("a"))
	together(t, s, again)
	if want := again.decisions[0].Record.Accepted; !s.stats.Oldest.Equal(want) {
		t.Errorf("the oldest event was accepted %v, want %v", s.stats.Oldest, want)
	}
}

// TestATaskOfABatchThatWasRefusedIsDue passes over a task whose result, too late, is in the same
// batch, and writes nothing.
func TestATaskOfABatchThatWasRefusedIsDue(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock = clock
	s := openManual(t, t.TempDir(), o)
	together(t, s, claimOpOf(t, claimOf("a")))
	first := takeOpOf(1)
	first.want.Lease = time.Minute
	together(t, s, first)
	clock.Advance(2 * time.Minute)
	late, take := finishOf(first.work[0].Lease, dedup.ResultDone), takeOpOf(1)
	unwritable(t, s.Store, func() { s.writer.process([]op{late, take}) })
	s.writer.dropParked(nil)
	if late.err == nil {
		t.Fatal("the batch was written")
	}
	again := takeOpOf(1)
	if together(t, s, again); len(again.work) != 1 {
		t.Error("the task waits for a lease that nobody has")
	}
}

// TestADueTaskCostsOneFlush waits for tasks whose lease ends. The mark of the commit that starts
// one may wait for another commit.
func TestADueTaskCostsOneFlush(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	c, want := claimOf("a"), dedup.Want{Tasks: 1, Lease: time.Hour}
	for unmarked, n := false, 0; !unmarked; n++ { // a slow machine may mark each one after a while
		if n == 20 {
			t.Fatal("each commit is marked at once")
		}
		c.Key.ID = fmt.Sprint(n)
		mustClaim(t, s, c, dedup.New)
		if _, err := s.Take(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		again := make(chan []dedup.Work, 1)
		go func() {
			work, _ := s.Take(t.Context(), want)
			again <- work
		}()
		for parked := false; !parked; {
			onCommitter(t, s, func(c *committer) { parked = len(c.parked) > 0 })
		}
		clock.Advance(time.Hour)
		work := <-again
		onCommitter(t, s, func(c *committer) { unmarked = c.unmarked })
		if err := s.Finish(t.Context(), work[0].Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
			t.Fatal(err)
		}
	}
}
