package producer

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/eyelet-dev/eyelet/verify"
)

// Embedded verifies a signature over values of a delivery, such as members of its body, rather than
// over the body. It is data, as [verify.HMAC] is. The value is used by pointer and not changed
// after its first use, which includes Check.
//
//	&producer.Embedded{ // {"signature": {"timestamp": "...", "token": "...", "signature": "..."}}
//		Signature: producer.JSON("signature.signature"),
//		Timestamp: producer.JSON("signature.timestamp"),
//		Content:   "{timestamp}{json:signature.token}",
//		HMAC:      &verify.HMAC{Encoding: verify.Hex, Secrets: verify.Secrets("...")},
//	}
//
// Such a signature binds its time and nothing else of the event: an attacker who captured one can
// send it with another body. Its content is therefore the nonce of the delivery, for [NonceUnique].
type Embedded struct {
	Signature Extractor // where the signature is; required
	Timestamp Extractor // where the signed time is, 10 digits (13 in milliseconds); required
	// Content is what is signed: text around the placeholders {timestamp} and, at least once, an
	// extractor in the syntax of [ParseExtractor], such as {form:token}. A missing value is empty.
	Content string
	// HMAC is how it is signed: Separator, Entries, Hash, Hashes, Encoding, the secrets or public
	// keys, and the unit of the time. Required, without its other fields, which Check sets.
	HMAC *verify.HMAC

	once  sync.Once
	parts []contentPart
	err   error
}

// contentPart is a part of the signed content: text, the time, or a value.
type contentPart struct {
	text string
	time bool
	from Extractor // nil for text and the time
}

// The fields that carry the values to the HMAC.
const (
	embeddedSignature = "Signature"
	embeddedTimestamp = "Timestamp"
)

// Check reports all errors of the description.
func (e *Embedded) Check() error {
	e.once.Do(func() { e.err = e.prepare() })
	return e.err
}

func (e *Embedded) prepare() error {
	if e.Signature == nil || e.Timestamp == nil || e.HMAC == nil {
		return errors.New("signature: one in the delivery needs its place, that of its time, and how it is made")
	}
	h := e.HMAC
	if h.Content != "" || h.Contents != nil || len(h.Headers)+len(h.TimestampHeaders)+len(h.IDHeaders) > 0 {
		return errors.New("signature: one in the delivery has no fields of a header")
	}
	h.Headers, h.TimestampHeaders = []string{embeddedSignature}, []string{embeddedTimestamp}
	h.Contents = func(_ *http.Request, content []byte) ([][][]byte, error) { return [][][]byte{{content}}, nil }
	return errors.Join(e.parse(), h.Check())
}

// parse reads Content.
func (e *Embedded) parse() error {
	timed, values := false, false
	for rest := e.Content; rest != ""; {
		text, more, found := strings.Cut(rest, "{")
		e.parts = append(e.parts, contentPart{text: text})
		if !found {
			break
		}
		name, after, closed := strings.Cut(more, "}")
		part := contentPart{time: name == "timestamp"}
		if !part.time {
			var err error
			if part.from, err = ParseExtractor(name); err != nil || !closed {
				return fmt.Errorf("content %q: {%s} is neither {timestamp} nor an extractor such as {json:token}",
					e.Content, name)
			}
		}
		timed, values = timed || part.time, values || !part.time
		e.parts, rest = append(e.parts, part), after
	}
	if !timed || !values {
		return fmt.Errorf("content %q: needs {timestamp} and a value that differs between deliveries", e.Content)
	}
	return nil
}

// Verify implements [verify.Scheme]. The nonce is the SHA-256 of the signed content.
func (e *Embedded) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	if err := e.Check(); err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.KeysUnavailable, Err: err}
	}
	return e.verify(e.HMAC, r, body)
}

