package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// The keys of the load, which stays on the loopback interface. The base is the public URL that
// RFC 9421 signatures cover.
const (
	secret = "bench-shared-secret"
	base   = "http://eyelet.test"
)

// signingKey is derived from secret, because the receiver is configured by another process.
func signingKey() ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(secret))
	return ed25519.NewKeyFromSeed(seed[:])
}

// padding is text that does not compress beyond base64. Payloads are slices of it.
var padding = func() []byte {
	raw := make([]byte, 3<<18)
	rand.Read(raw) // never fails
	return base64.RawURLEncoding.AppendEncode(nil, raw)
}()

// remembered is how many deliveries a sender keeps to repeat.
const remembered = 16

// sender makes the deliveries of one client as bytes of HTTP/1.1.
type sender struct {
	w     workload
	size  int // of bodies, in bytes
	mac   hash.Hash
	stock [][]byte // deliveries that were signed in advance
	sent  [][]byte // recent deliveries
	body  []byte
	ids   [16]byte
	count uint64
}

func newSender(w workload, size int) *sender {
	s := &sender{w: w, size: size, mac: hmac.New(sha256.New, []byte(secret))}
	rand.Read(s.ids[:8])
	return s
}

// next returns the next delivery and whether its event is new. The bytes are valid until the next
// call, except without duplicates.
func (s *sender) next(ctx context.Context) (raw []byte, fresh bool, err error) {
	if len(s.sent) > 0 && mathrand.Float64() < s.w.duplicates {
		return s.sent[mathrand.IntN(len(s.sent))], false, nil
	}
	if n := len(s.stock); n > 0 {
		raw, s.stock = s.stock[n-1], s.stock[:n-1]
		return raw, true, nil
	}
	var buf []byte
	if len(s.sent) == remembered {
		buf = s.sent[s.count%remembered][:0]
	}
	if raw, err = s.sign(ctx, buf); err != nil {
		return nil, false, err
	}
	if len(s.sent) < remembered {
		s.sent = append(s.sent, raw)
	} else {
		s.sent[s.count%remembered] = raw
	}
	return raw, true, nil
}

// prepare signs n deliveries in advance, where signing is expensive.
func (s *sender) prepare(ctx context.Context, n int) error {
	if s.w.signature != "rfc9421" {
		return nil
	}
	for range n {
		raw, err := s.sign(ctx, nil)
		if err != nil {
			return err
		}
		s.stock = append(s.stock, raw)
	}
	return nil
}

// sign appends a delivery with a new event to buf.
func (s *sender) sign(ctx context.Context, buf []byte) ([]byte, error) {
	s.count++
	for i := range 8 {
		s.ids[8+i] = byte(s.count >> (8 * i))
	}
	id := hex.EncodeToString(s.ids[:])
	b := append(s.body[:0], `{"type":"bench","action":"bench","id":"`...)
	b = append(append(b, id...), `","pad":"`...)
	pad := max(0, s.size-len(b)-2)
	from := mathrand.IntN(len(padding) - pad)
	b = append(append(b, padding[from:from+pad]...), `"}`...)
	s.body = b
	buf = fmt.Appendf(buf, "POST /webhooks/%s HTTP/1.1\r\nHost: eyelet.test\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n", s.w.signature, len(b))
	if s.w.signature == "rfc9421" {
		r, err := signedRequest(ctx, id, b)
		if err != nil {
			return nil, err
		}
		for _, name := range []string{"Idempotency-Key", "Content-Digest", "Signature-Input", "Signature"} {
			buf = fmt.Appendf(buf, "%s: %s\r\n", name, r.Header.Get(name))
		}
	} else {
		s.mac.Reset()
		s.mac.Write(b)
		buf = append(append(buf, "X-GitHub-Event: push\r\nX-GitHub-Delivery: "...), id...)
		buf = hex.AppendEncode(append(buf, "\r\nX-Hub-Signature-256: sha256="...), s.mac.Sum(nil))
		buf = append(buf, "\r\n"...)
	}
	return append(append(buf, "\r\n"...), b...), nil
}

// signedRequest returns a request signed by RFC 9421 with Ed25519.
func signedRequest(ctx context.Context, id string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/webhooks/rfc9421", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", strconv.Quote(id))
	signer := verify.Signer{KeyID: "k1", Private: signingKey()}
	return r, signer.Sign(r, body, time.Now())
}
