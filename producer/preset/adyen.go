package preset

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// adyenHorizon is how long Adyen tries: 30 days. A day is added.
const adyenHorizon = 30 * 24 * time.Hour

// Adyen receives payment notifications of Adyen (the "standard webhook"). A key is the HMAC key of the webhook in
// hex, as the Customer Area shows it; for a while after a change Adyen goes on using the old one, so give both.
// Set Scheme to verify.All{verify.Basic(...), p.Scheme} to demand the webhook's user and password too.
//
// A notification is a batch. Each item is an event pspReference:eventCode:success, all of them signed, and only
// eight members of an item are; see [Adyen]. Adyen wants 2xx or "[accepted]" within 10 seconds.
//
// https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures/
func Adyen(keys ...string) producer.Producer {
	p := webhook("adyen", "https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures/")
	p = signedBy(p, newAdyenScheme(keys...))
	p.Split = adyenItems
	p.Fingerprint = producer.FingerprintNone
	p.Accepted = accepted()
	p.Window = adyenHorizon + 24*time.Hour
	return p
}

func accepted() dedup.Response {
	return dedup.Response{Status: 200, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte("[accepted]")}
}

func adyenItems(d *producer.Delivery) ([]producer.Item, error) {
	parts, err := parseAdyenItems(d.Body)
	if err != nil {
		return nil, err
	}
	items := make([]producer.Item, len(parts))
	for i, it := range parts {
		items[i] = producer.Item{ID: producer.JoinID(it.PSPReference, it.EventCode, it.Success), Type: it.EventCode, Body: it.Body}
	}
	return items, nil
}

// AdyenPlatform receives webhooks of Adyen's Balance and Management platforms, whose signature is in a header
// field and covers the body. Keys are as for [Adyen]. Its data.id names the object and not the event, so a
// digest of the body is the identifier. The field HmacSignature is confirmed by a sample repository and by users'
// code more than by the documentation.
//
// https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures/
func AdyenPlatform(keys ...string) producer.Producer {
	p := webhook("adyen-platform", "https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures/")
	p = signedBy(p, &verify.HMAC{
		Headers: []string{"HmacSignature"}, Encoding: verify.Base64, Secrets: verify.Secrets(keys...), SecretEncoding: verify.Hex,
	})
	p.Key = producer.BodyDigest()
	p.Type = producer.JSON("type")
	p.EventTime = producer.JSON("timestamp")
	p.Accepted = accepted()
	p.Window = adyenHorizon + 24*time.Hour
	return p
}

// Bounds on an Adyen notification, which is read before it is verified.
const (
	maxItems     = 1_000
	maxItemParts = 100     // values of an item, on average
	maxAdyenText = 1 << 10 // bytes of a signed member
	maxAdyenName = 160     // bytes of a name that holds escapes: the longest one that is looked for, every letter escaped
)

// adyenScheme verifies payment notifications of Adyen: every item carries, in additionalData.hmacSignature, the
// base64 of an HMAC-SHA256 over eight of its members, joined by colons. Of these only merchantReference may hold a colon,
// so a signature fits one list of members. One bad item refuses the whole request.
//
// Nothing else in the body is bound: reason, paymentMethod, eventDate and other additional data can be altered
// by anybody who holds a signed item. Identity.Signed is therefore nil.
type adyenScheme struct {
	keys [][]byte
	macs sync.Pool // of *adyenMACs
	err  error
}

// newAdyenScheme returns the scheme with HMAC keys as the Customer Area shows them, in hex. Any may match.
func newAdyenScheme(keys ...string) *adyenScheme {
	a := &adyenScheme{}
	if len(keys) == 0 {
		a.err = errors.New("secrets: none is set")
	}
	for i, k := range keys {
		key, err := verify.Secret(k).Decode(verify.Hex)
		if err != nil {
			a.err = errors.Join(a.err, fmt.Errorf("secret %d of %d %w", i+1, len(keys), err))
			continue
		}
		a.keys = append(a.keys, key)
	}
	a.macs.New = func() any {
		macs := &adyenMACs{}
		for _, key := range a.keys {
			macs.all = append(macs.all, hmac.New(sha256.New, key))
		}
		return macs
	}
	return a
}

