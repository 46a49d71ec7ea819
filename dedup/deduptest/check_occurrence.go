package deduptest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var occurrenceChecks = []check{
	{"TheSameContentUnderItsNameIsKnown", func(x *rig) {
		event := x.accept(digested("d", "a", 0))
		other := digested("d", "a", 0)
		other.Payload.Type = "other"
		x.about(dedup.Known, event, digested("d", "a", 0))
		x.about(dedup.Known, event, other)
		if r := x.get(event); r.Key.ID != "d" || r.Payload.VendorID != "a" || r.Occurrences != 0 {
			x.Errorf("record %s", text(r))
		}
	}},
	{"WithoutANameTheFirstIsKnown", func(x *rig) {
		event := x.accept(digested("d", "a", 4))
		x.accept(digested("d", "b", 4))
		x.about(dedup.Known, event, digested("d", "", 4))
		unnamed := x.accept(digested("e", "", 0))
		x.about(dedup.Known, unnamed, digested("e", "", 0))
		x.about(dedup.Repeated, unnamed, digested("e", "a", 0))
	}},
	{"UnderAnotherNameItIsRepeatedAndStoresNothing", func(x *rig) {
		event := x.accept(digested("d", "a", 1))
		before := x.get(event)
		for _, name := range []string{"b", "c", "b"} {
			d := x.want(dedup.Repeated, digested("d", name, 1))
			x.same(d.Record, bare(before), "record of the decision")
			equal(x, "token", d.Lease.Token, 0)
		}
		x.same(x.get(event), before, "record")
		x.count(1)
		x.takeOf(event)
		x.idle("repeated claims have no tasks")
	}},
	{"WithinTheBoundAnotherNameIsAnotherOccurrence", func(x *rig) {
		events := []string{}
		for i := range 3 {
			events = append(events, x.accept(digested("d", fmt.Sprint(i), 3)))
		}
		x.about(dedup.Repeated, events[0], digested("d", "3", 3))
		for i, event := range events {
			x.about(dedup.Known, event, digested("d", fmt.Sprint(i), 3))
			r := x.get(event)
			want, counts := "d", 3
			if i > 0 {
				want, counts = fmt.Sprintf("d;%d", i+1), 0
			}
			if r.Key.ID != want || r.Occurrences != counts {
				x.Errorf("occurrence %d: %s", i+1, text(r))
			}
		}
		for range events {
			x.finish(x.take().Lease, done())
		}
		x.about(dedup.Repeated, events[0], digested("d", "3", 3))
	}},
	{"AnotherTypeIsNotAnotherOccurrence", func(x *rig) {
		event := x.accept(digested("d", "a", 9))
		c := digested("d", "b", 9)
		c.Payload.Type = "other"
		x.about(dedup.Repeated, event, c)
		x.accept(digested("d", "b", 9))
		c.Occurrence.Name = "c"
		x.about(dedup.Repeated, event, c)
	}},
	{"OtherOccurrencesComeWithinATime", func(x *rig) {
		first := digested("d", "a", 9)
		first.Window = day
		event := x.accept(first)
		again := digested("d", "b", 9)
		again.Occurrence.Within, again.Window = hour, day
		x.advance(hour - time.Millisecond)
		x.accept(again)
		x.advance(time.Millisecond)
		again.Occurrence = &dedup.Occurrence{Name: "c", Max: 9, Within: hour}
		x.about(dedup.Repeated, event, again)
	}},
	{"EachOccurrenceRunsAndHasItsOwnResponse", func(x *rig) {
		a := x.want(dedup.New, heldDigest("d", "a", 9))
		b := x.want(dedup.New, heldDigest("d", "b", 9))
		x.finish(a.Lease, answer(200, "to a"))
		x.finish(b.Lease, release())
		x.about(dedup.Known, a.Record.Event, heldDigest("d", "a", 9))
		again := x.want(dedup.New, heldDigest("d", "b", 9))
		x.continues(again, b)
		x.finish(again.Lease, answer(200, "to b"))
		for _, name := range []string{"a", "b"} {
			x.responds(x.want(dedup.Known, heldDigest("d", name, 9)), 200, "to "+name)
		}
		released := x.want(dedup.New, heldDigest("e", "a", 0))
		x.finish(released.Lease, release())
		x.about(dedup.Repeated, released.Record.Event, heldDigest("e", "b", 0)) // another name does not run it
		x.about(dedup.New, released.Record.Event, heldDigest("e", "", 0))
	}},
	{"ALargeBodyOccursAgain", func(x *rig) {
		large := func(name string) dedup.Claim {
			c := digested("d", name, 2)
			c.Payload.Body = bytes.Repeat([]byte{'L'}, 3<<19)
			return c
		}
		a, b := x.accept(large("a")), x.accept(large("b"))
		x.about(dedup.Repeated, a, large("c"))
		x.about(dedup.Known, a, large("a"))
		x.about(dedup.Known, b, large("b"))
		x.body(a, large("").Payload.Body)
		x.body(b, large("").Payload.Body)
	}},
	{"ALargeBodyOccursAgainInOneCall", func(x *rig) {
		large := func(name string) dedup.Claim {
			c := digested("d", name, 3)
			c.Payload.Body = bytes.Repeat([]byte{'L'}, 3<<19)
			return c
		}
		ds := x.claims(large("a"), large("b"), large("a"), large("c"), large("e"), large("b"))
		x.verdicts(ds, dedup.New, dedup.New, dedup.Known, dedup.New, dedup.Repeated, dedup.Known)
		for i, id := range []string{0: "d", 1: "d;2", 3: "d;3"} {
			if id != "" {
				equal(x, "key", ds[i].Record.Key.ID, id)
				x.body(ds[i].Record.Event, large("").Payload.Body)
			}
		}
	}},
	{"InOneCallClaimsSeeEachOther", func(x *rig) {
		a, b, c := digested("d", "a", 2), digested("d", "b", 2), digested("d", "c", 2)
		ds := x.claims(a, b, a, c, b)
		x.verdicts(ds, dedup.New, dedup.New, dedup.Known, dedup.Repeated, dedup.Known)
		for i, of := range []int{0, 1, 0, 0, 1} {
			if got := ds[i].Record.Event; got != ds[of].Record.Event {
				x.Errorf("claim %d of %q", i, got)
			}
		}
		equal(x, "occurrences", x.get(ds[0].Record.Event).Occurrences, 2)
	}},
	{"NumbersAreNotReusedAfterTheWindowOfTheFirst", func(x *rig) {
		short := func(name string) dedup.Claim {
			c := digested("d", name, 3)
			c.Tasks, c.Window = nil, hour
			return c
		}
		x.accept(short("a"))
		x.advance(hour - minute)
		second := x.accept(short("b"))
		x.advance(2 * minute)
		x.about(dedup.Known, second, short("b"))
		first := x.accept(short("c"))
		third := x.accept(short("e"))
		if a, b := x.get(first), x.get(third); a.Key.ID != "d" || b.Key.ID != "d;3" || a.Occurrences != 3 {
			x.Errorf("first %s\nthird %s", text(a), text(b))
		}
		x.about(dedup.Known, second, short("b"))
		x.about(dedup.Repeated, first, short("f"))
	}},
	{"OnlyKnownStoresNoOccurrence", func(x *rig) {
		x.want(dedup.New, asking(digested("d", "a", 2)))
		event := x.accept(digested("d", "a", 2))
		x.want(dedup.New, asking(digested("d", "b", 2)))
		x.about(dedup.Known, event, asking(digested("d", "a", 2)))
		x.about(dedup.Repeated, event, asking(digested("d", "b", 1)))
		x.count(1)
		equal(x, "occurrences", x.get(event).Occurrences, 0)
	}},
	{"SlotsBoundTheKeysThatShareThem", func(x *rig) {
		slotted := func(topic string) dedup.Claim {
			c := slotted(digested("d;"+topic, topic, 0), 3)
			c.Tasks, c.Window = nil, hour
			return c
		}
		first := x.accept(slotted("a"))
		x.accept(slotted("b"))
		x.about(dedup.Known, first, slotted("a"))
		x.advance(minute)
		x.accept(slotted("c"))
		x.about(dedup.Repeated, first, slotted("e"))
		x.about(dedup.Known, first, slotted("a"))
		x.purge(first)
		x.accept(slotted("f"))
		x.want(dedup.Repeated, slotted("g"))
		x.advance(hour - minute)
		x.accept(slotted("g"))
	}},
	{"ARecordThatNeedsNoSlotTakesAFreeOne", func(x *rig) {
		spare := func(topic string, spare bool) dedup.Claim {
			c := slotted(digested("d;"+topic, topic, 0), 1)
			c.Tasks, c.Window, c.Remember, c.Occurrence.Spare = nil, hour, &dedup.Remember{}, spare
			return c
		}
		first := x.accept(spare("a", true))
		x.accept(spare("b", true))
		x.about(dedup.Repeated, first, spare("", false))
		x.advance(hour)
		x.accept(spare("c", true))
		x.advance(hour)
		x.want(dedup.Seen, spare("", false))
		x.want(dedup.Seen, spare("a", true))
	}},
	{"OccurrencesWithSlotsAreCountedWithTheirOwnContent", func(x *rig) {
		a := x.accept(slotted(digested("d;a", "1", 2), 5))
		b := x.accept(slotted(digested("d;b", "2", 2), 5))
		x.accept(slotted(digested("d;b", "3", 2), 5))
		equal(x, "occurrences of a", x.get(a).Occurrences, 0)
		equal(x, "occurrences of b", x.get(b).Occurrences, 2)
		x.accept(slotted(digested("d;a", "4", 2), 5))
		x.about(dedup.Repeated, a, slotted(digested("d;a", "5", 2), 5))
		x.about(dedup.Repeated, b, slotted(digested("d;b", "5", 2), 5))
		x.accept(slotted(digested("d;c", "6", 2), 5))
		x.about(dedup.Repeated, a, slotted(digested("d;e", "7", 2), 5)) // every slot is taken
	}},
	{"AnEventHasTheNameOfAFormerConfiguration", func(x *rig) {
		byID := func(id string) dedup.Claim { return renamed(delivery(id), dedup.SpaceSent, id) }
		byDigest := func(digest, id string) dedup.Claim { return renamed(digested(digest, id, 0), "", id) }
		a, b := x.accept(byID("a")), x.accept(byDigest("d", "b"))
		for range 2 {
			x.about(dedup.Known, a, byDigest("e", "a"))
			x.about(dedup.Known, b, byID("b"))
		}
		x.about(dedup.Known, b, asking(byID("b")))
		x.count(2)
		x.want(dedup.Repeated, byDigest("d", "c")) // a name that is not theirs, in either way
		other := altered(byID("b"))
		other.Former.Fingerprint = other.Fingerprint
		x.accept(other)
		other = altered(byDigest("f", "a"))
		other.Former.Fingerprint = other.Fingerprint
		x.accept(other)
		x.about(dedup.New, "", asking(byID("c")))
	}},
	{"AnEventWithoutAFingerprintHasItsFormerKey", func(x *rig) {
		plain := delivery("a")
		plain.Fingerprint = dedup.Fingerprint{}
		event := x.accept(plain)
		x.about(dedup.Known, event, renamed(digested("d", "a", 0), "", "a"))
		unknown := digested("e", "b", 0)
		unknown.Fingerprint = dedup.Fingerprint{}
		x.accept(unknown)
		x.accept(renamed(delivery("b"), dedup.SpaceSent, "b"))
	}},
	{"ContentHasTheKeyOfAFormerConfiguration", func(x *rig) {
		first := x.accept(digested("d", "a", 2))
		x.about(dedup.Known, first, renamedContent(digested("e", "a", 2), "f", "d"))
		x.about(dedup.Known, first, renamedContent(digested("e", "", 2), "d"))
		again := x.accept(renamedContent(digested("e", "b", 2), "d"))
		equal(x, "key", x.get(again).Key.ID, "d;2")
		equal(x, "occurrences", x.get(first).Occurrences, 2)
		x.about(dedup.Known, again, renamedContent(digested("e", "b", 2), "d"))
		x.about(dedup.Repeated, first, renamedContent(digested("e", "c", 2), "d"))
		other := altered(renamedContent(digested("e", "a", 2), "d"))
		other.Former.Fingerprint = other.Fingerprint
		own := x.accept(other)
		equal(x, "key", x.get(own).Key.ID, "e")
	}},
	{"AClaimByAnIdentifierMayHaveASignatureOfBefore", func(x *rig) {
		event := x.accept(digested("d", "a", 0))
		signed := func(id string, same bool) dedup.Claim {
			c := renamed(delivery(id), dedup.SpaceSent, id)
			c.Former.Contents, c.Former.Delivery = []dedup.Key{key("e"), key("d")}, comparing{signature: same}
			return c
		}
		x.about(dedup.Known, event, signed("a", true))
		x.about(dedup.New, "", asking(signed("b", false)))
		d := x.want(dedup.Aliased, signed("b", true))
		if d.Record.Event != event || d.Alias != key("d") {
			x.Errorf("decision %+v", d)
		}
		other := altered(signed("b", true))
		other.Former.Fingerprint = other.Fingerprint
		x.about(dedup.New, "", asking(other))
		x.count(1)
		x.accept(signed("b", false))
		x.about(dedup.Aliased, event, signed("c", true))
	}},
	{"AFormerKeyOfContentIsOneSending", func(x *rig) {
		first := x.accept(digested("d", "a", 2))
		x.about(dedup.Known, first, renamed(digested("e", "a", 2), "", "d"))
		x.accept(renamed(digested("e", "b", 2), "", "d"))
	}},
	{"AFormerEndpointIsComparedWithTheDelivery", func(x *rig) {
		old := delivery("a")
		old.Key.Endpoint = "shop?t=1"
		event := x.accept(old)
		plain := dedup.Claim{}
		for _, same := range []bool{false, true} {
			plain = delivery("a")
			plain.Former = &dedup.Former{
				Names: []dedup.Key{key("b"), old.Key}, Fingerprint: plain.Fingerprint, Delivery: comparing{scope: same},
			}
			if !same {
				x.about(dedup.New, "", asking(plain))
			}
		}
		x.about(dedup.Known, event, plain)
		x.count(1)
	}},
	{"ARecordWithoutAFingerprintIsComparedWithTheDelivery", func(x *rig) {
		unknown := digested("d", "a", 0)
		unknown.Fingerprint = dedup.Fingerprint{}
		event := x.accept(unknown)
		c := renamed(delivery("a"), dedup.SpaceSent, "a")
		c.Former.Delivery = comparing{}
		x.about(dedup.New, "", asking(c))
		c.Former.Delivery = comparing{content: true}
		x.about(dedup.Known, event, c)
	}},
	{"AReleasedEventContinuesUnderItsFormerName", func(x *rig) {
		first := x.want(dedup.New, heldDigest("d", "a", 1))
		x.finish(first.Lease, release())
		x.continues(x.want(dedup.New, renamed(held("a"), dedup.SpaceSent, "a")), first)
	}},
	{"AFormerNameEndsWithItsWindow", func(x *rig) {
		old := brief("a")
		x.accept(old)
		x.advance(hour)
		x.accept(renamed(digested("d", "a", 0), "", "a"))
	}},
	{"OtherContentUnderAKnownNameIsNewAndNoted", func(x *rig) {
		a := x.accept(digested("d", "a", 0))
		d := x.want(dedup.New, digested("e", "a", 0))
		b := d.Record.Event
		x.same(d.Record, bare(x.get(b)), "record of the decision")
		if d.Reused != a || !strings.Contains(x.get(b).Note, a) || !strings.Contains(x.get(a).Note, b) {
			x.Errorf("reuse of %q: %s\n%s", d.Reused, text(x.get(a)), text(x.get(b)))
		}
		c := x.want(dedup.New, digested("f", "a", 0))
		if c.Reused != b || strings.Contains(x.get(a).Note, c.Record.Event) {
			x.Errorf("reuse of %q: %s", c.Reused, text(x.get(a)))
		}
		x.about(dedup.Known, a, digested("d", "a", 0))
		equal(x, "reused by another occurrence", x.want(dedup.New, digested("d", "g", 9)).Reused, "")
	}},
	{"AReleasedClaimTakesItsIdentifierBack", func(x *rig) {
		run := func(digest string, window time.Duration) dedup.Decision {
			d := x.want(dedup.New, windowed(heldDigest(digest, "a", 1), window))
			x.finish(d.Lease, release())
			return d
		}
		first := run("d", day)
		equal(x, "reused by the second", run("e", hour).Reused, first.Record.Event)
		x.continues(run("d", day), first)
		x.advance(3 * hour)
		equal(x, "reused by the third", run("f", hour).Reused, first.Record.Event)
	}},
	{"AnIdentifierThatIsNoLongerKeptStaysWithItsLaterEvent", func(x *rig) {
		first := x.want(dedup.New, heldDigest("d", "a", 1))
		x.finish(first.Lease, release())
		second := x.accept(digested("e", "a", 1))
		again := heldDigest("d", "", 1)
		for i := range 70 { // more aliases than a record keeps
			again.Aliases = append(again.Aliases, nonce(fmt.Sprint(i)))
		}
		x.continues(x.want(dedup.New, again), first)
		equal(x, "reused by the third", x.want(dedup.New, digested("f", "a", 1)).Reused, second)
	}},
	{"TheVendorsIdentifierFindsTheEvent", func(x *rig) {
		a := x.accept(digested("d", "a", 0))
		b := x.accept(digested("e", "a", 0))
		x.accept(digested("f", "b", 0))
		var found []string
		for _, r := range x.list(dedup.Filter{ID: "a"}) {
			found = append(found, r.Event)
		}
		if !slices.Equal(found, []string{b, a}) {
			x.Errorf("found %v, want %v", found, []string{b, a})
		}
	}},
}

