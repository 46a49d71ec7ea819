package preset

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// lark receives events of Lark and Feishu from an application that has an encrypt key, which is
// the secret. Without one Lark signs nothing, and this preset refuses its deliveries. Handlers
// get the decrypted event.
//
// The field X-Lark-Signature is a SHA-256 of time, nonce, key and body. It is not an HMAC: bytes
// could be added to the body, after which it is no JSON object. The signed header.event_id
// identifies the event (uuid in events of version 1.0), and header.event_type is its type.
//
// The unsigned, encrypted challenge with which Lark checks a URL is returned only if it has
// token, the application's verification token.
//
// Sources, read in November 2026: Lark's pages on sending events to a server and on receiving
// them, and oapi-sdk-go 3. That Lark waits 3 seconds and tries again after 15 seconds, 5 minutes,
// an hour and 6 hours is general knowledge; signatures are accepted for 8 hours.
//
// https://open.larksuite.com/document/ukTMukTMukTM/uYDNxYjL2QTM24iN0EjN/event-subscription-guide
var lark = Preset{
	Name: "lark",
	Docs: "https://open.larksuite.com/document/ukTMukTMukTM/uYDNxYjL2QTM24iN0EjN/event-subscription-guide",
	Auth: "SHA-256 of time, nonce, key and body", ID: "header.event_id", Deadline: "3s", Wants: "200; 7.5h",
	Uses: []string{"secret", "token"},
	like: producer.Producer{
		Summary: []string{
			"{json:event.message.message_type} in {json:event.message.chat_id}",
			"{json:event.object.name}",
		},
		Fields: []string{"X-Lark-*"}, Fingerprint: producer.FingerprintNone, Window: 2 * day,
		Tolerance: verify.Tolerance{Past: 8 * time.Hour, Future: 5 * time.Minute},
	},
	build: func(p *producer.Producer, s Settings) {
		p.Err = checkText(s.Secrets)
		scheme := larkScheme(verify.Secrets(s.Secrets...))
		signedBy(p, scheme)
		read := func(from producer.Extractor) producer.Extractor { return larkValue{scheme, from} }
		p.Key = read(producer.First(producer.JSON("header.event_id"), producer.JSON("uuid")))
		p.KeyRequired = true
		p.Type = read(producer.First(producer.JSON("header.event_type"), producer.JSON("event.type")))
		p.Payload = func(d *producer.Delivery) ([]byte, error) { return scheme.decrypt(d.Body) }
		answer := func(body []byte) *dedup.Response { return scheme.challenge(body, s.Token) }
		p.UnsignedChallenge = func(_ *http.Request, body []byte) *dedup.Response { return answer(body) }
		p.Handshake = func(_ context.Context, d *producer.Delivery) (*dedup.Response, error) {
			return answer(d.Body), nil
		}
	},
	typeFrom: "json:header.event_type",
}

// larkScheme verifies and decrypts deliveries with encrypt keys, of which any may match.
type larkScheme []verify.Secret

// Check reports all errors of the description.
func (l larkScheme) Check() error {
	if len(l) == 0 {
		return errors.New("no secret is set: the encrypt key of the application")
	}
	var errs []error
	for i, secret := range l {
		if _, err := secret.Decode(verify.Raw); err != nil {
			errs = append(errs, fmt.Errorf("secret %d of %d %w", i+1, len(l), err))
		}
	}
	return errors.Join(errs...)
}

// The fields of a signature.
const (
	larkTime  = "X-Lark-Request-Timestamp"
	larkNonce = "X-Lark-Request-Nonce"
	larkField = "X-Lark-Signature"
)

// Verify implements [verify.Scheme].
func (l larkScheme) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	if err := l.Check(); err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.KeysUnavailable, Err: err}
	}
	var fields [3]string
	for i, name := range []string{larkField, larkTime, larkNonce} {
		text, err := producer.Header(name).Extract(&producer.Delivery{Request: r})
		if err != nil {
			return verify.Identity{}, err
		}
		if fields[i] = text; i == 0 && text == "" {
			return verify.Identity{}, &verify.Error{Code: verify.SignatureMissing, Component: name}
		}
	}
	got, err := hex.DecodeString(fields[0])
	if err != nil || len(got) != sha256.Size {
		return verify.Identity{}, &verify.Error{Code: verify.SignatureMalformed, Component: larkField}
	}
	if fields[1] == "" {
		return verify.Identity{}, &verify.Error{Code: verify.TimestampMissing, Component: larkTime}
	}
	// A moved digit would be another time of the same content.
	seconds, err := strconv.ParseUint(fields[1], 10, 40)
	if err != nil || len(fields[1]) != len("1795000000") {
		return verify.Identity{}, &verify.Error{Code: verify.TimestampMalformed, Component: larkTime}
	}
	raw, err := body()
	if err != nil {
		return verify.Identity{}, err
	}
	id := verify.Identity{SignedAt: time.Unix(int64(seconds), 0), Covered: []string{"@body"}} //nolint:gosec // 40 bits
	for i, key := range l {
		sum := larkSum(fields[1], fields[2], key, raw)
		if sameText(string(sum), string(got)) {
			id.Secret = i + 1
		}
	}
	if id.Secret == 0 {
		return verify.Identity{}, &verify.Error{Code: verify.SignatureMismatch, Component: larkField}
	}
	content := sha256.Sum256([]byte(fields[1] + fields[2] + string(raw)))
	id.Signed = content[:]
	return id, nil
}

