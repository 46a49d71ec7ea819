package refused

import (
	"cmp"
	"net/netip"

	"github.com/eyelet-dev/eyelet/receiver"
)

// The ranks of deliveries. Clients cannot choose them freely: paths can be invented and endpoints
// cannot, and a known peer has sent new events.
const (
	rankPath     = iota // no endpoint has the path
	rankEndpoint        // to an endpoint
	rankKnown           // to an endpoint, by a known peer
	ranks
)

func rankOf(f *receiver.Refused) int {
	switch {
	case f.Endpoint == "":
		return rankPath
	case f.Known:
		return rankKnown
	}
	return rankEndpoint
}

// limit is how much of a whole the deliveries of a rank and of the lower ones may use together. The
// rest is a reserve of the higher ranks.
func limit(rank int, whole int64) int64 { return whole * [ranks]int64{1, 3, 4}[rank] / 4 }

// Network returns what counts as one network: an IPv4 /24 or an IPv6 /48. It is the zero prefix for
// the zero address. One customer of a provider may have all of an IPv6 /48.
func Network(peer netip.Addr) netip.Prefix { return prefix(peer, 48) }

// prefix returns the network of an address: an IPv4 /24, or so many bits of IPv6.
func prefix(peer netip.Addr, bits int) netip.Prefix {
	if peer.Is4() {
		bits = 24
	}
	network, _ := peer.Prefix(bits) // the zero value for the zero address
	return network
}

// part is what a kept delivery uses.
type part struct {
	rank                    int
	bytes                   int64
	endpoint, network, near *use // network is an IPv6 /48, near a /64
}

// use is what all parts with something in common use.
type use struct {
	key   any
	bytes int64
	since uint64 // the number of the first part
}

// space is shared by ranks, and within each by networks and endpoints.
type space struct {
	most   int64
	bytes  int64
	ranks  [ranks]int64
	uses   map[any]*use
	number uint64 // of parts so far
}

func newSpace(most int64) space { return space{most: most, uses: map[any]*use{}} }

type nearKey struct{ netip.Prefix }

// add adds the part of a delivery of a group.
func (s *space) add(g group, rank int, bytes int64) *part {
	s.number++
	p := &part{rank, bytes, s.use(g.endpoint), s.use(Network(g.network.Addr())), s.use(nearKey{g.network})}
	s.charge(p, bytes)
	return p
}

func (s *space) use(key any) *use {
	u := s.uses[key]
	if u == nil {
		u = &use{key: key, since: s.number}
		s.uses[key] = u
	}
	return u
}

func (s *space) remove(p *part) { s.charge(p, -p.bytes) }

func (s *space) charge(p *part, bytes int64) {
	s.bytes += bytes
	s.ranks[p.rank] += bytes
	for _, u := range []*use{p.endpoint, p.network, p.near} {
		if u.bytes += bytes; u.bytes == 0 {
			delete(s.uses, u.key)
		}
	}
}

// victim returns which of the parts, the oldest first, makes room. It is of a rank that uses too
// much: the oldest part of the network that uses most, weighed by what its endpoint uses. Of equal
// networks the last that came makes room, or else single requests would displace the others.
func (s *space) victim(parts int, at func(int) *part) (worst int) {
	used := int64(0)
	for rank := range ranks {
		if used += s.ranks[rank]; used <= limit(rank, s.most) {
			continue
		}
		found := false
		for i := range parts {
			if p := at(i); p.rank == rank && (!found || p.exceeds(at(worst))) {
				found, worst = true, i
			}
		}
		if found {
			break
		}
	}
	return worst
}

// exceeds reports whether a part makes room before an older one.
func (p *part) exceeds(older *part) bool {
	return cmp.Or(cmp.Compare(p.weight(), older.weight()), cmp.Compare(p.near.bytes, older.near.bytes),
		cmp.Compare(p.near.since, older.near.since)) > 0
}

func (p *part) weight() float64 { return float64(p.network.bytes) * float64(p.endpoint.bytes) }