// Check reports every mistake of the keys.
func (a *adyenScheme) Check() error { return a.err }

// adyenItem is one item of a notification.
type adyenItem struct {
	// PSPReference, EventCode and Success name the event.
	PSPReference, EventCode, Success string
	// Body is the item's NotificationRequestItem as it was sent.
	Body []byte

	signature string
	signed    string
}

// Binds implements [verify.Binder]. Each item of the body is signed on its own, with its identifier.
func (a *adyenScheme) Binds() verify.Binding {
	return verify.Binding{Content: true, Covered: []string{"@body"}}
}

// Verify implements [verify.Scheme].
func (a *adyenScheme) Verify(_ *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	if a.err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.KeysUnavailable, Err: a.err}
	}
	b, err := body()
	if err != nil {
		return verify.Identity{}, err
	}
	macs := a.macs.Get().(*adyenMACs)
	defer a.macs.Put(macs)
	return verify.Identity{Covered: []string{"@items"}}, readAdyenItems(b, macs.verify)
}

// adyenMACs are keyed MACs, one for each key, and where a sum goes. They are pooled: keying one costs two blocks of hashing.
type adyenMACs struct {
	all []hash.Hash
	sum [sha256.Size]byte
}

func (m *adyenMACs) verify(it adyenItem) error {
	const name = "additionalData.hmacSignature"
	if it.signature == "" {
		return &verify.Error{Code: verify.SignatureMissing, Component: name}
	}
	sig, ok := decodeBase64Strict(it.signature)
	if !ok {
		return &verify.Error{Code: verify.SignatureMalformed, Component: name}
	}
	for _, mac := range m.all {
		mac.Reset()
		mac.Write([]byte(it.signed))
		if hmac.Equal(sig, mac.Sum(m.sum[:0])) {
			return nil
		}
	}
	return &verify.Error{Code: verify.SignatureMismatch, Component: name}
}

// String says what is demanded, for the policy.
func (a *adyenScheme) String() string {
	return "HMAC-SHA256 (base64) of eight members of each item, in its additionalData.hmacSignature"
}

// SignBody returns the notification with its items signed as Adyen would. Items must not have additionalData yet.
func (a *adyenScheme) SignBody(body []byte) ([]byte, error) {
	if a.err != nil {
		return nil, a.err
	}
	items, err := parseAdyenItems(body)
	if err != nil {
		return nil, err
	}
	out := []byte(`{"live":"false","notificationItems":[`)
	for i, it := range items {
		if i > 0 {
			out = append(out, ',')
		}
		mac := hmac.New(sha256.New, a.keys[0])
		mac.Write([]byte(it.signed))
		sig := base64.StdEncoding.EncodeToString(mac.Sum(nil))
		inner := bytes.TrimPrefix(bytes.TrimSpace(it.Body), []byte("{"))
		out = fmt.Appendf(out, `{"NotificationRequestItem":{"additionalData":{"hmacSignature":%q},%s}`, sig, inner)
	}
	return append(out, "]}"...), nil
}

