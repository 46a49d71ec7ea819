package kv

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// unflushedDirEnv is the directory of the database of a child with a compaction whose table is not
// written to the disk.
const unflushedDirEnv = "EYELET_UNFLUSHED_DIR"

const unflushedKeys = 500

// unflushedEntry returns an entry of the child. Its value is in the tables as it is.
func unflushedEntry(i int) Entry {
	r := rand.New(rand.NewPCG(37, uint64(i)))
	return Entry{Key: keyOf('e', i), Value: valueOf(r, 200)}
}

// unflushed is the child. It waits for a line before it compacts. Badger's goroutines that wait for
// the compaction end with the process.
func unflushed(dir string) {
	reasons := make(chan string, 100)
	o := tiny(nil)
	o.Fail = func(reason string, err error) { reasons <- reason + ": " + err.Error() }
	d, err := Open(dir, o)
	for i := 0; i < unflushedKeys && err == nil; i++ {
		err = d.Commit(uint64(i+1), []Entry{unflushedEntry(i)})
	}
	if err == nil {
		err = d.Checkpoint()
	}
	fmt.Println("committed", err)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	go func() { _, _ = d.Compact(context.Background(), true) }()
	select {
	case reason := <-reasons:
		fmt.Println("failed", reason)
	case <-time.After(time.Minute):
		fmt.Println("nothing has failed")
	}
}
