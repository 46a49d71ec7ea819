package library

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// digestMAC verifies a sender whose field X-Seal is the HMAC-SHA256 of the SHA-512 of the body.
type digestMAC struct{ secret []byte }

func (s digestMAC) seal(body []byte) []byte {
	sum := sha512.Sum512(body)
	mac := hmac.New(sha256.New, s.secret)
	mac.Write(sum[:])
	return mac.Sum(nil)
}

// Verify implements verify.Scheme.
func (s digestMAC) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	text := r.Header.Get("X-Seal")
	if text == "" {
		return verify.Identity{}, &verify.Error{Code: verify.SignatureMissing, Component: "x-seal"}
	}
	got, err := hex.DecodeString(text)
	if err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.SignatureMalformed, Component: "x-seal"}
	}
	content, err := body()
	if err != nil {
		return verify.Identity{}, err // too large, or the connection is lost
	}
	if !hmac.Equal(got, s.seal(content)) {
		return verify.Identity{}, &verify.Error{Code: verify.SignatureMismatch, Component: "x-seal"}
	}
	signed := sha256.Sum256(content)
	return verify.Identity{Covered: []string{"@body"}, Signed: signed[:]}, nil
}

// Sign signs as the sender does, for receivertest.
func (s digestMAC) Sign(r *http.Request, body []byte, _ time.Time) error {
	r.Header.Set("X-Seal", hex.EncodeToString(s.seal(body)))
	return nil
}

// objectAction reads the type "order.paid" from two header fields.
type objectAction struct{}

// Extract implements producer.Extractor.
func (objectAction) Extract(d *producer.Delivery) (string, error) {
	object, err := producer.Header("X-Object").Extract(d) // refuses a field on several lines
	if err != nil || object == "" {
		return "", err
	}
	action, err := producer.Header("X-Action").Extract(d)
	return object + "." + action, err
}

// Consumes implements producer.Extractor.
func (objectAction) Consumes() []string { return []string{"x-action", "x-object"} }

// String implements producer.Extractor.
func (objectAction) String() string { return "X-Object.X-Action" }

// warehouse is a sender with a scheme and an extractor of its own.
func warehouse(secret []byte) producer.Producer {
	return producer.Producer{
		Name: "warehouse", Scheme: digestMAC{secret}, Contract: producer.Webhook,
		Key: producer.JSON("id"), KeyRequired: true, Type: objectAction{},
	}
}
