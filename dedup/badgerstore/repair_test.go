package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// unset deletes a key directly in the database.
func unset(t *testing.T, s *Store, key []byte) {
	t.Helper()
	if err := s.write(mutation{Key: key}); err != nil {
		t.Fatal(err)
	}
}

// wreck overwrites the content under a key, or the value if there is none, so that nothing of it
// can be decoded.
func wreck(t *testing.T, s *Store, key []byte) {
	t.Helper()
	value, content := bothOf(t, s, key)
	if content != nil {
		content = make([]byte, 40)
	} else {
		value = make([]byte, 40)
	}
	if err := s.write(mutation{Key: key, Value: value, Content: content}); err != nil {
		t.Fatal(err)
	}
}

// empty deletes the content under a key.
func empty(t *testing.T, s *Store, key []byte) {
	t.Helper()
	if err := s.write(mutation{Key: key, Value: valueOf(t, s, key)}); err != nil {
		t.Fatal(err)
	}
}

// uncached returns options of a store that reads every event from disk.
func uncached() Options {
	o := quiet()
	o.rowBytes = 1
	return o
}

// repaired repairs the store and checks that it is sound, now and after a restart.
func repaired(t *testing.T, s *Store, done ...string) *Store {
	t.Helper()
	ctx := context.Background()
	if _, err := s.Check(ctx); err != nil || s.Degraded() == nil {
		t.Fatalf("no damage is known: %v", err)
	}
	repairs, _, err := s.Repair(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var did []string
	for _, r := range repairs {
		did = append(did, r.Done)
	}
	if diff := cmp.Diff(done, did); diff != "" {
		t.Error(diff)
	}
	sound := func(s *Store) {
		t.Helper()
		if r, err := s.Check(ctx); err != nil || !r.Sound() {
			t.Errorf("%+v, %v", r, err)
		}
		if err := s.Degraded(); err != nil {
			t.Error(err)
		}
	}
	sound(s)
	before, listed := countsOf(t, s), everything(t, s)
	shut(t, s)
	again := open(t, s.dir, uncached())
	sound(again)
	if diff := cmp.Diff(before, countsOf(t, again)); diff != "" {
		t.Errorf("statistics after a restart: %s", diff)
	}
	if diff := cmp.Diff(listed, everything(t, again), bodies); diff != "" {
		t.Errorf("events after a restart: %s", diff)
	}
	return again
}

func countsOf(t *testing.T, s *Store) dedup.Stats {
	t.Helper()
	st, err := s.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return dedup.Stats{Records: st.Records, Pending: st.Pending, Running: st.Running, Dead: st.Dead,
		Backlog: st.Backlog}
}

// letter claims a key again and returns its record, which must be a dead letter with the reason
// damaged.
func letter(t *testing.T, s *Store, c dedup.Claim) dedup.Record {
	t.Helper()
	r := mustClaim(t, s, c, dedup.Known).Record
	for _, task := range r.Tasks {
		if task.State != dedup.Dead || task.Reason != reasonDamaged {
			t.Errorf("task of %s is %v, reason %q", task.Handler, task.State, task.Reason)
		}
	}
	if len(r.Tasks) == 0 || !strings.Contains(r.Note, "damaged") {
		t.Errorf("%d tasks, note %q", len(r.Tasks), r.Note)
	}
	return r
}

func TestARepairedEventIsADeadLetterWithoutItsPayloadAndItsKeyStaysKnown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	event := func(c dedup.Claim, _ *row) []byte { return record.HashOf(c.Key).Key(record.FamilyEvent) }
	// stateless damages an event whose state is damaged too.
	stateless := func(damage func(t *testing.T, s *Store, key []byte)) func(t *testing.T, s *Store, key []byte) {
		return func(t *testing.T, s *Store, key []byte) {
			t.Helper()
			damage(t, s, key)
			spoilState(t, s, key)
		}
	}
	for _, tc := range []struct {
		name   string
		size   int // of the body
		damage func(t *testing.T, s *Store, key []byte)
		key    func(dedup.Claim, *row) []byte
		taken  bool
		done   string
		known  bool // its id and key are unchanged
	}{
		{"without a state", 2000, stateless(spoil), event, false, repairedAll, true},
		{"without a state, nothing readable", 2000, stateless(wreck), event, false, repairedAll, false},
		{"never taken", 2000, spoil, event, false, repairedBody, true},
		{"never taken, nothing readable", 2000, wreck, event, false, repairedBody, true},
		{"retried", 2000, spoil, event, true, repairedBody, true},
		{"retried, nothing readable", 2000, wreck, event, true, repairedBody, true},
		{"retried, the content is gone", 2000, empty, event, true, repairedBody, true},
		{"its large body", 2 * record.InlineMost, spoil, largeBody, false, repairedBody, true},
		{"its large body is gone", 2 * record.InlineMost, unset, largeBody, true, repairedBody, true},
		{"a large body", 2 * record.InlineMost, empty, event, false, repairedBody, true},
		{"a large body, nothing readable", 2 * record.InlineMost, stateless(wreck), event, false, repairedAll, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir(), uncached())
			c := largeClaim("bad", tc.size)
			old := mustClaim(t, s, c, dedup.New).Record
			if tc.taken {
				finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultRetry, After: time.Hour})
			}
			good := mustClaim(t, s, claimOf("good"), dedup.New).Record.Event
			tc.damage(t, s, tc.key(c, rowOf(t, s, c)))
			s = repaired(t, s, tc.done)
			r := letter(t, s, c)
			if (r.Event == old.Event) != tc.known {
				t.Errorf("event %s was %s", r.Event, old.Event)
			}
			if got, err := s.Get(ctx, r.Event); err != nil || got.Payload.Body != nil {
				t.Errorf("Get: %d bytes, %v", len(got.Payload.Body), err)
			}
			for _, tasks := range [][]dedup.NewTask{nil, {{Handler: "another"}}} {
				if _, err := s.Reopen(ctx, r.Event, tasks...); !errors.Is(err, dedup.ErrNoPayload) {
					t.Errorf("Reopen without a payload: %v", err)
				}
			}
			work, err := s.Take(ctx, dedup.Want{Tasks: 9, Bytes: 1 << 20, Lease: time.Minute})
			if err != nil || len(work) != 1 || work[0].Record.Event != good {
				t.Errorf("work: %v, %v", work, err)
			}
			if n := storedBodies(t, s); n != 0 {
				t.Errorf("%d bodies are left", n)
			}
			// A purged key is forgotten, so its producer can deliver the event again.
			if err := s.Purge(ctx, r.Event); err != nil {
				t.Fatal(err)
			}
			mustClaim(t, s, c, dedup.New)
		})
	}
}

