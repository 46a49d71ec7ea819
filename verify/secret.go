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

// Secret is a shared secret as the producer shows it. It prints as <secret> through fmt, encoding/json,
// encoding.TextMarshaler and log/slog; string(s) is the only way to its value. Keep it in exported fields or
// behind a pointer: fmt prints the private fields of a struct without calling the methods of their types.
type Secret string

// redacted is what stands in for a secret.
const redacted = "<secret>"

// String returns <secret>.
func (Secret) String() string { return redacted }

// GoString returns <secret>.
func (Secret) GoString() string { return redacted }

// Format writes <secret> whatever the verb, so that not even %d shows the value.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns <secret>; a dump of the configuration shows that a secret is set and not which.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns <secret>.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// Decode returns the bytes of a secret that is written in an encoding. Errors do not quote the value.
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
		if strings.HasPrefix(v, "whpk_") || strings.HasPrefix(v, "whsk_") {
			return nil, errors.New("is an Ed25519 key and no shared secret")
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

// Encoding says how bytes are written as text. It is never guessed: text of the wrong encoding is refused.
type Encoding string

// The encodings of signatures (Hex, Base64) and of secrets (all of them).
const (
	// Raw is the text itself.
	Raw Encoding = "raw"
	// Hex is hexadecimal of either case.
	Hex Encoding = "hex"
	// Base64 is RFC 4648 section 4 with its padding.
	Base64 Encoding = "base64"
	// Whsec is the form of Standard Webhooks: "whsec_", which may be missing, and base64 whose padding may be
	// missing and whose last bits may be left over. It is for secrets only.
	Whsec Encoding = "whsec"
)

// decode appends the bytes that the text stands for to dst. It accepts one spelling of the encoding only: no
// line breaks, no missing padding, no stray bits, so that two texts are never one signature (but for the case
// of hexadecimal digits).
func (e Encoding) decode(dst []byte, text string) ([]byte, bool) {
	switch e {
	case Hex:
		out, err := hex.AppendDecode(dst, []byte(text))
		return out, err == nil && len(text) > 0
	case Base64:
		return decodeBase64(base64.StdEncoding.Strict(), dst, text)
	}
	return nil, false
}

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
