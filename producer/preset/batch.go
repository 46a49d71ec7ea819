package preset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// maxBatch is the number of events that a vendor may send at once.
const maxBatch = 5000

// batch splits a JSON body whose events are the elements of an array.
type batch struct {
	Path   []string                      `conf:"in"`                // of the array; none if it is the body
	ID     producer.Extractor            `conf:"key"`               // of an event, read from its element
	Kind   producer.Extractor            `conf:"type"`              // the same
	Own    map[string]producer.Extractor `conf:"attributes"`        // of an event, read from its element
	Common map[string]producer.Extractor `conf:"common_attributes"` // of all events, read from the body
	Varies string                        `conf:"varies"`            // member that differs between attempts
	typed  bool                          // an event without a type is malformed
}

// typeFrom returns where the types of the events are.
func (b batch) typeFrom() string {
	path := append(slices.Clone(b.Path), "*", strings.TrimPrefix(b.Kind.String(), "json:"))
	return "json:" + strings.Join(path, ".")
}

// split implements the Split of a [producer.Producer].
func (b batch) split(d *producer.Delivery) ([]producer.Item, error) {
	array, err := d.JSON()
	if err == nil {
		array, err = strictjson.At(array, b.Path)
	}
	if err != nil {
		return nil, malformed("body", err)
	}
	if len(array) == 0 || array[0] != '[' {
		return nil, malformed("body", verify.Public("not an array of events"))
	}
	common, _ := attributes(b.Common)(d) // it never fails
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
	it.ID, badID = b.ID.Extract(event)
	it.Type, badKind = b.Kind.Extract(event)
	it.Err = cmp.Or(badID, badKind)
	if it.Err == nil && it.Type == "" && b.typed {
		it.Err = malformed(b.Kind.String(), verify.Public("missing"))
	}
	if it.Err == nil && it.ID == "" {
		it.Err = &verify.Error{Code: verify.IDMissing, Component: b.ID.String()}
		if b.Varies != "" {
			it.Content = without(event.Body, b.Varies)
		}
	}
	if own, _ := attributes(b.Own)(event); own != nil {
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