// parseAdyenItems takes a notification apart, without verifying it. Members that occur twice on the way to a
// signed one are refused (event_malformed), whatever the case of their letters.
func parseAdyenItems(body []byte) ([]adyenItem, error) {
	var items []adyenItem
	err := readAdyenItems(body, func(it adyenItem) error {
		items = append(items, it)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return items, nil
}

// readAdyenItems calls each for every item while it reads the notification, in one pass, and stops at the first error.
func readAdyenItems(body []byte, each func(adyenItem) error) error {
	if !utf8.Valid(body) {
		return malformedItem("not UTF-8")
	}
	r := adyenReader{strictjson.NewScanner(body, strictjson.Limits{Depth: strictjson.Unverified.Depth, Values: maxItems * maxItemParts})}
	count := 0
	err := r.members([]string{"notificationItems"}, func(int) error {
		return r.Array(func() error {
			if count++; count > maxItems {
				return malformedItem("too many notificationItems")
			}
			it, err := r.wrapper()
			if err != nil {
				return err
			}
			return each(it)
		})
	})
	if err == nil {
		err = r.End()
	}
	switch {
	case err != nil && verify.CodeOf(err) == "":
		return &verify.Error{Code: verify.EventMalformed, Component: "@body", Err: err}
	case err != nil:
		return err
	case count == 0:
		return malformedItem("no notificationItems")
	}
	return nil
}

func malformedItem(why string) error {
	return &verify.Error{Code: verify.EventMalformed, Component: "@body", Err: errors.New(why)}
}

// adyenReader reads the parts of a notification.
type adyenReader struct{ strictjson.Scanner }

// members reads an object and calls read for each of the named members, by its index, to read the value. One that
// occurs twice is refused, whatever the case of its letters, because programs that read the body later may not agree on
// which counts. A name in another case is not read.
func (r *adyenReader) members(names []string, read func(i int) error) error {
	seen := 0
	return r.Object(func(name []byte) error {
		text := name[1 : len(name)-1]
		if bytes.IndexByte(text, '\\') >= 0 {
			if text = text[:0:0]; len(name) <= maxAdyenName {
				text, _ = strictjson.AppendString(nil, name)
			}
		}
		i := slices.IndexFunc(names, func(n string) bool { return bytes.EqualFold([]byte(n), text) })
		if i >= 0 {
			if seen&(1<<i) != 0 {
				return &verify.Error{Code: verify.AmbiguousField, Component: names[i], Err: strictjson.ErrDuplicate}
			}
			seen |= 1 << i
		}
		if i >= 0 && string(text) == names[i] {
			return read(i)
		}
		_, err := r.Value()
		return err
	})
}

// inner is members for an object that may be null.
func (r *adyenReader) inner(names []string, read func(i int) error) error {
	if r.Next() == 'n' {
		_, err := r.Value()
		return err
	}
	return r.members(names, read)
}

// The members of an item that are read. The first six are signed as they are, at their places of the signed text; amount
// holds two more that are.
var (
	adyenMembers = []string{"pspReference", "originalReference", "merchantAccountCode", "merchantReference", "eventCode", "success",
		"amount", "additionalData"}
	adyenPlaces = [...]int{0, 1, 2, adyenReference, adyenEvent, adyenSuccess}
	adyenAmount = []string{"value", "currency"}
	adyenExtra  = []string{"hmacSignature"}
)

// Places in the signed text.
const (
	adyenReference, adyenValue, adyenEvent, adyenSuccess = 3, 4, 6, 7
	adyenSigned                                          = 8
)

func (r *adyenReader) wrapper() (it adyenItem, err error) {
	found := false
	err = r.members([]string{"NotificationRequestItem"}, func(int) error {
		found = true
		it, err = r.item()
		return err
	})
	if err == nil && !found {
		err = malformedItem("an item without its content")
	}
	return it, err
}

func (r *adyenReader) item() (adyenItem, error) {
	var it adyenItem
	var signed [adyenSigned]string
	r.Next()
	start := r.Pos()
	err := r.members(adyenMembers, func(i int) (err error) {
		switch adyenMembers[i] {
		case "amount":
			return r.inner(adyenAmount, func(i int) (err error) { signed[adyenValue+i], err = r.plain(); return err })
		case "additionalData":
			return r.inner(adyenExtra, func(int) (err error) { it.signature, err = r.plain(); return err })
		}
		signed[adyenPlaces[i]], err = r.plain()
		return err
	})
	if err != nil {
		return it, err
	}
	it.Body = r.Since(start)
	it.PSPReference, it.EventCode, it.Success = signed[0], signed[adyenEvent], signed[adyenSuccess]
	it.signed = strings.Join(signed[:], ":")
	if strings.Count(it.signed, ":")-strings.Count(signed[adyenReference], ":") != adyenSigned-1 {
		return it, malformedItem("a colon in a signed member other than merchantReference: what is signed would be ambiguous")
	}
	return it, nil
}

// plain reads a string and decodes it, a number or boolean as it is spelt, and "" for null.
func (r *adyenReader) plain() (string, error) {
	raw, err := r.Value()
	switch {
	case err != nil:
		return "", err
	case raw[0] == '{' || raw[0] == '[':
		return "", malformedItem("a signed member is neither text, number nor boolean")
	case len(raw) > maxAdyenText:
		return "", malformedItem("a signed member is too long")
	case raw[0] == '"':
		return strictjson.String(raw), nil
	case string(raw) == "null":
		return "", nil
	}
	return string(raw), nil
}
