package wire

import (
	"encoding/binary"
	"slices"
)

// words are the strings that a description can refer to with one byte: common ones, and the first
// strings of the description itself, which names a principal, an endpoint and an identifier
// several times.
//
//	a string           2 * its length, and the string
//	one of the words   2 * its number + 1
type words struct {
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
func (w *words) add(s string) {
	if len(s) > 1 && w.count < saidMost {
		w.said[w.count] = s
		w.count++
	}
}

// word is a string, or the number of a word.
func (c *Codec) word(s *string) {
	w := &c.words
	if c.Decodes {
		*s = c.wordOf(int(c.uvarint())) //nolint:gosec // compared
		return
	}
	n, known := commonNumber[*s]
	if !known {
		n = len(common) + slices.Index(w.said[:w.count], *s)
		known = n >= len(common)
	}
	if known {
		c.B = append(c.B, byte(2*n+1))
		return
	}
	w.add(*s)
	c.B = append(binary.AppendUvarint(c.B, 2*uint64(len(*s))), *s...)
}

// wordOf returns the string that begins with a code, or the word with the number.
func (c *Codec) wordOf(code int) string {
	n := code >> 1
	switch said := n - len(common); {
	case code&1 == 0:
		s := c.take(n)
		c.words.add(s)
		return s
	case n >= 0 && said < 0:
		return common[n]
	case said >= 0 && said < c.words.count:
		return c.words.said[said]
	}
	c.fail()
	return ""
}