func larkSum(stamp, nonce string, key verify.Secret, body []byte) []byte {
	sum := sha256.New()
	sum.Write([]byte(stamp + nonce + string(key)))
	sum.Write(body)
	return sum.Sum(nil)
}

// decrypt returns the event of a body: AES-256 in CBC mode under the SHA-256 of a key, with PKCS
// #7 padding, behind its initialization vector.
func (l larkScheme) decrypt(body []byte) ([]byte, error) {
	text, err := producer.JSON("encrypt").Extract(&producer.Delivery{Body: body})
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) < 2*aes.BlockSize || len(raw)%aes.BlockSize != 0 {
		return nil, malformed("json:encrypt", verify.Public("not the base64 of encrypted blocks"))
	}
	for _, key := range l {
		plain := make([]byte, len(raw)-aes.BlockSize)
		cipher.NewCBCDecrypter(larkCipher(key), raw[:aes.BlockSize]).CryptBlocks(plain, raw[aes.BlockSize:])
		plain = plain[:len(plain)-min(int(plain[len(plain)-1]), len(plain))]
		if d := (&producer.Delivery{Body: plain}); isJSONObject(plain) {
			if _, err := d.JSON(); err == nil {
				return plain, nil
			}
		}
	}
	return nil, malformed("json:encrypt", verify.Public("does not decrypt to a JSON object"))
}

func larkCipher(key verify.Secret) cipher.Block {
	sum := sha256.Sum256([]byte(key))
	block, _ := aes.NewCipher(sum[:]) // its length is one of AES
	return block
}

// challenge returns the response to an encrypted challenge with the token, or nil.
func (l larkScheme) challenge(body []byte, token string) *dedup.Response {
	event, err := l.decrypt(body)
	if err != nil || token == "" {
		return nil
	}
	var values [3]string
	for i, name := range []string{"type", "token", "challenge"} {
		values[i], _ = producer.JSON(name).Extract(&producer.Delivery{Body: event}) // "" is refused
	}
	if values[0] != "url_verification" || !sameText(values[1], token) || values[2] == "" ||
		len(values[2]) > maxChallenge {
		return nil
	}
	return echoJSON(values[2])
}

// SignBody encrypts and signs an event.
func (l larkScheme) SignBody(r *http.Request, body []byte, now time.Time) ([]byte, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if _, err := l.decrypt(body); err != nil {
		padding := aes.BlockSize - len(body)%aes.BlockSize
		plain := append(bytes.Clone(body), bytes.Repeat([]byte{byte(padding)}, padding)...)
		raw := make([]byte, aes.BlockSize+len(plain))
		_, _ = rand.Read(raw[:aes.BlockSize]) // never fails
		cipher.NewCBCEncrypter(larkCipher(l[0]), raw[:aes.BlockSize]).CryptBlocks(raw[aes.BlockSize:], plain)
		body = []byte(`{"encrypt":"` + base64.StdEncoding.EncodeToString(raw) + `"}`)
	}
	stamp, nonce := strconv.FormatInt(now.Unix(), 10), rand.Text()
	r.Header.Set(larkTime, stamp)
	r.Header.Set(larkNonce, nonce)
	r.Header.Set(larkField, hex.EncodeToString(larkSum(stamp, nonce, l[0], body)))
	return body, nil
}

// Binds implements [verify.Binder].
func (l larkScheme) Binds() verify.Binding {
	return verify.Binding{Content: true, Time: true, TimeField: "x-lark-request-timestamp", Covered: []string{"@body"}}
}

// String describes the scheme for the policy.
func (l larkScheme) String() string {
	return "SHA-256 (hex) of time, nonce, encrypt key and body in " + larkField
}

// larkValue reads a value of the decrypted event.
type larkValue struct {
	scheme larkScheme
	from   producer.Extractor
}

// Extract implements [producer.Extractor].
func (v larkValue) Extract(d *producer.Delivery) (string, error) {
	event, err := v.scheme.decrypt(d.Body)
	if err != nil {
		return "", err
	}
	return v.from.Extract(&producer.Delivery{Request: d.Request, Body: event, Identity: d.Identity})
}

// Consumes implements [producer.Extractor].
func (v larkValue) Consumes() []string { return []string{"@body"} }

func (v larkValue) String() string { return fmt.Sprint(v.from) }
