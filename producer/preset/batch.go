package preset

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// maxBatch is the number of events that a vendor may send at once.
const maxBatch = 5000

// batch splits a JSON body whose events are the elements of an array.
type batch struct {
	path     []string                      // of the array; none if it is the body
	id, kind producer.Extractor            // of an event, read from its element
	own      map[string]producer.Extractor // attributes of an event, read from its element
	common   map[string]producer.Extractor // attributes of all events, read from the body
	varies   string                        // member of an event that differs between attempts
	typed    bool                          // an event without a type is malformed
}

// split implements the Split of a [producer.Producer].
func (b batch) split(d *producer.Delivery) ([]producer.Item, error) {
	array, err := d.JSON()
	if err == nil {
		array, err = strictjson.At(array, b.path)
	}
	if err != nil {
		return nil, malformed("body", err)
	}
	if len(array) == 0 || array[0] != '[' {
		return nil, malformed("body", verify.Public("not an array of events"))
	}
	common, _ := attributes(b.common)(d) // it never fails
	items := []producer.Item{}
	err = strictjson.EachElement(array, func(event []byte) error {
		if len(items) == maxBatch {
			return malformed("body", verify.Public(fmt.Sprintf("over %d events", maxBatch)))
		}
		it := producer.Item{Body: event, Attributes: common, Err: malformed("", verify.Public("not an object"))}
		if event[0] == '{' {
			b.read(&it, &producer.Delivery{Request: d.Request, Body: event, Identity: d.Identity})
		}
		items = append(items, it)
		return nil
	})
	return items, err
}

// read reads an event. Its errors are of the item only.
func (b batch) read(it *producer.Item, event *producer.Delivery) {
	var badID, badKind error
	it.ID, badID = b.id.Extract(event)
	it.Type, badKind = b.kind.Extract(event)
	it.Err = cmp.Or(badID, badKind)
	if it.Err == nil && it.Type == "" && b.typed {
		it.Err = malformed(b.kind.String(), verify.Public("missing"))
	}
	if it.Err == nil && it.ID == "" {
		it.Err = &verify.Error{Code: verify.IDMissing, Component: b.id.String()}
		if b.varies != "" {
			it.Content = without(event.Body, b.varies)
		}
	}
	if own, _ := attributes(b.own)(event); own != nil {
		maps.Copy(own, it.Attributes)
		it.Attributes = own
	}
}

// without returns the members of a checked object, less one.
func without(object []byte, name string) (rest []byte) {
	name = strconv.Quote(name)
	_ = strictjson.EachMember(object, func(key, value []byte) error {
		if string(key) != name {
			rest = append(append(append(append(rest, key...), ':'), value...), ',')
		}
		return nil
	})
	return rest
}