func largeBody(c dedup.Claim, r *row) []byte { return record.HashOf(c.Key).BodyKey(r.rec.Seq) }

func rowOf(t *testing.T, s *Store, c dedup.Claim) (r *row) {
	t.Helper()
	err := s.view(func(txn *kv.View) (err error) {
		r, err = s.readRow(txn, record.Place{Hash: record.HashOf(c.Key)})
		return err
	})
	if err != nil || r == nil {
		t.Fatalf("%v, %v", r, err)
	}
	return r
}

func TestAnEventWithoutItsStateIsADeadLetterThatCanBeReopened(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, t.TempDir(), uncached())
	c := largeClaim("bad", 2000)
	event := mustClaim(t, s, c, dedup.New).Record.Event
	finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultDone})
	spoilState(t, s, record.HashOf(c.Key).Key(record.FamilyEvent))
	s = repaired(t, s, repairedState)
	if r := letter(t, s, c); r.Event != event {
		t.Errorf("event %s was %s", r.Event, event)
	}
	r, err := s.Reopen(ctx, event)
	if err != nil {
		t.Fatal(err)
	}
	sameBody(t, r.Payload.Body, c.Payload.Body)
}

func TestAnEventThatIsDoneStaysDoneWithoutItsPayload(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, t.TempDir(), uncached())
	c := largeClaim("bad", 2000)
	c.Hold, c.Lease, c.Response, c.Fingerprint = true, time.Minute, dedup.Response{}, dedup.Fingerprint{1}
	answer := dedup.Response{Status: 201, Body: []byte("made")}
	lease := mustClaim(t, s, c, dedup.New).Lease
	if err := s.Finish(ctx, lease, dedup.Result{Kind: dedup.ResultDone, Response: answer}); err != nil {
		t.Fatal(err)
	}
	spoil(t, s, record.HashOf(c.Key).Key(record.FamilyEvent))
	s = repaired(t, s, repairedBody)
	r := mustClaim(t, s, c, dedup.Known).Record
	if diff := cmp.Diff(answer, r.Response); diff != "" || r.State() != dedup.Done {
		t.Errorf("%v %s", r.State(), diff)
	}
	c.Fingerprint = dedup.Fingerprint{2}
	mustClaim(t, s, c, dedup.Conflict)
}

