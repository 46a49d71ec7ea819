package wire

import (
	"encoding/binary"
	"slices"
)

// Words are the strings that a description can refer to with one byte: common ones, and the first
// strings of the description itself, which names a principal, an endpoint and an identifier
// several times.
//
//	a string           2 * its length, and the string
//	one of the words   2 * its number + 1
type Words struct {
	said  [saidMost]string
	count int
}

// saidMost is how many strings of a description are words. With the common ones they are 64, whose
// numbers fit into one byte.
const saidMost = 16

// common are words of every description. A change of them is another version of the content.
var common = [...]string{
	"POST", "PUT", "nonce", "signed", "series", "slot", "sent", "application/json", "application/json; charset=utf-8",
	"application/x-www-form-urlencoded", "application/cloudevents+json", "text/plain", "*/*", "gzip", "gzip, deflate",
	"keep-alive", "Accept", "Accept-Encoding", "Cf-Ray", "Connection", "Content-Digest", "Content-Length",
	"Content-Type", "Date", "Forwarded", "Idempotency-Key", "Priority", "Signature-Input", "Te", "Traceparent",
	"Tracestate", "User-Agent", "Via", "Webhook-Id", "Webhook-Signature", "Webhook-Timestamp", "X-Forwarded-For",
	"X-Forwarded-Host", "X-Forwarded-Proto", "X-Github-Delivery", "X-Github-Event", "X-Github-Hook-Id",
	"X-Hub-Signature-256", "X-Real-Ip", "X-Request-Id", "X-Shopify-Topic", "X-Shopify-Webhook-Id", "X-Forwarded-Port",
}

var commonNumber = func() map[string]int {
	numbers := make(map[string]int, len(common))
	for i, s := range common {
		numbers[s] = i
	}
	return numbers
}()

// add makes a string of the description a word, if it is worth a number.
func (w *Words) add(s string) {
	if len(s) > 1 && w.count < saidMost {
		w.said[w.count] = s
		w.count++
	}
}

// Append appends a string, or the number of a word.
func (w *Words) Append(b []byte, s string) []byte {
	if n, ok := commonNumber[s]; ok {
		return append(b, byte(2*n+1))
	}
	if n := slices.Index(w.said[:w.count], s); n >= 0 {
		return append(b, byte(2*(len(common)+n)+1))
	}
	w.add(s)
	return append(binary.AppendUvarint(b, 2*uint64(len(s))), s...)
}

// of decodes what Append wrote.
func (w *Words) of(d *Decoder) string {
	n := d.Uvarint()
	number := int(n >> 1) //nolint:gosec // at most 2^63-1
	switch said := number - len(common); {
	case n&1 == 0:
		s := d.Take(number)
		w.add(s)
		return s
	case said < 0:
		return common[number]
	case said < w.count:
		return w.said[said]
	}
	d.Bad, d.S = true, ""
	return ""
}
