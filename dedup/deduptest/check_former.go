package deduptest

import (
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var formerChecks = []check{
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
	{"AReleasedClaimTakesItsIdentifierBack", func(x *rig) {
		run := func(digest string, window time.Duration) dedup.Decision {
			d := x.want(dedup.New, windowed(heldDigest(digest, "a", 1), window))
			x.finish(d.Lease, release())
			return d
		}
		byID := asking(renamed(delivery("a"), dedup.SpaceSent, "a"))
		first := run("d", day)
		x.about(dedup.Known, run("e", hour).Record.Event, byID)
		x.continues(run("d", day), first)
		x.about(dedup.Known, first.Record.Event, byID)
		x.advance(3 * hour)
		x.about(dedup.Known, first.Record.Event, byID)
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
		x.about(dedup.Known, second, asking(renamed(delivery("a"), dedup.SpaceSent, "a")))
	}},
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