func TestAClaimThatWasReleasedIsRunByTheNextDeliveryAlthoughItWasDamaged(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, t.TempDir(), uncached())
	c := largeClaim("bad", 2000)
	c.Hold, c.Lease, c.Response = true, time.Minute, dedup.Response{}
	d := mustClaim(t, s, c, dedup.New)
	if err := s.Finish(ctx, d.Lease, dedup.Result{Kind: dedup.ResultRetry}); err != nil {
		t.Fatal(err)
	}
	spoil(t, s, record.HashOf(c.Key).Key(record.FamilyEvent))
	s = repaired(t, s, repairedBody)
	again := mustClaim(t, s, c, dedup.New)
	if again.Record.Event != d.Record.Event || again.Lease.Token == 0 {
		t.Errorf("%+v", again)
	}
	r, err := s.Get(ctx, again.Record.Event)
	if err != nil {
		t.Fatal(err)
	}
	sameBody(t, r.Payload.Body, c.Payload.Body)
}

func TestAnEventThatIsInMemoryIsWrittenAgain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		taken  bool
		damage func(t *testing.T, s *Store, key []byte)
	}{{false, spoil}, {true, spoil}, {true, spoilState}} {
		s := open(t, t.TempDir(), quiet())
		c := largeClaim("bad", 2000)
		event := mustClaim(t, s, c, dedup.New).Record.Event
		if tc.taken {
			finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultRetry, After: time.Hour})
		}
		tc.damage(t, s, record.HashOf(c.Key).Key(record.FamilyEvent))
		s = repaired(t, s, repairedWhole)
		r, err := s.Get(context.Background(), event)
		if err != nil || !r.Open() {
			t.Fatalf("%v, %v", r.State(), err)
		}
		sameBody(t, r.Payload.Body, c.Payload.Body)
	}
}

func TestARepairedAliasBelongsToItsEventAgain(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	var claims []dedup.Claim
	for i := range 2 {
		c := claimOf(fmt.Sprint(i))
		c.Aliases = []dedup.Key{{Principal: "p", Space: dedup.SpaceNonce, ID: fmt.Sprint(i)}}
		mustClaim(t, s, c, dedup.New)
		wreck(t, s, record.HashOf(c.Aliases[0]).Key(record.FamilyAlias))
		claims = append(claims, c)
	}
	nobodys := record.HashOf(dedup.Key{ID: "nobody's"}).Key(record.FamilyAlias)
	wreck(t, s, nobodys)
	keys := [][]byte{nobodys} // in the order of the report
	for _, c := range claims {
		keys = append(keys, record.HashOf(c.Aliases[0]).Key(record.FamilyAlias))
	}
	slices.SortFunc(keys, slices.Compare[[]byte])
	done := []string{repairedAlias, repairedAlias, repairedAlias}
	done[slices.IndexFunc(keys, func(k []byte) bool { return slices.Equal(k, nobodys) })] = repairedOrphan
	s = repaired(t, s, done...)
	for i, c := range claims {
		c.Key.ID = "another"
		if d := mustClaim(t, s, c, dedup.Aliased); d.Record.Key != claims[i].Key {
			t.Errorf("%+v", d)
		}
	}
}

