//go:build !race

package badgerstore

// raced says that the race detector is on.
const raced = false
