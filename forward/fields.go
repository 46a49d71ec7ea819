package forward

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"strings"
)

// Key returns the value of Idempotency-Key for an event: the field as the producer sent it, octet for octet
// (section 9.7 of the draft), else the identifier as a structured-field string (RFC 9651 section 3.3.3), else,
// for what no such string can hold, its digest.
func Key(field, id string) string {
	if field != "" {
		return field
	}
	if strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) {
		sum := sha256.Sum256([]byte(id))
		return `"sha-256:` + hex.EncodeToString(sum[:]) + `"`
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(id) + `"`
}

// hopByHop are fields that are not sent on: those of one connection (RFC 9110 section 7.6.1), those that our
// own request sets, those that tell of the way here (and all that begin with [wayHere]), credentials, signatures
// over the request as it came to us, which cannot hold for another URL, and digests, since the body may be one
// item of what came.
func hopByHop() []string {
	return []string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Http2-Settings", "Host", "Content-Length", "Accept-Encoding", "Expect", "Early-Data",
		"Authorization", "Cookie", "Via", "Forwarded", "X-Real-Ip", "Signature", "Signature-Input", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5",
	}
}

// wayHere begins the fields with which proxies tell of the client: its address, and with some of them who it is.
// A target believes them of us.
const wayHere = "X-Forwarded-"

// fields returns the fields of the request to the target.
func fields(ev Event) http.Header {
	h := ev.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	for _, line := range h.Values("Connection") { // it names more of its kind
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop() {
		h.Del(name)
	}
	maps.DeleteFunc(h, func(name string, _ []string) bool { return strings.HasPrefix(http.CanonicalHeaderKey(name), wayHere) })
	h["Idempotency-Key"] = []string{ev.Key}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "eyelet")
	}
	return h
}
