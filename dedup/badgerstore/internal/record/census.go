package record

import "encoding/binary"

// Census counts what a store holds. Every commit writes it with the counters, and a start compares
// it with what it reads. This detects a missing table, a log damaged in its middle and a state that
// is not the newest one. Without the census, the event of a lost key would be accepted as new.
type Census struct {
	Known   bool   // false during a repair
	Entries uint64 // events of every generation, and aliases
	Sum     uint64 // of the digests of all entries, modulo 2^64
}

// Add adds entries and the sum of their digests.
func (c *Census) Add(entries, sum uint64) {
	c.Entries += entries
	c.Sum += sum
}

// Digest is what one entry adds to the sum. checksum is that of the value with the newest state of
// an event, or of the value of an alias. It covers the key; 0 is for an unreadable value.
func Digest(family byte, p Place, checksum uint32) uint64 {
	x := binary.LittleEndian.Uint64(p.Hash[:]) ^ uint64(family)<<56 ^ uint64(checksum)
	for _, n := range [...]uint64{
		binary.LittleEndian.Uint64(p.Hash[8:]), p.Older, uint64(checksum)<<32 | uint64(family),
	} {
		x = (x ^ n) + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}
