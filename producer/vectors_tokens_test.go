package producer_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// validCases returns the recorded deliveries of a producer that every receiver accepts.
func validCases(t *testing.T, name string) []vectorCase {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "testdata", "vectors", "producers", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := readCases(raw)
	if err != nil {
		t.Fatal(err)
	}
	cases = slices.DeleteFunc(cases, func(c vectorCase) bool {
		return !c.Expect.Valid || c.Advisory ||
			c.Expect.Reason != "ok"
	})
	if len(cases) == 0 {
		t.Fatalf("no accepted delivery of %s", name)
	}
	return cases
}

// outcome is the accepted part of a delivery.
type outcome struct {
	id   verify.Identity
	item producer.Item
}

func receiveCase(p producer.Producer, r *http.Request, body []byte, c *vectorCase) (outcome, error) {
	id, err := p.Scheme.Verify(r, func() ([]byte, error) { return body, nil })
	if err != nil {
		return outcome{}, err
	}
	items, err := p.Items(&producer.Delivery{Request: r, Body: body, Identity: id})
	if err != nil {
		return outcome{}, err
	}
	if err := p.Tolerance.Check(id, c.now()); err != nil {
		return outcome{}, err
	}
	if len(items) == 0 { // an empty batch
		return outcome{id: id}, nil
	}
	return outcome{id, items[0]}, nil
}

// change is a delivery with one bit flipped.
type change struct {
	what string
	r    *http.Request
	body []byte
}

func changes(r *http.Request, body []byte) []change {
	var all []change
	for i := range body {
		flipped := slices.Clone(body)
		flipped[i] ^= 1 << (i % 7)
		all = append(all, change{fmt.Sprintf("body[%d]", i), r, flipped})
	}
	for name, values := range r.Header {
		for i := range values[0] {
			flipped := []byte(values[0])
			flipped[i] ^= 1
			changed := r.Clone(r.Context())
			changed.Header.Set(name, string(flipped))
			all = append(all, change{fmt.Sprintf("%s[%d]", name, i), changed, body})
		}
	}
	return all
}

// TestOneTokenServesManyMessages: messages under one bearer token are not replays.
func TestOneTokenServesManyMessages(t *testing.T) {
	t.Parallel()
	c := validCases(t, "google-eventarc")[0]
	c.Scheme = "google-pubsub"
	var fetched []string
	p := c.producer(t, &fetched)
	ids := map[string]bool{}
	for i := range 5 {
		body := fmt.Sprintf(`{"message":{"data":"aGVsbG8=","messageId":"%d"},"subscription":`+
			`"projects/p/subscriptions/s"}`, 100+i)
		got, err := receiveCase(p, c.request(t), []byte(body), &c)
		if err != nil {
			t.Fatal(err)
		}
		if got.id.Signed != nil {
			t.Fatal("the token counts as a signature of the message")
		}
		ids[got.item.ID] = true
		if got.item.Type != "projects/p/subscriptions/s" {
			t.Errorf("type %q", got.item.Type)
		}
	}
	if len(ids) != 5 {
		t.Errorf("5 messages have %d identifiers", len(ids))
	}
}
