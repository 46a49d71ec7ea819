package producer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// TestIdentifiersAndTypesAreLimited: invalid ones are refused under API, and no event is lost
// under Webhook.
func TestIdentifiersAndTypesAreLimited(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", MaxType+1)
	for _, row := range []struct {
		name, id, kind string
		fits           bool
	}{
		{"short", "1", "order.paid", true},
		{"as long as may be", strings.Repeat("ä", MaxKey), strings.Repeat("ä", MaxType), true},
		{"no type", "1", "", true},
		{"long type", "1", long, false},
		{"type with a NUL", "1", `a\u0000b`, false},
		{"type with a line end", "1", `a\nb`, false},
		{"type with an escape", "1", `\u001b[2J`, false},
		{"type with a C1 control", "1", `a\u009bb`, false},
		{"long id", long, "order.paid", false},
		{"id with a NUL", `1\u0000`, "order.paid", false},
	} {
		body := `{"id":"` + row.id + `","type":"` + row.kind + `"}`
		p := Producer{Name: "shop", Key: JSON("id"), KeyRequired: true, Type: JSON("type")}
		if items, err := p.Items(delivery(hook, body)); (err == nil) != row.fits || err != nil &&
			verify.CodeOf(err) != verify.EventMalformed {
			t.Errorf("%s: %v, %v", row.name, items, err)
		}
		p.Contract = Webhook
		items, err := p.Items(delivery(hook, body))
		if err != nil {
			t.Errorf("%s: the event is lost: %v", row.name, err)
			continue
		}
		it := items[0]
		digested := strings.HasPrefix(it.ID, "sha256:")
		if left := row.kind != "" && it.Type == ""; left != strings.Contains(it.Note, "type") ||
			(left || digested) == row.fits {
			t.Errorf("%s: %.40q of type %.40q, note %q", row.name, it.ID, it.Type, it.Note)
		}
		if again, err := p.Items(delivery(hook, body)); err != nil || again[0].ID != it.ID {
			t.Errorf("%s: the duplicate is %v, %v", row.name, again, err)
		}
	}
}

func TestAttributesAreLimited(t *testing.T) {
	t.Parallel()
	p := Producer{Name: "shop", Key: Const("1")}
	read := func(attributes map[string]string) Item {
		p.Attributes = func(*Delivery) (map[string]string, error) { return attributes, nil }
		items, err := p.Items(delivery(hook, "{}"))
		if err != nil {
			t.Fatal(err)
		}
		return items[0]
	}
	if it := read(map[string]string{"source": "/s", "subject": strings.Repeat("x",
		maxValue)}); len(it.Attributes) != 2 || it.Note != "" {
		t.Errorf("valid attributes: %d attributes, note %q", len(it.Attributes), it.Note)
	}
	it := read(map[string]string{"source": "/s", "subject": strings.Repeat("x", maxValue+1), "time": "a\x00b",
		"bad\nname": "1"})
	if len(it.Attributes) != 1 || it.Attributes["source"] != "/s" || !strings.HasSuffix(it.Note, ": 3") {
		t.Errorf("%v, note %q", it.Attributes, it.Note)
	}
	many := map[string]string{"source": "/s", "subject": "7"}
	for i := range 10_000 {
		many[fmt.Sprint("a", i)] = "0123456789"
	}
	it = read(many)
	size := 0
	for name, value := range it.Attributes {
		size += len(name) + len(value)
	}
	if size > maxAttributes || size < maxAttributes/2 || it.Attributes["source"] != "/s" ||
		it.Attributes["subject"] != "7" || it.Note == "" {
		t.Errorf("%d bytes are kept, source %q, note %q", size, it.Attributes["source"], it.Note)
	}
	if len(many) != 10_002 {
		t.Error("the extractor's map was changed")
	}
}
