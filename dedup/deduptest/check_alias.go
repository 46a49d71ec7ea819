package deduptest

import (
	"fmt"

	"github.com/eyelet-dev/eyelet/dedup"
)

var aliasChecks = []check{
	{"AnAliasOfAnotherKeyIsAliasedWithItsRecordAndStoresNothing", func(x *rig) {
		c := aliased("a", nonce("n"), signed("s"))
		event := x.accept(c)
		before := x.get(event)
		for i, alias := range c.Aliases {
			other := aliased(fmt.Sprint("b", i), nonce("fresh"), alias)
			d := x.want(dedup.Aliased, other)
			if d.Record.Event != event || d.Alias != alias || d.Lease.Token != 0 {
				x.Errorf("aliased to %q by %+v, lease %+v", d.Record.Event, d.Alias, d.Lease)
			}
			x.same(d.Record, bare(before), "record of the decision")
		}
		x.same(x.get(event), before, "record after aliased claims")
		x.count(1)
		x.takeOf(event)
		x.idle("aliased claims have no tasks")
	}},
	{"TheSameKeyWithTheSameAliasIsKnown", func(x *rig) {
		x.accept(aliased("a", nonce("n")))
		x.want(dedup.Known, aliased("a", nonce("n")))
		x.want(dedup.Known, aliased("a", nonce("other")))
	}},
	{"AnAliasedClaimLeavesItsOtherAliasesFree", func(x *rig) {
		x.accept(aliased("a", nonce("n")))
		x.want(dedup.Aliased, aliased("b", nonce("m"), nonce("n")))
		x.accept(aliased("c", nonce("m")))
	}},
	{"AnAliasIsNotAKey", func(x *rig) {
		x.accept(aliased("a", nonce("n")))
		b := delivery("b")
		b.Key = nonce("n")
		x.accept(b)
		x.accept(aliased("c", key("b")))
	}},
	{"AnAliasIsFreeOnceItsRecordExpired", func(x *rig) {
		a := brief("a")
		a.Aliases = []dedup.Key{nonce("n")}
		x.accept(a)
		x.advance(hour)
		event := x.accept(aliased("b", nonce("n")))
		x.about(dedup.Aliased, event, aliased("c", nonce("n")))
	}},
	{"AnAliasIsFreeOnceItsRecordIsPurged", func(x *rig) {
		a := brief("a")
		a.Aliases = []dedup.Key{nonce("n")}
		x.purge(x.accept(a))
		x.accept(aliased("b", nonce("n")))
	}},
	{"AReleasedClaimKeepsItsAliases", func(x *rig) {
		a := held("a")
		a.Aliases = []dedup.Key{nonce("first")}
		d := x.want(dedup.New, a)
		x.finish(d.Lease, release())
		a.Aliases = []dedup.Key{nonce("second")}
		x.want(dedup.New, a)
		for _, alias := range []dedup.Key{nonce("first"), nonce("second")} {
			x.about(dedup.Aliased, d.Record.Event, aliased("b", alias))
		}
	}},
	{"AConflictComesBeforeAnAlias", func(x *rig) {
		x.accept(aliased("a", nonce("n")))
		x.accept(delivery("b"))
		x.want(dedup.Conflict, altered(aliased("b", nonce("n"))))
	}},
}
