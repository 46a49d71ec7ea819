package pgstore

import (
	"container/list"
	"slices"
	"strings"
	"sync"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	// maxKept bounds the events that are kept, in bytes.
	maxKept = 16 << 20
	// keptSize is about what one takes beside its payload.
	keptSize = 1 << 10
)

// kept are new events of this process whose tasks were not given out yet. The Take need not read
// from the tables what the claim wrote there. Events with several tasks or with a lane are not
// kept, and if there are too many, the oldest are left out. What later claims noted at an event is
// not in its record, see [dedup.Work].
type kept struct {
	mu     sync.Mutex
	events map[int64]*list.Element
	order  list.List // of the *keptEvents, oldest first
	bytes  int
}

// keptEvent is a record, of which some parts are packed as in the tables.
type keptEvent struct {
	rec                    dedup.Record
	about, extra, response []byte
}

func (e *keptEvent) size() int {
	return keptSize + len(e.rec.Payload.Body) + len(e.about) + len(e.extra) + len(e.response)
}

// add keeps a new event with its body. It shares nothing with the claim.
func (k *kept) add(r dedup.Record, body, about, extra, response []byte) {
	if len(r.Tasks) != 1 || r.Hold || r.Tasks[0].Lane != "" {
		return
	}
	p := &r.Payload
	r.Tasks, r.Aliases, r.Response = slices.Clone(r.Tasks), nil, dedup.Response{}
	r.Key.ID, p.Type, p.VendorID = strings.Clone(r.Key.ID), strings.Clone(p.Type), strings.Clone(p.VendorID)
	p.Body, p.Header, p.Attributes = append([]byte{}, body...), nil, nil
	e := &keptEvent{r, about, extra, response}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events[int64(r.Seq)] = k.order.PushBack(e)
	for k.bytes += e.size(); k.bytes > maxKept; {
		k.remove(k.order.Front())
	}
}

// take removes an event and returns it, nil if it is not kept, or if its task was changed: then it
// was started before, or is due at another time. The time also distinguishes two events with one
// number, in a database that was restored from a backup.
func (k *kept) take(p *pick) *row {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.events[p.seq]
	if at == nil {
		return nil
	}
	e := k.remove(at)
	if !p.fresh || !p.due.Equal(e.rec.Accepted) ||
		unpackRecord(e.about, e.extra, e.response, &e.rec) != nil {
		return nil
	}
	return &row{rec: e.rec, seq: p.seq}
}

// remove removes an event.
func (k *kept) remove(at *list.Element) *keptEvent {
	e := k.order.Remove(at).(*keptEvent)
	delete(k.events, int64(e.rec.Seq))
	k.bytes -= e.size()
	return e
}
