package preset

import (
	"net/http"
	"net/http/httptest"

	"github.com/eyelet-dev/eyelet/producer"
)

// newDelivery makes a delivery for extractors: target and body, then header names and values in
// turn.
func newDelivery(target, body string, header ...string) *producer.Delivery {
	r := httptest.NewRequest(http.MethodPost, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return &producer.Delivery{Request: r, Body: []byte(body)}
}

// body returns text as the body of a delivery.
func body(text string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(text), nil }
}
