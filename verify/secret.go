package verify

import (
	"fmt"
	"io"
	"log/slog"
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

// Decode returns the bytes that the secret stands for in an encoding. Errors say what is wrong and nothing of the value.
func (s Secret) Decode(enc Encoding) ([]byte, error) { return decodeSecret(s, enc) }

// Secrets converts strings to secrets.
func Secrets(values ...string) []Secret {
	out := make([]Secret, len(values))
	for i, v := range values {
		out[i] = Secret(v)
	}
	return out
}