func TestAnOlderGenerationIsRepaired(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	clock := deduptest.NewClock()
	o := uncached()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	c := largeClaim("again", 2000)
	old := mustClaim(t, s, c, dedup.New).Record
	finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultDead, Reason: "rejected"})
	clock.Advance(25 * time.Hour)
	mustClaim(t, s, c, dedup.New)
	wreck(t, s, record.Place{Hash: record.HashOf(c.Key), Older: old.Seq}.Key())
	if repairs, _, err := s.Repair(ctx); err != nil || len(repairs) != 1 || repairs[0].Event != old.Event {
		t.Fatalf("%+v, %v", repairs, err)
	}
	r, err := s.Get(ctx, old.Event)
	if err != nil || r.State() != dedup.Dead || !strings.Contains(r.Note, "damaged") {
		t.Errorf("%+v, %v", r, err)
	}
	if err := s.Degraded(); err != nil {
		t.Error(err)
	}
	wreck(t, s, record.HashOf(c.Key).Key(record.FamilyEvent))
	repairs, _, err := s.Repair(ctx)
	if err != nil || len(repairs) != 1 {
		t.Fatalf("%+v, %v", repairs, err)
	}
	if r, err := s.Get(ctx, repairs[0].Event); err != nil || r.Generation != 2 {
		t.Errorf("the newest event is generation %d, %v", r.Generation, err)
	}
}

func TestADamagedTableIsNotRepaired(t *testing.T) {
	t.Parallel()
	s := filled(t, 200, smallClaim)
	shut(t, s)
	again := open(t, s.dir, quiet())
	for name, size := range files(t, s.dir) {
		if strings.HasSuffix(name, ".sst") {
			flip(t, filepath.Join(s.dir, name), size/2)
		}
	}
	if _, _, err := again.Repair(context.Background()); err == nil || !strings.Contains(err.Error(), ".sst") ||
		!strings.Contains(err.Error(), "restore a backup") {
		t.Error(err)
	}
}

// TestValuesThatNoChecksumConfirmsAreLimited damages events so that they still decode, to
// something else.
func TestValuesThatNoChecksumConfirmsAreLimited(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *dedup.Claim, r *dedup.Record){
		"another key":   func(c *dedup.Claim, _ *dedup.Record) { c.Key.ID = "of another" },
		"a number":      func(_ *dedup.Claim, r *dedup.Record) { r.Seq = 1 << 50 },
		"a window":      func(_ *dedup.Claim, r *dedup.Record) { r.Window = 1000 * dedup.DefaultWindow },
		"a time":        func(_ *dedup.Claim, r *dedup.Record) { r.Accepted = r.Accepted.AddDate(100, 0, 0) },
		"an answer":     func(_ *dedup.Claim, r *dedup.Record) { r.Response.Status = 458 },
		"a fingerprint": func(_ *dedup.Claim, r *dedup.Record) { r.Fingerprint = dedup.Fingerprint{7} },
		"a hold":        func(_ *dedup.Claim, r *dedup.Record) { r.Hold = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir(), uncached())
			c := claimOf("bad")
			c.Fingerprint = dedup.Fingerprint{1}
			r := mustClaim(t, s, c, dedup.New).Record
			mustClaim(t, s, claimOf("good"), dedup.New)
			other := c
			change(&other, &r)
			key := record.HashOf(c.Key).Key(record.FamilyEvent)
			content := record.NewEvent(&other, record.BodyInline).Encode(key, r.Seq)
			value := record.EncodeState(nil, key, &r, record.Outline{})
			content[len(content)-1] ^= 1
			value[len(value)-1] ^= 1
			if err := s.write(mutation{Key: key, Value: value, Content: content}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil { // damage from before the start is listed all the same
				t.Fatal(err)
			}
			s = repaired(t, open(t, s.dir, uncached()), repairedAll)
			got := letter(t, s, c)
			if got.Key != c.Key && got.Key != (dedup.Key{}) || got.Response.Status != 0 || got.Hold || got.Seq > 3 ||
				got.Window != dedup.DefaultWindow || got.Accepted.After(s.now()) {
				t.Errorf("%+v", got)
			}
			if _, listed := everything(t, s)[got.Event]; !listed {
				t.Error("it is not listed")
			}
			if d := mustClaim(t, s, claimOf("next"), dedup.New); d.Record.Seq > 4 {
				t.Errorf("sequence %d", d.Record.Seq)
			}
		})
	}
}

// reading is a context that counts the calls of Err. A check makes one for every value.
type reading struct {
	context.Context
	asked atomic.Int64
}

// Err implements context.Context.
func (r *reading) Err() error {
	r.asked.Add(1)
	return r.Context.Err()
}

