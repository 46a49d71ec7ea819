package badgerstore

// arena is memory for the keys and small values of a batch, which the next batch uses again.
type arena struct{ b []byte }

const arenaBytes = 64 << 10

func (a *arena) reset() {
	if a.b == nil {
		a.b = make([]byte, 0, arenaBytes)
	}
	a.b = a.b[:0]
}

// rest returns an empty slice with the unused memory behind it.
func (a *arena) rest() []byte { return a.b[len(a.b):] }

// keep marks as used what was appended to rest. If the memory was not enough, b has its own.
func (a *arena) keep(b []byte) []byte {
	if n := len(a.b) + len(b); n <= cap(a.b) {
		a.b = a.b[:n]
	}
	return b[:len(b):len(b)]
}