// digested is a claim of a named occurrence, whose key is a digest of its content.
func digested(digest, name string, most int) dedup.Claim {
	c := delivery(digest)
	c.Payload.VendorID = name
	c.Occurrence = &dedup.Occurrence{Name: name, Max: most}
	return c
}

// slotted is the claim of an occurrence that takes one of n slots.
func slotted(c dedup.Claim, n int) dedup.Claim {
	for i := range n {
		slot := key(fmt.Sprint("d;", i))
		slot.Space = dedup.SpaceSlot
		c.Occurrence.Slots = append(c.Occurrence.Slots, slot)
	}
	return c
}

func heldDigest(digest, name string, most int) dedup.Claim {
	c := digested(digest, name, most)
	c.Response, c.Hold, c.Lease = dedup.Response{}, true, minute
	return c
}

// renamed is a claim of an event that another configuration may have named otherwise.
func renamed(c dedup.Claim, space, id string) dedup.Claim {
	name := key(id)
	name.Space = space
	c.Former = &dedup.Former{Names: []dedup.Key{name}, Fingerprint: c.Fingerprint}
	return c
}

// renamedContent is a claim of content that has other keys in other configurations.
func renamedContent(c dedup.Claim, digests ...string) dedup.Claim {
	c.Former = &dedup.Former{Fingerprint: c.Fingerprint}
	for _, digest := range digests {
		c.Former.Contents = append(c.Former.Contents, key(digest))
	}
	return c
}

// comparing is a delivery of which a record has the scope or the content.
type comparing struct{ scope, content, signature bool }

func (c comparing) SameScope(dedup.Record) bool     { return c.scope }
func (c comparing) SameContent(dedup.Record) bool   { return c.content }
func (c comparing) SameSignature(dedup.Record) bool { return c.signature }
