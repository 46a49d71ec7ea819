package producer

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

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

func (k IdempotencyKey) field() string {
	if k.Field == "" {
		return defaultKeyField
	}
	return k.Field
}

// Extract returns the identifier without its quotes.
func (k IdempotencyKey) Extract(d *Delivery) (string, error) {
	if len(d.Request.Header.Values(k.field())) == 0 {
		return "", nil
	}
	line, err := singleLine(d, k.field())
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
	errKeyEmpty  = verify.Public("an empty key")
	errKeySyntax = verify.Public("not a string (RFC 9651 section 3.3.3)")
	errKeyBare   = verify.Public("not a string (RFC 9651 section 3.3.3) and not one bare word")
	errKeyLong   = verify.Public("longer than 1,024 characters") // MaxKey
)

func (k IdempotencyKey) parse(line string) (string, error) {
	if line == "" || len(line) > 8*MaxKey {
		return "", errLongOrNil(line)
	}
	id := line
	if line[0] == '"' || k.Strict {
		item, err := httpsfv.UnmarshalItem([]string{line})
		text, ok := item.Value.(string)
		if err != nil || !ok {
			return "", errKeySyntax
		}
		id = text
	} else if strings.ContainsFunc(line, notBare) {
		return "", errKeyBare
	}
	if len(id) > MaxKey {
		return "", errKeyLong
	}
	return id, nil
}

func errLongOrNil(line string) error {
	if line == "" {
		return nil
	}
	return errKeyLong
}

func notBare(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`",;\`, r)
}

// Raw returns the field value as received.
func (k IdempotencyKey) Raw(d *Delivery) string { return d.Request.Header.Get(k.field()) }

// Consumes lists the field.
func (k IdempotencyKey) Consumes() []string { return []string{strings.ToLower(k.field())} }

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
var KeyFormatUUID KeyFormat = uuidFormat{}

type uuidFormat struct{}

func (f uuidFormat) Check(id string) error {
	ok := len(id) == 36
	for i := 0; ok && i < len(id); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			ok = id[i] == '-'
			continue
		}
		ok = strings.IndexByte("0123456789abcdefABCDEF", id[i]) >= 0
	}
	if !ok {
		return notOf(f)
	}
	return nil
}

func (uuidFormat) String() string { return "a UUID (RFC 9562 section 4)" }

// KeyFormatRegexp returns the format of identifiers that match the whole expression.
func KeyFormatRegexp(expr string) (KeyFormat, error) {
	re, err := regexp.Compile(`\A(?:` + expr + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("key format: %w", err)
	}
	return regexpFormat{expr, re}, nil
}

type regexpFormat struct {
	expr string
	re   *regexp.Regexp
}

func (f regexpFormat) Check(id string) error {
	if !f.re.MatchString(id) {
		return notOf(f)
	}
	return nil
}

func (f regexpFormat) String() string { return "of the form " + f.expr }

func notOf(f KeyFormat) error { return verify.Public("not " + f.String()) }

// lengthError returns tooLong for a text of more than limit characters, or more bytes than
// those can have.
func lengthError(text string, limit int, tooLong error) error {
	if utf8.RuneCountInString(text) > limit || len(text) > utf8.UTFMax*limit {
		return tooLong
	}
	return nil
}
