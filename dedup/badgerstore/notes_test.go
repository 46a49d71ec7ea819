package badgerstore

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

func fenceKey(i int) dedup.Key {
	return dedup.Key{Principal: "p", Endpoint: "e", Space: dedup.SpaceFence, ID: fmt.Sprintf("1:h%d;n", i)}
}

func setNote(t *testing.T, s *Store, k dedup.Key, text string) {
	t.Helper()
	err := s.ChangeNote(context.Background(), k, func(string) (string, error) { return text, nil })
	if err != nil {
		t.Fatal(err)
	}
}

func noteOf(t *testing.T, s *Store, k dedup.Key) string {
	t.Helper()
	n, err := s.Note(context.Background(), k)
	if err != nil {
		t.Fatal(err)
	}
	return n.Text
}

func TestExpiredFencesAndTheFirstOfTooManyAreForgotten(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	for i := range pruneStep + 10 { // more than one step, and a page of the list
		setNote(t, s, fenceKey(i), "1\nevent")
	}
	clock.Advance(time.Hour)
	for i := range 10 {
		setNote(t, s, fenceKey(pruneStep+i), "2\nevent")
	}
	setNote(t, s, dedup.Key{Space: "kept", ID: "a"}, "text")
	if err := s.maintenance.forgetFences(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if n := stored(t, s, record.FamilyNote); n != 6 || noteOf(t, s, fenceKey(0)) != "" {
		t.Errorf("%d notes are stored", n)
	}
	clock.Advance(dedup.FenceFor)
	if err := s.maintenance.forgetFences(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if n := stored(t, s, record.FamilyNote); n != 1 {
		t.Errorf("%d notes are stored", n)
	}
}

func TestADamagedNoteIsReportedAndRepaired(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	k := dedup.Key{Space: "s", ID: "a"}
	setNote(t, s, k, "text")
	spoil(t, s, record.NoteHash(k).Key(record.FamilyNote))
	_, err := s.Note(context.Background(), k)
	damagedIs(t, err, "Note")
	report, err := s.Check(context.Background())
	if err != nil || report.Sound() {
		t.Fatalf("%+v, %v", report, err)
	}
	done, report, err := s.Repair(context.Background())
	if err != nil || len(done) != 1 || done[0].Done != repairedNote || !report.Sound() {
		t.Fatalf("%+v, %+v, %v", done, report, err)
	}
	if text := noteOf(t, s, k); text != "" {
		t.Errorf("note %q", text)
	}
	setNote(t, s, k, "other")
}

func TestABackupHoldsNotes(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	k := dedup.Key{Space: "s", ID: "a"}
	setNote(t, s, k, "text")
	var backup bytes.Buffer
	if err := s.Backup(context.Background(), &backup); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := Restore(context.Background(), dir, quiet(), &backup); err != nil {
		t.Fatal(err)
	}
	if text := noteOf(t, open(t, dir, quiet()), k); text != "text" {
		t.Errorf("note %q", text)
	}
}
