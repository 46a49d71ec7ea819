package deduptest

import (
	"bytes"
	"fmt"

	"github.com/eyelet-dev/eyelet/dedup"
)

var shareChecks = []check{
	{"ASharedBodyIsReadFromTheOriginal", shareReads},
	{"AReopenedRecordRunsWithTheSharedBody", shareReopens},
	{"PurgingTheOriginalMovesTheBodyToTheOldestSharer", sharePurge},
	{"PurgingTheOriginalMovesALargeBody", sharePurgeLarge},
	{"ASharedBodyIsNotForgotten", shareOutlives},
	{"ABodyIsNotDroppedWhileItIsShared", shareDrops},
	{"WithoutABodyToShareTheRecordKeepsItsOwn", shareAlone},
	{"SharingSurvivesReopening", shareDurable},
}

// share quarantines a repetition of the original's body.
func share(original, name string, body []byte) dedup.Claim {
	c := delivery(name)
	c.Key.Space = dedup.SpaceQuarantine + "test"
	c.Payload.Body = body
	c.Quarantine = &dedup.Quarantine{Reason: "same_bytes", Of: original, Max: 16, Share: true}
	return c
}

// shared makes a finished original and records that share its body.
func shared(x *rig, size, n int, change func(*dedup.Claim)) (original string, sharers []string, body []byte) {
	x.Helper()
	body = bytes.Repeat([]byte{'B'}, size)
	c := delivery("original")
	c.Payload.Body = body
	if change != nil {
		change(&c)
	}
	original = x.accept(c)
	x.finish(x.takeOf(original).Lease, done())
	for i := range n {
		sharers = append(sharers, x.accept(share(original, fmt.Sprint("copy ", i), body)))
	}
	return original, sharers, body
}

func shareReads(x *rig) {
	original, sharers, body := shared(x, 2000, 2, nil)
	for _, event := range sharers {
		r := x.get(event)
		if !r.Shared || r.Original != original || r.State() != dedup.Dead {
			x.Errorf("record %s", text(bare(r)))
		}
		x.body(event, body)
	}
	for _, r := range x.list(dedup.Filter{Body: true}) {
		if !bytes.Equal(r.Payload.Body, body) {
			x.Errorf("listed with %d bytes", len(r.Payload.Body))
		}
	}
	for _, r := range x.list(dedup.Filter{}) {
		if r.Payload.Body != nil {
			x.Errorf("listed with %d bytes", len(r.Payload.Body))
		}
	}
	if r := x.get(original); len(r.Sharers) != 2 || r.Sharers[0] != sharers[0] || r.QuarantineCount != 2 {
		x.Errorf("original %s", text(bare(r)))
	}
	x.purge(sharers[0])
	if r := x.get(original); len(r.Sharers) != 1 || r.Sharers[0] != sharers[1] {
		x.Errorf("original %s", text(bare(r)))
	}
}

func shareReopens(x *rig) {
	_, sharers, body := shared(x, 2000, 1, nil)
	if r := x.reopenEvent(sharers[0]); !bytes.Equal(r.Payload.Body, body) {
		x.Fatalf("reopened with %d bytes", len(r.Payload.Body))
	}
	w := x.takeOf(sharers[0])
	if !bytes.Equal(w.Record.Payload.Body, body) {
		x.Errorf("work of %d bytes", len(w.Record.Payload.Body))
	}
	x.finish(w.Lease, done())
	x.body(sharers[0], body)
}

func sharePurge(x *rig)      { sharePurgeOf(x, 2000) }
func sharePurgeLarge(x *rig) { sharePurgeOf(x, 3<<19) }

func sharePurgeOf(x *rig, size int) {
	x.Helper()
	original, sharers, body := shared(x, size, 3, nil)
	x.purge(original)
	heir := x.get(sharers[0])
	if heir.Shared || len(heir.Sharers) != 2 {
		x.Errorf("heir %s", text(bare(heir)))
	}
	for _, event := range sharers[1:] {
		if r := x.get(event); !r.Shared || r.Original != sharers[0] {
			x.Errorf("record %s", text(bare(r)))
		}
	}
	for _, event := range sharers {
		x.reopenEvent(event)
		w := x.takeOf(event)
		if !bytes.Equal(w.Record.Payload.Body, body) {
			x.Errorf("%s runs with %d bytes", event, len(w.Record.Payload.Body))
		}
		x.finish(w.Lease, done())
	}
	for i, event := range sharers {
		x.purge(event)
		for _, left := range sharers[i+1:] {
			x.body(left, body)
		}
	}
	x.count(0)
}

func shareOutlives(x *rig) {
	original, sharers, body := shared(x, 2000, 1, nil)
	x.advance(30 * day)
	x.body(original, body)
	x.body(sharers[0], body)
	x.accept(delivery("original")) // after its window
	x.body(sharers[0], body)
	x.purge(sharers[0])
	if _, err := x.store.Get(x.ctx, original); err == nil {
		x.Error("the original outlives its sharers")
	}
}

func shareDrops(x *rig) {
	body := bytes.Repeat([]byte{'B'}, 2000)
	c := delivery("original")
	c.Payload.Body, c.DropBody = body, true
	original := x.accept(c)
	sharer := x.accept(share(original, "copy", body))
	x.finish(x.takeOf(original).Lease, done())
	x.body(original, body)
	x.body(sharer, body)
	late := x.accept(share(original, "late", body))
	x.purge(sharer)
	x.body(late, body)
	x.purge(late)
	x.body(original, nil)
	alone := x.get(x.accept(share(original, "too late", body)))
	if alone.Shared || !bytes.Equal(alone.Payload.Body, body) {
		x.Errorf("record %s", text(bare(alone)))
	}
}

func shareAlone(x *rig) {
	body := []byte("body of its own")
	r := x.get(x.accept(share("gone", "copy", body)))
	if r.Shared || !bytes.Equal(r.Payload.Body, body) {
		x.Errorf("record %s", text(r))
	}
}

func shareDurable(x *rig) {
	original, sharers, body := shared(x, 3<<19, 2, nil)
	x.reopen()
	x.body(sharers[0], body)
	x.purge(original)
	x.reopen()
	for _, event := range sharers {
		x.body(event, body)
	}
	x.reopenEvent(sharers[1])
	x.reopen()
	if w := x.takeOf(sharers[1]); !bytes.Equal(w.Record.Payload.Body, body) {
		x.Errorf("work of %d bytes", len(w.Record.Payload.Body))
	}
}