func (e *Embedded) verify(inner verify.Scheme, r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	raw, err := body()
	if err != nil {
		return verify.Identity{}, err
	}
	d := &Delivery{Request: r, Body: raw}
	signature, err := e.Signature.Extract(d)
	if err != nil {
		return verify.Identity{}, withCode(err)
	}
	if signature == "" { // the other values cost more
		return verify.Identity{}, e.missing(d)
	}
	stamp, content, err := e.content(d)
	if err != nil {
		return verify.Identity{}, withCode(err)
	}
	digits := e.HMAC.TimestampUnit.Digits()
	// Moved digits would be another time of the same content.
	if stamp != "" && digits != 0 && len(stamp) != digits {
		return verify.Identity{}, &verify.Error{Code: verify.TimestampMalformed, Component: e.Timestamp.String()}
	}
	values := &http.Request{Header: http.Header{embeddedSignature: {signature}, embeddedTimestamp: {stamp}}}
	id, err := inner.Verify(values, func() ([]byte, error) { return content, nil })
	if refusal, ok := errors.AsType[*verify.Error](err); ok {
		named := *refusal
		named.Component = cmp.Or(map[string]string{
			embeddedSignature: e.Signature.String(), embeddedTimestamp: e.Timestamp.String(),
		}[refusal.Component], refusal.Component)
		return verify.Identity{}, &named
	} else if err != nil {
		return verify.Identity{}, err
	}
	return verify.Identity{
		KeyID: id.KeyID, Secret: id.Secret, SignedAt: id.SignedAt, Nonce: hex.EncodeToString(id.Signed),
	}, nil
}

// missing is the refusal of a delivery without a signature, or with a body that is none of those of
// which it is read.
func (e *Embedded) missing(d *Delivery) error {
	accepted := e.MediaTypes()
	kind, _ := mediaType(d)
	if isJSON := d.document().err == nil; len(accepted) == 0 || len(d.Body) == 0 || kind == "" ||
		slices.Contains(accepted, kind) || isJSON && slices.Contains(accepted, jsonMedia) {
		return &verify.Error{Code: verify.SignatureMissing, Component: e.Signature.String()}
	}
	return &verify.Error{Code: verify.MediaTypeUnsupported, Component: "content-type",
		Err: verify.Public("the signature is in the body, which is none of " + strings.Join(accepted, ", "))}
}

// MediaTypes lists the media types of the bodies of which the signature is read.
func (e *Embedded) MediaTypes() []string {
	var types []string
	if strings.Contains(e.Signature.String(), "json:") {
		types = append(types, jsonMedia)
	}
	if strings.Contains(e.Signature.String(), "form:") {
		types = append(types, formMedia, multipartMedia)
	}
	return types
}

// Alternatives implements [verify.Alternator]: other secrets, hashes and encodings.
func (e *Embedded) Alternatives(r *http.Request, offered []verify.Offer) []verify.Alternative {
	if e.Check() != nil {
		return nil
	}
	return verify.VerifyAround(e.verify).Alternatives(e.HMAC, r, offered)
}

// Offers implements [verify.Alternator].
func (e *Embedded) Offers(ctx context.Context) []verify.Offer { return e.HMAC.Offers(ctx) }

// ShortSecrets describes secrets that can be guessed, for a warning.
func (e *Embedded) ShortSecrets() []string { return e.HMAC.ShortSecrets() }

// content returns the time as written, and the signed content.
func (e *Embedded) content(d *Delivery) (stamp string, content []byte, err error) {
	if stamp, err = e.Timestamp.Extract(d); err != nil {
		return "", nil, err
	}
	for _, part := range e.parts {
		text := part.text
		if part.time {
			text = stamp
		} else if part.from != nil {
			if text, err = part.from.Extract(d); err != nil {
				return "", nil, err
			}
		}
		content = append(content, text...)
	}
	return stamp, content, nil
}

// Binds implements [verify.Binder]: the signature binds a time and nothing of the event.
func (e *Embedded) Binds() verify.Binding { return verify.Binding{Time: true} }

// String describes the scheme for the policy.
func (e *Embedded) String() string {
	hashes := append([]verify.Hash{e.HMAC.Hash}, e.HMAC.Hashes...)
	made := "HMAC-" + strings.ToUpper(string(cmp.Or(append(hashes, verify.SHA256)...)))
	if len(e.HMAC.PublicKeys)+len(e.HMAC.ECDSAKeys) > 0 {
		made = "signature with a private key"
	}
	return fmt.Sprintf("%s (%s) of %q in %s, the time in %s; nothing else of a delivery is signed", made,
		e.HMAC.Encoding, e.Content, e.Signature, e.Timestamp)
}
