package pgstore

import (
	"fmt"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// TestALateTaskOfALaneWaits stores the task with the smaller number after another one was taken.
func TestALateTaskOfALaneWaits(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	name := fmt.Sprint("late-", schemas.Add(1))
	s, dsn := newStore(t, " application_name="+name, Options{})
	exec := admin(t, s, dsn)
	in := func(id string) dedup.Claim {
		c := event(id, "ship")
		c.Tasks[0].Lane = "l"
		return c
	}
	late := in("late")
	hash := late.Key.Hash()
	// Another program inserts the same key and rolls back. The number is drawn before.
	exec(fmt.Sprintf(`BEGIN; INSERT INTO {{schema}}.event (seq, hash, current, generation, accepted, win, tasks, hold, drop_body,
  newest, producer, endpoint, type, key, about, size) VALUES (-1, '\x%x', true, 1, now(), 1, 0, false, false, false,
  '', '', '', '', '', 0)`, hash))
	stored := make(chan dedup.Decision, 1)
	go func() { stored <- claim(t, s, late, dedup.New) }()
	awaitLock(t, s, name)
	early := claim(t, s, in("early"), dedup.New)
	w := takeOne(t, s)
	exec("ROLLBACK")
	if d := <-stored; d.Record.Seq >= early.Record.Seq || w.Record.Event != early.Record.Event {
		t.Fatalf("numbers %d and %d, %s is taken", d.Record.Seq, early.Record.Seq, w.Record.Event)
	}
	var running int
	for range 20 { // it must start nothing
		tasks, err := s.take.try(t.Context(), s.ctx, &dedup.Want{Tasks: 9, Bytes: 1 << 20, Lease: 1 << 40})
		if running += len(tasks); err != nil {
			t.Fatal(err)
		}
	}
	if running > 0 {
		t.Errorf("%d tasks of the lane run beside the first", running)
	}
	if err := s.Finish(t.Context(), w.Lease, done); err != nil {
		t.Error(err)
	}
	if w := takeOne(t, s); w.Record.Key.ID != "late" {
		t.Errorf("%s is next", w.Record.Key.ID)
	}
}
