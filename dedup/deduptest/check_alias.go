package deduptest

import (
	"fmt"

	"github.com/eyelet-dev/eyelet/dedup"
)

var aliasChecks = []check{
	{"AnAliasOfAnotherKeyIsAliasedWithItsRecordAndStoresNothing", aliasTaken},
	{"TheSameKeyWithTheSameAliasIsKnown", aliasOfItself},
	{"AnAliasedClaimLeavesItsOtherAliasesFree", aliasedStoresNone},
	{"AnAliasIsNotAKey", aliasIsNoKey},
	{"AnAliasIsFreeOnceItsRecordExpired", aliasExpires},
	{"AnAliasIsFreeOnceItsRecordIsPurged", aliasPurged},
	{"AReleasedClaimKeepsItsAliases", aliasReleased},
	{"AConflictComesBeforeAnAlias", aliasConflict},
}

func aliasTaken(x *rig) {
	c := delivery("a")
	c.Aliases = []dedup.Key{nonce("n"), signed("s")}
	event := x.accept(c)
	before := x.get(event)
	for i, alias := range c.Aliases {
		other := delivery(fmt.Sprint("b", i))
		other.Aliases = []dedup.Key{nonce("fresh"), alias}
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
}

func aliasOfItself(x *rig) {
	c := delivery("a")
	c.Aliases = []dedup.Key{nonce("n")}
	x.accept(c)
	x.want(dedup.Known, c)
	c.Aliases = []dedup.Key{nonce("other")}
	x.want(dedup.Known, c)
}

func aliasedStoresNone(x *rig) {
	a, b := delivery("a"), delivery("b")
	a.Aliases, b.Aliases = []dedup.Key{nonce("n")}, []dedup.Key{nonce("m"), nonce("n")}
	x.accept(a)
	x.want(dedup.Aliased, b)
	c := delivery("c")
	c.Aliases = []dedup.Key{nonce("m")}
	x.accept(c)
}

func aliasIsNoKey(x *rig) {
	a := delivery("a")
	a.Aliases = []dedup.Key{nonce("n")}
	x.accept(a)
	b := delivery("b")
	b.Key = nonce("n")
	x.accept(b)
	c := delivery("c")
	c.Aliases = []dedup.Key{key("b")}
	x.accept(c)
}

func aliasExpires(x *rig) {
	a := delivery("a")
	a.Aliases, a.Tasks, a.Window = []dedup.Key{nonce("n")}, nil, hour
	x.accept(a)
	x.advance(hour)
	b := delivery("b")
	b.Aliases = a.Aliases
	event := x.accept(b)
	c := delivery("c")
	c.Aliases = a.Aliases
	x.about(dedup.Aliased, event, c)
}

func aliasPurged(x *rig) {
	a := delivery("a")
	a.Aliases, a.Tasks = []dedup.Key{nonce("n")}, nil
	x.purge(x.accept(a))
	b := delivery("b")
	b.Aliases = a.Aliases
	x.accept(b)
}

func aliasReleased(x *rig) {
	a := held("a")
	a.Aliases = []dedup.Key{nonce("first")}
	d := x.want(dedup.New, a)
	x.finish(d.Lease, release())
	a.Aliases = []dedup.Key{nonce("second")}
	x.want(dedup.New, a)
	for _, alias := range []dedup.Key{nonce("first"), nonce("second")} {
		b := delivery("b")
		b.Aliases = []dedup.Key{alias}
		x.about(dedup.Aliased, d.Record.Event, b)
	}
}

func aliasConflict(x *rig) {
	a, b := delivery("a"), delivery("b")
	a.Aliases = []dedup.Key{nonce("n")}
	x.accept(a)
	x.accept(b)
	b.Fingerprint, b.Aliases = fingerprint(2), a.Aliases
	x.want(dedup.Conflict, b)
}
