package producer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// Extractor reads one string from a delivery.
type Extractor interface {
	// Extract returns the value, or "" if there is none. A value that must not be used is a
	// *verify.Error: it is malformed, or ambiguous because its field or JSON member occurs twice.
	Extract(*Delivery) (string, error)
	// Consumes lists the parts of the request that are read: header fields in lower case,
	// "@query" and "@body". Only a signature that covers all of them authenticates the value.
	// Claims of a verified token are not listed, because the scheme authenticates them.
	Consumes() []string
	// String returns the extractor in the syntax of the configuration, such as
	// "header:X-GitHub-Delivery".
	String() string
}

// RawExtractor is an Extractor that knows the octets its value came from, for forwarding.
type RawExtractor interface {
	Extractor
	// Raw returns the field value as received, or "".
	Raw(*Delivery) string
}

// maxValue limits an extracted value, in bytes as written.
const maxValue = 4_096

var errTooLong = verify.Public("value over 4,096 bytes") // maxValue

// Header reads a header field. A field on several lines is refused (ambiguous_field), because
// readers of the request might choose different lines.
func Header(name string) Extractor {
	return headerField{
		name: name, canonical: http.CanonicalHeaderKey(name), consumes: &[1]string{strings.ToLower(name)},
	}
}

type headerField struct {
	name      string // as given
	canonical string
	consumes  *[1]string
}

func (h headerField) Extract(d *Delivery) (string, error) {
	return singleLine(d.Request.Header[h.canonical], h.canonical)
}

func (h headerField) Consumes() []string { return h.consumes[:] }
func (h headerField) String() string     { return "header:" + h.name }

// singleLine returns the only one of the lines of a field, without optional white space, or "" if
// there is none.
func singleLine(lines []string, name string) (string, error) {
	switch len(lines) {
	case 0:
		return "", nil
	case 1:
		return verify.TrimOWS(lines[0]), nil
	}
	return "", &verify.Error{Code: verify.AmbiguousField, Component: strings.ToLower(name)}
}

// Query reads a parameter of the URL's query. A parameter that occurs twice is refused
// (ambiguous_field).
func Query(name string) Extractor { return queryParam(name) }

type queryParam string

func (q queryParam) Extract(d *Delivery) (string, error) {
	return singleParam(d.Request.URL.RawQuery, string(q))
}

func (q queryParam) Consumes() []string { return []string{"@query"} }
func (q queryParam) String() string     { return "query:" + string(q) }

// Form reads a member of a form: of an application/x-www-form-urlencoded body, or one that is no
// file of a multipart/form-data body (RFC 7578) of at most 256 parts. Other bodies have none. A
// member that occurs twice or is a file is refused (ambiguous_field), and so is a multipart body
// that is not a form (media_type_unsupported).
func Form(name string) Extractor { return formMember(name) }

type formMember string

func (f formMember) Extract(d *Delivery) (string, error) {
	switch kind, params := mediaType(d); kind {
	case formMedia:
		return singleParam(string(d.Body), string(f))
	case multipartMedia:
		value, err := multipartValue(d.Body, params["boundary"], string(f))
		if err == nil && len(value) > maxValue {
			err = &verify.Error{Code: verify.EventMalformed, Component: string(f), Err: errTooLong}
		}
		return string(value), err
	}
	return "", nil
}

func (f formMember) Consumes() []string { return []string{"content-type", "@body"} }
func (f formMember) String() string     { return "form:" + string(f) }

// mediaType returns the media type of the body in lower case and its parameters, or "".
func mediaType(d *Delivery) (kind string, params map[string]string) {
	kind, params, err := mime.ParseMediaType(d.Request.Header.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return "", nil
	}
	return kind, params
}

// singleParam finds one parameter of a query or form without a map of all.
func singleParam(encoded, name string) (string, error) {
	malformed := &verify.Error{Code: verify.EventMalformed, Component: name}
	value, seen := "", false
	for pair := range strings.SplitSeq(encoded, "&") {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		if got, err := url.QueryUnescape(rawName); err != nil {
			return "", malformed
		} else if got != name || pair == "" {
			continue
		}
		if seen {
			return "", &verify.Error{Code: verify.AmbiguousField, Component: name}
		}
		var err error
		if value, err = url.QueryUnescape(rawValue); err != nil || len(value) > maxValue {
			return "", malformed
		}
		seen = true
	}
	return value, nil
}

