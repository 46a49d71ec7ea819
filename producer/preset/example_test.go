package preset_test

import (
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/producer/preset"
)

// A preset reports mistakes in its secrets before anything is served.
func ExampleStripe() {
	stripe := preset.Stripe("sk_live_17")
	for _, mistake := range stripe.Check() {
		fmt.Println(mistake)
	}
	// Output:
	// producer "stripe": a secret is an API key; the signing secret begins with whsec_
}

// A signed sample of a vendor tests a receiver.
func ExamplePreset_Sample() {
	github, _ := preset.Find("github")
	secret := preset.Settings{Secrets: []string{"It's a Secret to Everybody"}}
	r, body, err := github.Sample(secret, "http://127.0.0.1:8080/webhooks/github", "push", "d17",
		time.Unix(1_700_000_000, 0))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Method, r.URL.Path, r.Header.Get("X-GitHub-Event"), r.Header.Get("X-GitHub-Delivery"))

	mine := github.Open(secret)
	_, err = mine.Scheme.Verify(r, func() ([]byte, error) { return body, nil })
	fmt.Println(err)
	// Output:
	// POST /webhooks/github push d17
	// <nil>
}
