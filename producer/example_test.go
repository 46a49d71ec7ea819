package producer_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// A producer without a preset is described by its fields.
func ExampleProducer() {
	p := producer.Producer{
		Name: "kitchen",
		Scheme: &verify.HMAC{
			Headers: []string{"X-Kitchen-Signature"}, Encoding: verify.Hex,
			Secrets: verify.Secrets("a long random text"),
		},
		Contract: producer.Webhook,
		Key:      producer.First(producer.Header("X-Kitchen-Id"), producer.JSON("order.id")),
		Type:     producer.JSON("event"),
	}
	r, _ := http.NewRequest(http.MethodPost, "https://hooks.example.com/webhooks/kitchen", http.NoBody)
	items, err := p.Items(&producer.Delivery{Request: r, Body: []byte(`{"event":"order.ready","order":{"id":"o-17"}}`)})
	fmt.Println(p.Check(), items[0].ID, items[0].Type, err)
	// Output: [] o-17 order.ready <nil>
}

func ExampleParseExtractor() {
	key, err := producer.ParseExtractor("header:Idempotency-Key | json:order.id + json:status | digest:body")
	if err != nil {
		fmt.Println(err)
		return
	}
	r, _ := http.NewRequest(http.MethodPost, "https://hooks.example.com/", http.NoBody)
	d := &producer.Delivery{Request: r, Body: []byte(`{"order":{"id":17},"status":"paid"}`)}
	id, err := key.Extract(d)
	fmt.Println(id, err)
	r.Header.Set("Idempotency-Key", `"8e03978e-40d5"`)
	id, err = key.Extract(d)
	fmt.Println(id, err)
	// Output:
	// 17:paid <nil>
	// 8e03978e-40d5 <nil>
}

func ExampleProducer_Check() {
	p := preset.With("paypal")
	p.Name = "my shop"
	for _, err := range p.Check() {
		fmt.Println(strings.TrimPrefix(err.Error(), "producer "))
	}
	// Output:
	// "my shop": a name is 1 to 63 letters, digits, "-", "_" and ".", not "." first
	// "my shop": paypal: set account, the one id that PayPal shows for the webhook
}
