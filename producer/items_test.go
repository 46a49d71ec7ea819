package producer

import (
	"strings"
	"testing"
)

// TestBatchItemsWithoutIDsGetDigestAndPosition: two equal items of a batch are two events, and
// the same batch sent again has the same events.
func TestBatchItemsWithoutIDsGetDigestAndPosition(t *testing.T) {
	t.Parallel()
	p := Producer{Split: func(d *Delivery) ([]Item, error) {
		var items []Item
		for line := range strings.Lines(string(d.Body)) {
			items = append(items, Item{Body: []byte(line)})
		}
		return items, nil
	}}
	names := func(body string) []string {
		t.Helper()
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
		return ids
	}
	first, again := names("a\na\nb\n"), names("a\na\nb\n")
	if strings.Join(first, " ") != strings.Join(again, " ") {
		t.Errorf("%v, again %v", first, again)
	}
	want := []string{digestID([]byte("a\n")), digestID([]byte("a\n")) + ";2", digestID([]byte("b\n")) + ";3"}
	if strings.Join(first, " ") != strings.Join(want, " ") {
		t.Errorf("got %v, want %v", first, want)
	}
}
