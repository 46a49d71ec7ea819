package verify

import (
	"bytes"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxItems bounds the items of one Adyen notification.
const maxItems = 1_000

// Adyen verifies payment notifications of Adyen: every item carries, in additionalData.hmacSignature, the
// base64 of an HMAC-SHA256 over eight of its members, joined by colons. Of these only merchantReference may hold a colon,
// so a signature fits one list of members. One bad item refuses the whole request.
//
// Nothing else in the body is bound: reason, paymentMethod, eventDate and other additional data can be altered
// by anybody who holds a signed item. Identity.Signed is therefore nil.
type Adyen struct {
	keys []hmacKey
	err  error
}

// NewAdyen returns the scheme with HMAC keys as the Customer Area shows them, in hex. Any may match.
func NewAdyen(keys ...string) *Adyen {
	a := &Adyen{}
	if len(keys) == 0 {
		a.err = errors.New("secrets: none is set")
	}
	for i, k := range keys {
		key, err := decodeSecret(Secret(k), Hex)
		if err != nil {
			a.err = errors.Join(a.err, fmt.Errorf("secret %d of %d %w", i+1, len(keys), err))
			continue
		}
		a.keys = append(a.keys, newHMACKey("", key, []Hash{SHA256}))
	}
	return a
}

// Check reports every mistake of the keys.
func (a *Adyen) Check() error { return a.err }

// AdyenItem is one item of a notification.
type AdyenItem struct {
	// PSPReference, EventCode and Success name the event.
	PSPReference, EventCode, Success string
	// Body is the item's NotificationRequestItem as it was sent.
	Body []byte

	signature string
	signed    string
}

// Verify implements [Scheme].
func (a *Adyen) Verify(_ *http.Request, body func() ([]byte, error)) (Identity, error) {
	if a.err != nil {
		return Identity{}, &Error{Code: KeysUnavailable, Err: a.err}
	}
	b, err := body()
	if err != nil {
		return Identity{}, err
	}
	items, err := AdyenItems(b)
	if err != nil {
		return Identity{}, err
	}
	for _, it := range items {
		if err := a.verify(it); err != nil {
			return Identity{}, err
		}
	}
	return Identity{}, nil
}

func (a *Adyen) verify(it AdyenItem) error {
	const name = "additionalData.hmacSignature"
	if it.signature == "" {
		return &Error{Code: SignatureMissing, Component: name}
	}
	sig, ok := Base64.decode(nil, it.signature)
	if !ok {
		return &Error{Code: SignatureMalformed, Component: name}
	}
	for _, k := range a.keys {
		if hmac.Equal(sig, k.sum(nil, SHA256, segments{[]byte(it.signed)})) {
			return nil
		}
	}
	return &Error{Code: SignatureMismatch, Component: name}
}

// String says what is demanded, for the policy.
func (a *Adyen) String() string {
	return "HMAC-SHA256 (base64) of eight members of each item, in its additionalData.hmacSignature"
}

// SignBody returns the notification with its items signed as Adyen would. Items must not have additionalData yet.
func (a *Adyen) SignBody(body []byte) ([]byte, error) {
	if a.err != nil {
		return nil, a.err
	}
	items, err := AdyenItems(body)
	if err != nil {
		return nil, err
	}
	out := []byte(`{"live":"false","notificationItems":[`)
	for i, it := range items {
		if i > 0 {
			out = append(out, ',')
		}
		sig := Base64.encode(a.keys[0].sum(nil, SHA256, segments{[]byte(it.signed)}))
		inner := bytes.TrimPrefix(bytes.TrimSpace(it.Body), []byte("{"))
		out = fmt.Appendf(out, `{"NotificationRequestItem":{"additionalData":{"hmacSignature":%q},%s}`, sig, inner)
	}
	return append(out, "]}"...), nil
}

// AdyenItems takes a notification apart, without verifying it. Members that occur twice on the way to a
// signed one are refused (event_malformed), whatever the case of their letters.
func AdyenItems(body []byte) ([]AdyenItem, error) {
	if !utf8.Valid(body) {
		return nil, malformedItem("not UTF-8")
	}
	top, err := members(body, "notificationItems")
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if json.Unmarshal(top["notificationItems"], &list) != nil || len(list) == 0 || len(list) > maxItems {
		return nil, malformedItem("no notificationItems, or too many")
	}
	items := make([]AdyenItem, len(list))
	for i, raw := range list {
		wrapper, err := members(raw, "NotificationRequestItem")
		if err != nil {
			return nil, err
		}
		if items[i], err = adyenItem(wrapper["NotificationRequestItem"]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func malformedItem(why string) error {
	return &Error{Code: EventMalformed, Component: "@body", Err: errors.New(why)}
}

func adyenItem(raw json.RawMessage) (AdyenItem, error) {
	it := AdyenItem{Body: raw}
	m, err := members(raw, "pspReference", "originalReference", "merchantAccountCode", "merchantReference",
		"amount", "eventCode", "success", "additionalData")
	if err != nil {
		return it, err
	}
	amount, err := innerMembers(m["amount"], "value", "currency")
	if err != nil {
		return it, err
	}
	extra, err := innerMembers(m["additionalData"], "hmacSignature")
	if err != nil {
		return it, err
	}
	var bad error
	text := func(raw json.RawMessage) string {
		s, err := plainText(raw)
		bad = errors.Join(bad, err)
		return s
	}
	it.signature = text(extra["hmacSignature"])
	it.PSPReference, it.EventCode, it.Success = text(m["pspReference"]), text(m["eventCode"]), text(m["success"])
	reference := text(m["merchantReference"])
	it.signed = strings.Join([]string{
		it.PSPReference, text(m["originalReference"]), text(m["merchantAccountCode"]), reference,
		text(amount["value"]), text(amount["currency"]), it.EventCode, it.Success,
	}, ":")
	if bad != nil {
		return it, malformedItem("a signed member is neither text, number nor boolean")
	}
	if strings.Count(it.signed, ":")-strings.Count(reference, ":") != 7 {
		return it, malformedItem("a colon in a signed member other than merchantReference: what is signed would be ambiguous")
	}
	return it, nil
}

// plainText is a string decoded, a number or boolean as it is spelt, and "" for null and for nothing.
func plainText(raw json.RawMessage) (string, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", nil
	case raw[0] == '{' || raw[0] == '[':
		return "", errors.New("no plain value")
	case raw[0] != '"':
		return string(raw), nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

// innerMembers is members for an object that may be missing.
func innerMembers(raw json.RawMessage, names ...string) (map[string]json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	return members(raw, names...)
}

// members returns the named members of a JSON object. One that occurs twice is refused, whatever the case of its
// letters, because programs that read the body later may not agree on which counts.
func members(raw []byte, names ...string) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, malformedItem("not an object")
	}
	found := map[string]json.RawMessage{}
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return nil, malformedItem("no JSON")
		}
		key, _ := tok.(string)
		i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, key) })
		if i < 0 {
			continue
		}
		if seen[names[i]] {
			return nil, &Error{Code: AmbiguousField, Component: names[i], Err: errors.New("a member occurs twice")}
		}
		seen[names[i]] = true
		found[key] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, malformedItem("no JSON")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, malformedItem("more than one value")
	}
	return found, nil
}
