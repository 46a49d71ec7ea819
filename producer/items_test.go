package producer

import (
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// Two equal items of a batch are two events. A retry has the same events, however it groups and
// orders the items.
func TestBatchItemsWithoutIDsGetDigestAndNumber(t *testing.T) {
	t.Parallel()
	p := Producer{Split: func(d *Delivery) ([]Item, error) {
		var items []Item
		for line := range strings.Lines(string(d.Body)) {
			body, _, varies := strings.Cut(line, "|")
			it := Item{Body: []byte(line)}
			if varies {
				it.Content = []byte(body + "\n")
			}
			items = append(items, it)
		}
		return items, nil
	}}
	a, b := digestID([]byte("a\n")), digestID([]byte("b\n"))
	for body, want := range map[string][]string{
		"a\na\nb\n": {a, a + ";2", b}, "b\na\n": {b, a},
		"a\nb\na\n": {a, b, a + ";2"}, "a|1\nb\na|2\n": {a, b, a + ";2"},
	} {
		items, err := p.Items(delivery(hook, body))
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, it := range items {
			if !it.Unnamed {
				t.Errorf("%q is not marked as unnamed", it.ID)
			}
			ids = append(ids, it.ID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%q: got %v, want %v", body, ids, want)
		}
	}
}

// An item at fault leaves the others as they are. Where the sender can be told, a batch of such
// items only is refused.
func TestAnItemAtFaultIsItsOwn(t *testing.T) {
	t.Parallel()
	for contract, refused := range map[Contract]bool{API: true, Webhook: false} {
		p := Producer{Contract: contract, KeyRequired: true, Split: func(d *Delivery) ([]Item, error) {
			var items []Item
			for id := range strings.SplitSeq(string(d.Body), " ") {
				items = append(items, Item{ID: id, Type: strings.Repeat("t", MaxType), Body: []byte(id)})
			}
			items[0].Type += "t"
			items[0].Err = &verify.Error{Code: verify.AmbiguousField, Component: "id"}
			return items, nil
		}}
		items, err := p.Items(delivery(hook, "1 2  4"))
		if err != nil || items[0].Err == nil || items[0].Type != "" || items[1].Err != nil || items[1].ID != "2" ||
			items[3].Err != nil || verify.CodeOf(items[2].Err) != verify.IDMissing ||
			items[2].Note != `id missing: "item 3, id"` {
			t.Errorf("%+v, %v", items, err)
		}
		if _, err := p.Items(delivery(hook, "1")); (verify.CodeOf(err) == verify.AmbiguousField) != refused {
			t.Errorf("under contract %d: %v", contract, err)
		}
	}
}
