package library

import (
	"bytes"
	"context"
	"crypto"
	"net/http"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// deliver sends an event of a producer, signed for the URL. A retry has the same id, and a
// signature of its own.
func deliver(ctx context.Context, url string, private crypto.Signer, id string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", strconv.Quote(id))
	signer := verify.Signer{KeyID: "shop", Private: private}
	if err := signer.Sign(r, body, time.Now()); err != nil { // after everything else is set
		return nil, err
	}
	return http.DefaultClient.Do(r)
}
