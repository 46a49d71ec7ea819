package deduptest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
)

var shareChecks = []check{
	{"ASharedBodyIsReadFromTheOriginal", func(x *rig) {
		original, sharers, body := shared(x, 2000, 2)
		for _, event := range sharers {
			r := x.get(event)
			if !r.Shared || r.Original != original || r.State() != dedup.Dead {
				x.Errorf("record %s", text(bare(r)))
			}
			x.body(event, body)
		}
		for _, f := range []dedup.Filter{{Body: true}, {}} {
			for _, r := range x.list(f) {
				if f.Body != bytes.Equal(r.Payload.Body, body) || !f.Body && r.Payload.Body != nil {
					x.Errorf("listed with %d bytes", len(r.Payload.Body))
				}
			}
		}
		if r := x.get(original); !slices.Equal(r.Sharers, sharers) || r.QuarantineCount != 2 {
			x.Errorf("original %s", text(bare(r)))
		}
		x.purge(sharers[0])
		if r := x.get(original); !slices.Equal(r.Sharers, sharers[1:]) {
			x.Errorf("original %s", text(bare(r)))
		}
	}},
	{"ABodyOfAnotherLengthIsShared", func(x *rig) { shareInstead(x, []byte("short")) }},
	{"ABodyIsSharedInsteadOfAnEmptyOne", func(x *rig) { shareInstead(x, nil) }},
	{"AReopenedRecordRunsWithTheSharedBody", func(x *rig) {
		original, sharers, body := shared(x, 2000, 1)
		if r := x.reopenEvent(sharers[0]); !bytes.Equal(r.Payload.Body, body) {
			x.Fatalf("reopened with %d bytes", len(r.Payload.Body))
		}
		x.runsWith(body, sharers[0])
		x.body(sharers[0], body)
		d := x.want(dedup.Known, share(original, "copy 0", body))
		x.same(d.Record, undescribed(x.get(sharers[0])), "record of a duplicate")
	}},
	{"PurgingTheOriginalMovesTheBodyToTheOldestSharer", func(x *rig) { sharePurgeOf(x, 2000) }},
	{"PurgingTheOriginalMovesALargeBody", func(x *rig) { sharePurgeOf(x, 3<<19) }},
	{"ASharedBodyIsNotForgotten", func(x *rig) {
		original, sharers, body := shared(x, 2000, 1)
		x.advance(30 * day)
		x.body(original, body)
		x.body(sharers[0], body)
		x.accept(delivery("original")) // after its window
		x.body(sharers[0], body)
		x.purge(sharers[0])
		if _, err := x.store.Get(x.ctx, original); err == nil {
			x.Error("the original outlives its sharers")
		}
	}},
	{"ABodyIsNotDroppedWhileItIsShared", func(x *rig) {
		body := bytes.Repeat([]byte{'B'}, 2000)
		c := delivery("original")
		c.Payload.Body, c.DropBody = body, true
		original := x.accept(c)
		sharer := x.accept(share(original, "copy", body))
		x.run(done(), original)
		x.body(original, body)
		x.body(sharer, body)
		late := x.accept(share(original, "late", body))
		x.purge(sharer)
		x.body(late, body)
		x.purge(late)
		x.body(original, nil)
		x.keepsBody(x.accept(share(original, "too late", body)), body)
	}},
	{"WithoutABodyToShareTheRecordKeepsItsOwn", func(x *rig) {
		body := []byte("body of its own")
		x.keepsBody(x.accept(share("gone", "copy", body)), body)
	}},
	{"SharingSurvivesReopening", func(x *rig) {
		original, sharers, body := shared(x, 3<<19, 2)
		x.reopen()
		x.body(sharers[0], body)
		x.purge(original)
		x.reopen()
		for _, event := range sharers {
			x.body(event, body)
		}
		x.reopenEvent(sharers[1])
		x.reopen()
		x.runsWith(body, sharers[1])
	}},
}

// shareInstead shares a body with a delivery that has another one: the deliveries of one signed
// content can differ in what is not signed.
func shareInstead(x *rig, other []byte) {
	x.Helper()
	original := x.finished(delivery("original"), done())
	body := x.get(original).Payload.Body
	sharer := x.accept(share(original, "copy", other))
	x.body(sharer, body)
	x.purge(original)
	x.keepsBody(sharer, body)
	x.reopenEvent(sharer)
	x.runsWith(body, sharer)
}

// keepsBody requires that the event has a body of its own.
func (x *rig) keepsBody(event string, body []byte) {
	x.Helper()
	equal(x, "shared", x.get(event).Shared, false)
	x.body(event, body)
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
func shared(x *rig, size, n int) (original string, sharers []string, body []byte) {
	x.Helper()
	body = bytes.Repeat([]byte{'B'}, size)
	c := delivery("original")
	c.Payload.Body = body
	original = x.finished(c, done())
	for i := range n {
		sharers = append(sharers, x.accept(share(original, fmt.Sprint("copy ", i), body)))
	}
	return original, sharers, body
}

func sharePurgeOf(x *rig, size int) {
	x.Helper()
	original, sharers, body := shared(x, size, 3)
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
		x.runsWith(body, event)
	}
	for i, event := range sharers {
		x.purge(event)
		for _, left := range sharers[i+1:] {
			x.body(left, body)
		}
	}
	x.count(0)
}
