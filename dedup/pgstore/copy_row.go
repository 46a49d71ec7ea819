package pgstore

import (
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// rowOf returns the row of an event of another store.
func rowOf(item *dedup.Item) *row {
	r := item.Record
	hash := r.Key.Hash()
	w := &row{rec: r, seq: int64(r.Seq), hash: hash[:], current: !item.Older, size: len(r.Payload.Body)}
	w.cut()
	w.pack()
	w.fingerprint, w.about = fingerprintOf(&w.rec), packAbout(&w.rec)
	return w
}

// cut changes the record to what the tables can hold: times in microseconds, and a window that ends
// a fixed time after the last outcome. It may become longer, but not shorter.
func (w *row) cut() {
	r := &w.rec
	if r.Response.Status == 0 {
		r.Response = dedup.Response{}
	}
	if freed := r.Hold && len(r.Tasks) == 1 && r.Tasks[0].State == dedup.Pending; freed {
		r.Tasks[0].Ended = r.Finished // the end of the lease, not when the store noticed it
	}
	cutTimes(&r.Accepted)
	for i := range r.Tasks {
		t := &r.Tasks[i]
		cutTimes(&t.Due, &t.Started, &t.Ended, &t.Until)
		for i := range t.History {
			cutTimes(&t.History[i].Started, &t.History[i].Ended, &t.History[i].Reopened)
		}
	}
	ends := r.Expires
	r.Window, r.Finished, r.Expires = micros(r.Window), time.Time{}, time.Time{}
	if w.settle(); !ends.IsZero() {
		r.Window = max(r.Window, micros(ends.Sub(r.Finished)))
		w.settle()
	}
}

func cutTimes(times ...*time.Time) {
	for _, t := range times {
		*t = t.Truncate(time.Microsecond).UTC()
	}
}
