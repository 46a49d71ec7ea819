package verify

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Secret is a shared secret as the producer shows it. It prints as <secret> through fmt,
// encoding/json, encoding.TextMarshaler and log/slog; only string(s) returns its value. Keep it in
// exported fields or behind a pointer: fmt prints unexported fields without calling their methods.
type Secret string

const redacted = "<secret>"

// String returns <secret>.
func (Secret) String() string { return redacted }

// GoString returns <secret>.
func (Secret) GoString() string { return redacted }

// Format writes <secret> for every verb, even %d.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns <secret>: a dump of the configuration shows only that a secret is set.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns <secret>.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// Decode returns the bytes of the secret, which is written in an encoding. Errors do not quote it.
func (s Secret) Decode(enc Encoding) ([]byte, error) {
	v := string(s)
	if v == "" {
		return nil, errors.New("is empty")
	}
	if strings.TrimSpace(v) != v {
		return nil, errors.New("begins or ends with white space")
	}
	var out []byte
	var ok bool
	switch enc {
	case Raw:
		return []byte(v), nil
	case Hex, Base64:
		out, ok = enc.decode(nil, v)
	case Whsec:
		if strings.HasPrefix(v, "v1,") {
			return nil, errors.New(`begins with "v1,", which belongs to a signature: leave it out`)
		}
		if strings.HasPrefix(v, "whpk_") || strings.HasPrefix(v, "whsk_") {
			return nil, errors.New("is an Ed25519 key, not a shared secret")
		}
		v = strings.TrimRight(strings.TrimPrefix(v, "whsec_"), "=")
		if out, ok = decodeBase64(base64.RawStdEncoding, nil, v); !ok {
			return nil, errors.New(`has no base64 after "whsec_", as Standard Webhooks writes secrets`)
		}
	default:
		return nil, fmt.Errorf("has the unknown encoding %q", string(enc))
	}
	if !ok || len(out) == 0 {
		return nil, fmt.Errorf("is not %s", string(enc))
	}
	return out, nil
}

// Secrets converts strings to secrets.
func Secrets(values ...string) []Secret {
	out := make([]Secret, len(values))
	for i, v := range values {
		out[i] = Secret(v)
	}
	return out
}

// Encoding is how bytes are written as text. It is never guessed: text in another encoding is
// refused.
type Encoding string

// The encodings of signatures (Hex, Base64) and of secrets (all of them).
const (
	Raw    Encoding = "raw"    // the text itself
	Hex    Encoding = "hex"    // hexadecimal of either case
	Base64 Encoding = "base64" // RFC 4648 section 4 with its padding
	// Base64URL is RFC 4648 section 5, with its padding or without. It is for [RFC9421] only.
	Base64URL Encoding = "base64url"
	// Whsec is the form of Standard Webhooks: an optional "whsec_" and base64, whose padding is
	// optional and whose last bits may be left over. It is for secrets only.
	Whsec Encoding = "whsec"
)

// decode appends the decoded text to dst. The text must be written in the one canonical way,
// without line breaks, missing padding or stray bits. Two texts are then never one signature,
// except for the case of hexadecimal digits.
func (e Encoding) decode(dst []byte, text string) ([]byte, bool) {
	switch e {
	case Hex:
		out, err := hex.AppendDecode(dst, []byte(text))
		return out, err == nil && len(text) > 0
	case Base64:
		return decodeBase64(strictBase64, dst, text)
	}
	return nil, false
}

var strictBase64 = base64.StdEncoding.Strict()

func decodeBase64(enc *base64.Encoding, dst []byte, text string) ([]byte, bool) {
	if text == "" || strings.ContainsAny(text, "\r\n") { // which encoding/base64 skips
		return nil, false
	}
	out, err := enc.AppendDecode(dst, []byte(text))
	return out, err == nil
}

// encode is the inverse of decode.
func (e Encoding) encode(b []byte) string {
	if e == Hex {
		return hex.EncodeToString(b)
	}
	return base64.StdEncoding.EncodeToString(b)
}
