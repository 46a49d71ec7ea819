package explain_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

func ExampleExplainer_Explain() {
	shop := preset.With("shopify", "shpss_example")
	e := explain.New([]producer.Producer{shop})

	// A proxy adds a newline to a signed body.
	r, _ := http.NewRequest(http.MethodPost, "https://hooks.example/webhooks/shopify", http.NoBody)
	signed := []byte(`{"id":1}`)
	_ = shop.Scheme.(*verify.HMAC).Sign(r, signed, time.Now())
	came := append(signed, '\n')

	report := e.Explain(context.Background(), explain.Delivery{Endpoint: "shopify", Request: r, Body: came})
	for _, f := range report.Findings {
		fmt.Println(f.Cause, f.Proved)
		fmt.Println(f.Cause.Sentence())
		fmt.Println("signed", f.Signed, strings.Repeat(" ", 2), "came", f.Came)
	}
	// Output:
	// body_newline true
	// White space at an end of the body was added or removed after signing.
	// signed {"id":1}    came {"id":1}\n
}
