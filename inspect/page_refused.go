package inspect

import (
	"sync"

	"github.com/eyelet-dev/eyelet/replay"
)

// Explanation is why a delivery was refused, as package explain finds out.
type Explanation struct {
	// Causes are empty if none was found.
	Causes []Cause
	// Verifies means that the delivery has nothing wrong now.
	Verifies bool
	Complete bool // false if a limit ended the search
}

// Cause is one cause. Its texts hold no secret.
type Cause struct {
	Sentence, Remedy string
	Proved           bool   // else it is likely
	Detail           string // which secret, field or form it is
	// Signed and Came are what was signed and what arrived, around the first byte in which they
	// differ, at offset At. They are equal if there is nothing to compare.
	Signed, Came string
	At           int
}

// refusedView is a refused delivery.
type refusedView struct {
	RefusedDetail
	Body      bodyView
	Fields    []replay.Field
	Raw       bool // there is an *.http file
	List      string
	Explained *Explanation // nil if nothing explains it
	Tried     bool         // with a secret of the operator
}

func newRefusedView(d RefusedDetail, list string) *refusedView {
	v := &refusedView{RefusedDetail: d, Fields: fieldsOf(d.Header), List: list}
	v.Body = newBodyView(d.body(), d.Header.Get("Content-Type"))
	_, err := d.Recording()
	v.Raw = err == nil
	return v
}

// maxCauses is how many causes are remembered; as many deliveries are kept.
const maxCauses = 512

// causes are those of refused deliveries that somebody looked at, by their numbers.
type causes struct {
	mu    sync.Mutex
	known map[uint64]string
}

func (c *causes) note(number uint64, sentence string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxCauses || c.known == nil {
		c.known = map[uint64]string{}
	}
	c.known[number] = sentence
}

// of returns a cause; "" if it is not known.
func (c *causes) of(number uint64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[number]
}
