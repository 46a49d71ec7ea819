package preset

import (
	"fmt"
	"maps"

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
	own := attributes(b.own)
	items := []producer.Item{}
	err = strictjson.EachElement(array, func(event []byte) error {
		if len(items) == maxBatch {
			return malformed("body", verify.Public(fmt.Sprintf("over %d events", maxBatch)))
		}
		it := producer.Item{Body: event}
		one := &producer.Delivery{Request: d.Request, Body: event, Identity: d.Identity}
		var err error
		if it.ID, err = b.id.Extract(one); err != nil {
			return err
		}
		if it.Type, err = b.kind.Extract(one); err != nil {
			return err
		}
		if it.Attributes, err = own(one); it.Attributes == nil {
			it.Attributes = common
		} else {
			maps.Copy(it.Attributes, common)
		}
		items = append(items, it)
		return err
	})
	if err != nil {
		return nil, err
	}
	return items, nil
}