// scans returns how often everything was read in a store with a number of values. Other calls
// are far fewer than half of them.
func (r *reading) scans(values int) int {
	return int((r.asked.Swap(0) + int64(values)/2) / int64(values))
}

func TestARepairReadsTheStoreOnceOrTwice(t *testing.T) {
	t.Parallel()
	const values = 400
	s := open(t, t.TempDir(), uncached())
	for i := range values {
		mustClaim(t, s, claimOf(fmt.Sprintf("event-%d", i)), dedup.New)
	}
	ctx := &reading{Context: context.Background()}
	if _, err := s.Check(ctx); err != nil || ctx.scans(values) != 1 {
		t.Fatalf("a check is not a measure: %v", err)
	}
	repair := func(how string, scans, repairs int, do func() ([]Repair, Report, error)) {
		t.Helper()
		done, report, err := do()
		if err != nil || len(done) != repairs || !report.Sound() || report.Records != values {
			t.Errorf("%s: %d repairs, %+v, %v", how, len(done), report, err)
		}
		if got := ctx.scans(values); got != scans {
			t.Errorf("%s: the store was read %d times, want %d", how, got, scans)
		}
	}
	event := record.HashOf(claimOf("event-7").Key).Key(record.FamilyEvent)
	inUse := func() ([]Repair, Report, error) { return s.Repair(ctx) }
	repair("sound, in use", 1, 0, inUse)
	spoil(t, s, event)
	repair("damaged, in use", 2, 1, inUse)
	spoil(t, s, event)
	shut(t, s)
	closed := func() ([]Repair, Report, error) { return RepairDir(ctx, s.dir, quiet()) }
	repair("damaged, closed", 2, 1, closed)
	repair("sound, closed", 1, 0, closed)
}

// TestAPayloadDamagedInItsFileLeavesTheRestOfItsEvent damages a byte of the disk. The repair knows
// what else is in the value.
func TestAPayloadDamagedInItsFileLeavesTheRestOfItsEvent(t *testing.T) {
	t.Parallel()
	s := filled(t, 3, mediumClaim)
	shut(t, s)
	for _, f := range logs(t, s.dir, ".values") {
		flip(t, f, 1000)
	}
	done, r, err := RepairDir(t.Context(), s.dir, quiet())
	if err != nil || len(done) != 1 || done[0].Done != repairedBody || !r.Sound() {
		t.Fatal(done, r, err)
	}
	again := open(t, s.dir, quiet())
	rec, err := again.Get(t.Context(), done[0].Event)
	if err != nil || rec.Key.ID == "" || rec.Payload.Endpoint == "" || rec.State() != dedup.Dead {
		t.Errorf("%+v, %v", rec, err)
	}
	mustClaim(t, again, mediumClaim(0), dedup.Known)
}

// TestARepairKeepsTheLargeBodiesOfOtherGenerations damages one generation of a key, or two.
func TestARepairKeepsTheLargeBodiesOfOtherGenerations(t *testing.T) {
	t.Parallel()
	for name, damaged := range map[string][2]bool{"newest": {true}, "older": {false, true}, "both": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := deduptest.NewClock()
			o := uncached()
			o.Clock = clock
			s := open(t, t.TempDir(), o)
			c := largeClaim("again", record.InlineMost+1)
			old := mustClaim(t, s, c, dedup.New).Record
			finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultDead, Reason: "rejected"})
			clock.Advance(25 * time.Hour)
			now := mustClaim(t, s, c, dedup.New).Record
			finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultDead, Reason: "rejected"})
			places := []record.Place{{Hash: record.HashOf(c.Key)}, {Hash: record.HashOf(c.Key), Older: old.Seq}}
			for i, p := range places {
				if damaged[i] {
					spoilState(t, s, p.Key())
				}
			}
			if _, report, err := s.Repair(t.Context()); err != nil || !report.Sound() {
				t.Errorf("%+v, %v", report, err)
			}
			for _, event := range []string{old.Event, now.Event} {
				r, err := s.Get(t.Context(), event)
				if err != nil {
					t.Fatal(err)
				}
				sameBody(t, r.Payload.Body, c.Payload.Body)
			}
		})
	}
}
