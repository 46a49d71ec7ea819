package producer

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/eyelet-dev/eyelet/verify"
)

// MaxKey is the maximum length of an idempotency identifier, in characters. Parsers must
// support strings of 1,024 (RFC 9651 section 3.3.3).
const MaxKey = 1024

const defaultKeyField = "Idempotency-Key"

// IdempotencyKey reads the Idempotency-Key field (draft-ietf-httpapi-idempotency-key-header
// section 2.1): a structured-field String (RFC 9651 section 3.3.3). The text between the quotes
// is the identifier; parameters are ignored. Deployed senders omit the quotes, so a bare value
// is the same identifier unless Strict is set. Bare is 1*VCHAR without `"`, `,`, `;` and `\`.
//
// The field must be on one line (else ambiguous_field) and contain 1 to 1,024 characters. A
// value that does not parse or is longer is refused with event_malformed, an empty one with
// id_missing. Without the field there is neither a value nor an error.
type IdempotencyKey struct {
	// Field is the name of the field. Defaults to Idempotency-Key.
	Field string
	// Strict refuses values without quotes.
	Strict bool
}

func (k IdempotencyKey) field() string { return cmp.Or(k.Field, defaultKeyField) }

// Extract returns the identifier without its quotes.
func (k IdempotencyKey) Extract(d *Delivery) (string, error) {
	lines := d.Request.Header.Values(k.field())
	if len(lines) == 0 {
		return "", nil
	}
	line, err := singleLine(lines, k.field())
	if err != nil {
		return "", err
	}
	id, err := k.parse(line)
	if err != nil {
		return "", &verify.Error{Code: verify.EventMalformed, Component: strings.ToLower(k.field()), Err: err}
	}
	if id == "" {
		return "", &verify.Error{Code: verify.IDMissing, Component: strings.ToLower(k.field()), Err: errKeyEmpty}
	}
	return id, nil
}

var (
	errKeyEmpty  error = verify.Public("an empty key")
	errKeySyntax error = verify.Public("not a string (RFC 9651 section 3.3.3)")
	errKeyBare   error = verify.Public("not a string (RFC 9651 section 3.3.3) and not one bare word")
	errKeyLong   error = verify.Public("longer than 1,024 characters") // MaxKey
)

func (k IdempotencyKey) parse(line string) (string, error) {
	switch {
	case line == "":
		return "", nil
	case len(line) > 8*MaxKey:
		return "", errKeyLong
	}
	id, plain := unquote(line)
	switch {
	case plain:
	case line[0] == '"' || k.Strict:
		item, err := httpsfv.UnmarshalItem([]string{line})
		text, ok := item.Value.(string)
		if err != nil || !ok {
			return "", errKeySyntax
		}
		id = text
	case strings.ContainsFunc(line, notBare):
		return "", errKeyBare
	}
	if len(id) > MaxKey {
		return "", errKeyLong
	}
	return id, nil
}

// unquote returns the text of a String without escapes and parameters, as most are. It reports
// false for any other line, which it returns.
func unquote(line string) (text string, ok bool) {
	if len(line) < 2 || line[0] != '"' || line[len(line)-1] != '"' {
		return line, false
	}
	text = line[1 : len(line)-1]
	special := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	if strings.ContainsFunc(text, special) {
		return line, false
	}
	return text, true
}

func notBare(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`",;\`, r)
}

// Raw returns the field value as received.
func (k IdempotencyKey) Raw(d *Delivery) string { return d.Request.Header.Get(k.field()) }

// Consumes lists the field.
func (k IdempotencyKey) Consumes() []string {
	if k.Field == "" {
		return defaultKeyConsumes[:]
	}
	return []string{strings.ToLower(k.Field)}
}

var defaultKeyConsumes = [...]string{"idempotency-key"}

// String returns "idempotency-key", followed by the name of the field if it is another.
func (k IdempotencyKey) String() string {
	if strings.EqualFold(k.field(), defaultKeyField) {
		return "idempotency-key"
	}
	return "idempotency-key:" + k.field()
}

// KeyFormat is a format of identifiers. That of idempotency keys should be published
// (draft-ietf-httpapi-idempotency-key-header-07 section 5).
type KeyFormat interface {
	// Check returns an error for an identifier of another format.
	Check(id string) error
	// String completes the sentence "the identifier is", for the producer's developers.
	String() string
}

// KeyFormatUUID is the format of UUIDs (RFC 9562 section 4).
var KeyFormatUUID KeyFormat = regexpFormat{
	"a UUID (RFC 9562 section 4)", regexp.MustCompile(`\A[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\z`),
}

// ParseKeyFormat returns the format of UUIDs for uuid, else that of identifiers that match a whole
// expression.
func ParseKeyFormat(text string) (KeyFormat, error) {
	if text == "uuid" {
		return KeyFormatUUID, nil
	}
	re, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("key format: %w", err)
	}
	return regexpFormat{"of the form " + text, re}, nil
}

type regexpFormat struct {
	text string
	re   *regexp.Regexp
}

func (f regexpFormat) Check(id string) error {
	if !f.re.MatchString(id) {
		return verify.Public("not " + f.text)
	}
	return nil
}

func (f regexpFormat) String() string { return f.text }
