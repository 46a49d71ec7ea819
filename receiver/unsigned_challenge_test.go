package receiver_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
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
	h := openDiskSite(t, time.Now(), []producer.Producer{p})
	const limit = producer.MaxChallengeBody
	for _, size := range []int{2, limit} {
		if got := h.expect(post("shop", strings.Repeat("a", size)), 200, false); len(got.body) != size {
			t.Errorf("%d bytes come back for %d", len(got.body), size)
		}
		if got := <-seen; got != size {
			t.Errorf("it sees %d bytes of %d", got, size)
		}
	}
	h.expect(post("shop", strings.Repeat("a", limit+1)), 401, false)
	h.expect(post("shop", "aa", "X-Sig", "00"), 401, false)
	h.expect(h.signed(p, post("shop", "aa")), 200, false)
	if len(seen) > 0 {
		t.Errorf("it sees %d bytes of another request", <-seen)
	}
	if n := len(h.records()); n != 1 {
		t.Errorf("%d events, want the signed one", n)
	}
}
