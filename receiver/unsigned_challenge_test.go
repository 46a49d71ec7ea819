package receiver_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestUnsignedChallengesAreSmallAndWithoutACredential: only such a request is read before it is
// authenticated.
func TestUnsignedChallengesAreSmallAndWithoutACredential(t *testing.T) {
	t.Parallel()
	seen := make(chan int, 10)
	p := producer.Producer{
		Name: "shop", Key: producer.BodyDigest(), Contract: producer.Webhook,
		Scheme: &verify.HMAC{Headers: []string{"X-Sig"}, Encoding: verify.Hex, Secrets: verify.Secrets(secret17)},
		UnsignedChallenge: func(_ *http.Request, body []byte) *dedup.Response {
			seen <- len(body)
			return &dedup.Response{Body: body}
		},
	}
	store := memstore.New(memstore.Options{})
	rx := opened(t, receiver.Config{Store: store, Producers: []producer.Producer{p}})
	const limit = producer.MaxChallengeBody
	for _, size := range []int{2, limit} {
		w := answer(rx, post("shop", strings.Repeat("a", size)))
		if w.Code != http.StatusOK || w.Body.Len() != size {
			t.Errorf("%d, %d bytes come back for %d", w.Code, w.Body.Len(), size)
		}
		if got := <-seen; got != size {
			t.Errorf("it sees %d bytes of %d", got, size)
		}
	}
	signed := post("shop", "aa")
	if err := p.Scheme.(signer).Sign(signed, []byte("aa"), time.Now()); err != nil {
		t.Fatal(err)
	}
	for r, want := range map[*http.Request]int{
		post("shop", strings.Repeat("a", limit+1)): 401, post("shop", "aa", "X-Sig", "00"): 401, signed: 200,
	} {
		if w := answer(rx, r); w.Code != want {
			t.Errorf("got %d, want %d: %s", w.Code, want, w.Body)
		}
	}
	if len(seen) > 0 {
		t.Errorf("it sees %d bytes of another request", <-seen)
	}
	if n := len(recordsOf(t, store)); n != 1 {
		t.Errorf("%d events, want the signed one", n)
	}
}