// Const returns the same string for every delivery.
func Const(value string) Extractor { return constant(value) }

type constant string

func (c constant) Extract(*Delivery) (string, error) { return string(c), nil }
func (c constant) Consumes() []string                { return nil }
func (c constant) String() string                    { return "const:" + string(c) }

// BodyDigest returns "sha256:" and the SHA-256 of the body as received, in hex, or of the signed
// content where other bodies have the same signature. It identifies events of senders without
// identifiers.
func BodyDigest() Extractor { return bodyDigest{} }

type bodyDigest struct{}

func (bodyDigest) Extract(d *Delivery) (string, error) {
	if d.Identity.Malleable && d.Identity.Stable != nil {
		return sha256ID(d.Identity.Stable), nil
	}
	return digestID(d.Body), nil
}

func (bodyDigest) Consumes() []string { return []string{"@body"} }
func (bodyDigest) String() string     { return "digest:body" }

func digestID(b []byte) string {
	sum := sha256.Sum256(b)
	return sha256ID(sum[:])
}

// sha256ID is the identifier of what has the digest.
func sha256ID(digest []byte) string {
	text := append(make([]byte, 0, len("sha256:")+2*sha256.Size), "sha256:"...)
	return string(hex.AppendEncode(text, digest))
}

// First returns the value of the first part that has one. An error of an earlier part is an
// error: a part that must not be used does not make the next one trustworthy.
func First(parts ...Extractor) Extractor { return first(parts) }

type first []Extractor

func (f first) Extract(d *Delivery) (string, error) {
	value, _, err := f.extractKind(d)
	return value, err
}

func (f first) extractKind(d *Delivery) (value string, kind valueKind, err error) {
	for _, part := range f {
		if value, kind, err = extractKind(part, d); value != "" || err != nil {
			break
		}
	}
	return value, kind, err
}

// Raw returns the octets the value came from, if its part is a RawExtractor.
func (f first) Raw(d *Delivery) string {
	for _, part := range f {
		v, err := part.Extract(d)
		if v == "" && err == nil {
			continue
		}
		if raw, ok := part.(RawExtractor); ok && err == nil {
			return raw.Raw(d)
		}
		return ""
	}
	return ""
}

func (f first) Consumes() []string { return consumesAll(f) }
func (f first) String() string     { return formatAll(f, firstSeparator) }

// Join returns its parts with ":" between them, or "" if one is empty. Different lists of
// values never join to the same string: in every part but the last "%" and ":" become "%25" and
// "%3A", so "a"+"b:c" differs from "a:b"+"c". A result of more than 1,024 characters is
// replaced by its SHA-256.
func Join(parts ...Extractor) Extractor { return join(parts) }

type join []Extractor

func (j join) Extract(d *Delivery) (string, error) {
	values := make([]string, len(j))
	for i, part := range j {
		v, err := part.Extract(d)
		if v == "" || err != nil {
			return "", err
		}
		values[i] = v
	}
	return JoinID(values...), nil
}

func (j join) Consumes() []string { return consumesAll(j) }
func (j join) String() string     { return formatAll(j, joinSeparator) }

// joinEscapes keeps the separator out of parts.
var joinEscapes = strings.NewReplacer("%", "%25", ":", "%3A")

// JoinID makes one identifier of several values, as [Join] does.
func JoinID(values ...string) string {
	var b strings.Builder
	for i, v := range values {
		if i == len(values)-1 {
			b.WriteString(v)
			break
		}
		b.WriteString(joinEscapes.Replace(v))
		b.WriteByte(':')
	}
	if b.Len() > MaxKey {
		return digestID([]byte(b.String()))
	}
	return b.String()
}

func consumesAll(parts []Extractor) []string {
	var all []string
	for _, part := range parts {
		all = append(all, part.Consumes()...)
	}
	return all
}

func formatAll(parts []Extractor, between string) string {
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = part.String()
	}
	return strings.Join(texts, between)
}
