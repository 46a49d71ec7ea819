package producer

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
	"strings"
	"sync"
)

// FingerprintFunc digests what must be equal when an identifier repeats. The zero digest means
// that nothing is compared.
type FingerprintFunc func(d *Delivery, it Item) [32]byte

// FingerprintBody digests the item's body and the CloudEvents attributes in the header (ce-*).
// It is the default.
//
// It ignores attributes that a signature does not cover: adding one would turn a delivery into
// another payload.
func FingerprintBody(d *Delivery, it Item) [32]byte {
	h := newDigest()
	h.add(it.Body)
	var names []string
	for name := range d.Request.Header {
		if len(name) < 3 || !strings.EqualFold(name[:3], "ce-") {
			continue
		}
		if d.Identity.Signed == nil || d.Identity.Covers(strings.ToLower(name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		h.add([]byte(strings.ToLower(name)))
		for _, line := range d.Request.Header[name] {
			h.add([]byte(line))
		}
	}
	return h.sum()
}

// FingerprintCloudEvent ignores id and time of a CloudEvent that an Idempotency-Key identifies:
// a producer may renew both for each attempt (delivery draft section 10). Otherwise it is
// FingerprintBody.
func FingerprintCloudEvent(d *Delivery, it Item) [32]byte {
	events, err := d.cloudEvents()
	if err != nil || len(events) != 1 || events[0].err != nil || len(d.Request.Header.Values(defaultKeyField)) == 0 {
		return FingerprintBody(d, it)
	}
	h := newDigest()
	h.add(events[0].data)
	for _, name := range slices.Sorted(maps.Keys(events[0].attributes)) {
		if name != "id" && name != "time" {
			h.add([]byte(name))
			h.add([]byte(events[0].attributes[name]))
		}
	}
	return h.sum()
}

// FingerprintNone compares nothing: the same identifier is the same event. It is for signed
// identifiers, and for producers that change the body with every attempt.
func FingerprintNone(*Delivery, Item) [32]byte { return [32]byte{} }

// FingerprintFields compares the values of extractors only, for producers that change other
// parts of the body with every attempt. If a value cannot be read, the whole body is compared.
func FingerprintFields(fields ...Extractor) FingerprintFunc {
	return func(d *Delivery, it Item) [32]byte {
		one := &Delivery{Request: d.Request, Body: it.Body, Identity: d.Identity, formMember: d.formMember}
		h := newDigest()
		for _, field := range fields {
			v, err := field.Extract(one)
			if err != nil {
				return FingerprintBody(d, it)
			}
			h.add([]byte(v))
		}
		return h.sum()
	}
}

// ParseFingerprint returns FingerprintFields of the extractors, in the syntax of [ParseExtractor],
// FingerprintNone for "none" alone, and nil for no text.
func ParseFingerprint(texts ...string) (FingerprintFunc, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	if len(texts) == 1 && texts[0] == "none" {
		return FingerprintNone, nil
	}
	fields := make([]Extractor, len(texts))
	for i, text := range texts {
		var err error
		if fields[i], err = ParseExtractor(text); err != nil {
			return nil, err
		}
	}
	return FingerprintFields(fields...), nil
}

// digest is the SHA-256 of a list of parts.
type digest struct {
	hash hash.Hash
	size [8]byte // of a part
	out  [sha256.Size]byte
}

// digests holds the digests that are not in use.
var digests = sync.Pool{New: func() any { return &digest{hash: sha256.New()} }}

func newDigest() *digest {
	h := digests.Get().(*digest)
	h.hash.Reset()
	return h
}

// add adds a part and, before it, its length: "a"+"bc" and "ab"+"c" differ.
func (h *digest) add(part []byte) {
	binary.BigEndian.PutUint64(h.size[:], uint64(len(part)))
	_, _ = h.hash.Write(h.size[:]) // a hash never fails
	_, _ = h.hash.Write(part)
}

// sum returns the digest, which is not used again.
func (h *digest) sum() [sha256.Size]byte {
	sum := [sha256.Size]byte(h.hash.Sum(h.out[:0]))
	digests.Put(h)
	return sum
}
