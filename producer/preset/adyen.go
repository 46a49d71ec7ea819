package preset

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// adyen receives payment notifications of Adyen (the "standard webhook"). A key is the HMAC key
// of the webhook in hex, as the Customer Area shows it. Adyen uses the old key for a while
// after a change, so set both. To also require the webhook's user and password, use
// verify.All{verify.Basic(...), p.Scheme} as the Scheme.
//
// A notification is a batch. An item carries, in additionalData.hmacSignature, the base64 of an
// HMAC-SHA256 over eight of its members joined by colons, and is the event
// pspReference:eventCode:success. Other members (reason, paymentMethod, eventDate, ...) are not
// signed: a holder of a signed item can change them. One item that does not verify refuses
// the request, because nothing says who added it. An item without pspReference or eventCode is
// identified by a digest of its signed members. Adyen wants 2xx or "[accepted]" within 10 seconds.
//
// https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures/
var adyen = Preset{
	Name: "adyen", Docs: "https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures/",
	Auth: "HMAC-SHA256 of 8 members of each item",
	ID:   "pspReference:eventCode:success", Deadline: "10s", Wants: "2xx or [accepted]; 30 days",
	Uses: []string{"secret", "username", "password"},
	like: producer.Producer{
		Fingerprint: producer.FingerprintNone, Window: 31 * day,
		Summary: []string{
			"{json:amount.value in json:amount.currency} for {json:merchantReference}",
			"{json:reason}",
		},
	},
	build: func(p *producer.Producer, s Settings) {
		scheme := newAdyenScheme(s.Secrets...)
		signedBy(p, scheme)
		if s.Username != "" || s.Password != "" {
			withCredential(p, verify.Basic(s.Username, s.Password))
			p.Scheme = verify.All{p.Scheme, scheme}
		}
		p.Split = splitAdyen
		p.Accepted = textResponse("[accepted]")
	},
	typeFrom: "json:notificationItems.*.NotificationRequestItem.eventCode",
}

func splitAdyen(d *producer.Delivery) ([]producer.Item, error) {
	parts, err := parseAdyenItems(d.Body)
	if err != nil {
		return nil, err
	}
	items := make([]producer.Item, len(parts))
	for i, it := range parts {
		items[i] = producer.Item{Type: it.eventCode, Body: it.body, Content: []byte(it.signed)}
		if it.pspReference != "" && it.eventCode != "" {
			items[i].ID = producer.JoinID(it.pspReference, it.eventCode, it.success)
		}
	}
	return items, nil
}

// Limits of an Adyen notification, which is parsed before it is verified.
const (
	maxItems     = 1_000
	maxItemParts = 100     // values of an item, on average
	maxAdyenText = 1 << 10 // bytes of a signed member
	maxAdyenName = 160     // bytes of a name with escapes: the longest name that is read, every letter escaped
)

// adyenScheme verifies each item of a notification; see [adyen]. Of the signed members only
// merchantReference may contain a colon, so a signature fits one list of members.
// Identity.Signed stays nil, because the body as a whole is not signed.
type adyenScheme struct {
	macs    sync.Pool              // of *adyenMACs
	secrets func() []verify.Secret // a function: fmt prints private fields without the methods of Secret
	err     error
}

// adyenMACs are MACs, one for each key, and space for a sum. They are pooled: keying one costs
// two blocks of hashing.
type adyenMACs struct {
	all     []hash.Hash
	matched int // the position of the key of the last item, from 1
	sum     [sha256.Size]byte
}

// newAdyenScheme returns the scheme for keys in hex, of which any may match.
func newAdyenScheme(secrets ...string) *adyenScheme {
	a := &adyenScheme{secrets: func() []verify.Secret { return verify.Secrets(secrets...) }}
	if len(secrets) == 0 {
		a.err = errors.New("secrets: none is set")
	}
	var keys [][]byte // not in a field, where fmt would print them
	for i, s := range secrets {
		key, err := verify.Secret(s).Decode(verify.Hex)
		if err != nil {
			a.err = errors.Join(a.err, fmt.Errorf("secret %d of %d %w", i+1, len(secrets), err))
			continue
		}
		keys = append(keys, key)
	}
	a.macs.New = func() any {
		macs := &adyenMACs{}
		for _, key := range keys {
			macs.all = append(macs.all, hmac.New(sha256.New, key))
		}
		return macs
	}
	return a
}

// Check reports every mistake of the keys.
func (a *adyenScheme) Check() error { return a.err }

// ShortSecrets describes keys that can be guessed, for a warning.
func (a *adyenScheme) ShortSecrets() []string {
	return verify.ShortSecrets(a.Offers(context.Background()), verify.Hex)
}

// Binds implements [verify.Binder]. Each item is signed with its identifier.
func (a *adyenScheme) Binds() verify.Binding {
	return verify.Binding{Content: true, Covered: []string{"@items"}}
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
	macs.matched = 0
	if err := readAdyenItems(b, macs.verify); err != nil {
		if verify.CodeOf(err) == verify.EventMalformed && !bytes.Contains(b, []byte("hmacSignature")) {
			err = &verify.Error{Code: verify.SignatureMissing, Component: adyenSignature, Err: err}
		}
		return verify.Identity{}, err
	}
	return verify.Identity{Covered: []string{"@items"}, Secret: macs.matched}, nil
}

const adyenSignature = "additionalData.hmacSignature"

func (m *adyenMACs) verify(it adyenItem) error {
	if it.signature == "" {
		return &verify.Error{Code: verify.SignatureMissing, Component: adyenSignature}
	}
	sig, ok := decodeBase64Strict(it.signature)
	if !ok {
		return &verify.Error{Code: verify.SignatureMalformed, Component: adyenSignature}
	}
	for i, mac := range m.all {
		mac.Reset()
		mac.Write([]byte(it.signed))
		if hmac.Equal(sig, mac.Sum(m.sum[:0])) {
			m.matched = i + 1
			return nil
		}
	}
	return &verify.Error{Code: verify.SignatureMismatch, Component: adyenSignature}
}

// String describes the scheme for the policy.
func (a *adyenScheme) String() string {
	return "HMAC-SHA256 (base64) of eight members of each item, in its additionalData.hmacSignature"
}

// SignBody returns the notification with its items signed.
func (a *adyenScheme) SignBody(_ *http.Request, body []byte, _ time.Time) ([]byte, error) {
	if a.err != nil {
		return nil, a.err
	}
	items, err := parseAdyenItems(body)
	if err != nil {
		return nil, err
	}
	mac := a.macs.New().(*adyenMACs).all[0]
	out := []byte(`{"live":"false","notificationItems":[`)
	for i, it := range items {
		if i > 0 {
			out = append(out, ',')
		}
		mac.Reset()
		mac.Write([]byte(it.signed))
		sig := base64.StdEncoding.EncodeToString(mac.Sum(nil))
		data := valueAt(it.body, "additionalData")
		if !isJSONObject(data) {
			data = []byte("{}")
		}
		data = withMember(data, "hmacSignature", strconv.Quote(sig), true)
		out = fmt.Appendf(out, `{"NotificationRequestItem":%s}`,
			withMember(it.body, "additionalData", string(data), true))
	}
	return append(out, "]}"...), nil
}

// adyenItem is one item of a notification.
type adyenItem struct {
	pspReference, eventCode, success string // identify the event
	body                             []byte // the NotificationRequestItem as sent
	signature, signed                string
}

// parseAdyenItems returns the items of a notification without verifying them.
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

// readAdyenItems reads a notification in one pass and calls each for every item. It stops at
// the first error.
func readAdyenItems(body []byte, each func(adyenItem) error) error {
	if !utf8.Valid(body) {
		return malformedItem("not UTF-8")
	}
	limits := strictjson.Limits{Depth: strictjson.Unverified.Depth, Values: maxItems * maxItemParts}
	r := adyenReader{strictjson.NewScanner(body, limits)}
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

// adyenReader reads a notification.
type adyenReader struct{ strictjson.Scanner }

// members reads an object. It calls read with the index of each of the named members, to read
// its value. A member that occurs twice in any letter case is refused, because later readers of
// the body may not agree on which one counts. A name in another case is not read.
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

// inner reads an object that may be null.
func (r *adyenReader) inner(names []string, read func(i int) error) error {
	if r.Next() == 'n' {
		_, err := r.Value()
		return err
	}
	return r.members(names, read)
}

// The members of an item that are read. The first six and those of amount are signed.
var (
	adyenMembers = []string{
		"pspReference", "originalReference", "merchantAccountCode", "merchantReference", "eventCode", "success",
		"amount", "additionalData",
	}
	adyenPlaces = [...]int{0, 1, 2, adyenReference, adyenEvent, adyenSuccess} // of the first six, in the signed text
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
	it.body = r.Since(start)
	it.pspReference, it.eventCode, it.success = signed[0], signed[adyenEvent], signed[adyenSuccess]
	it.signed = strings.Join(signed[:], ":")
	if strings.Count(it.signed, ":")-strings.Count(signed[adyenReference], ":") != adyenSigned-1 {
		return it, malformedItem("a colon in a signed member other than merchantReference")
	}
	return it, nil
}

// plain returns a decoded string, a number or boolean as written, and "" for null.
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
