package producer

import (
	"errors"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/verify"
)

// JSON reads a string, number or boolean of a JSON body at a path of member names:
// "data.object.id". In an array a decimal name is an index. A dot within a name is written
// `\.`. Numbers are returned as written.
//
// There is no value if the body is not JSON, or if the path leads nowhere or to null, an object
// or an array. A member of the path that occurs twice, with or without escapes, is refused
// (ambiguous_field). So are bodies nested deeper than 256 and values over 4,096 bytes
// (event_malformed).
func JSON(path string) Extractor { return jsonMember{path: path, names: splitPath(path)} }

type jsonMember struct {
	path  string
	names []string
}

func (j jsonMember) Extract(d *Delivery) (string, error) {
	value, _, err := j.extractKind(d)
	return value, err
}

func (j jsonMember) extractKind(d *Delivery) (string, valueKind, error) {
	return scalarAt(d.document(), j.path, j.names)
}

func (j jsonMember) Consumes() []string { return []string{"@body"} }
func (j jsonMember) String() string     { return "json:" + j.path }

// JWT reads a claim of the verified token at a path, as [JSON] does. It never reads unverified
// tokens.
func JWT(claim string) Extractor { return jwtClaim{path: claim, names: splitPath(claim)} }

type jwtClaim struct {
	path  string
	names []string
}

func (c jwtClaim) Extract(d *Delivery) (string, error) {
	value, _, err := c.extractKind(d)
	return value, err
}

func (c jwtClaim) extractKind(d *Delivery) (string, valueKind, error) {
	return scalarAt(newDocument(d.Identity.Claims), c.path, c.names)
}

// Consumes lists nothing: the scheme verified the token.
func (c jwtClaim) Consumes() []string { return nil }
func (c jwtClaim) String() string     { return "jwt:" + c.path }

// splitPath splits a path at its dots; `\.` is a dot within a name, as is any other character of a
// path syntax.
func splitPath(path string) []string {
	var names []string
	var name strings.Builder
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] == '\\' && i+1 < len(path) && strings.IndexByte(`.\*[$#/`, path[i+1]) >= 0:
			i++
			name.WriteByte(path[i])
		case path[i] == '.':
			names = append(names, name.String())
			name.Reset()
		default:
			name.WriteByte(path[i])
		}
	}
	return append(names, name.String())
}

// valueKind is the kind of a value in JSON. Values from elsewhere are texts.
type valueKind byte

const (
	kindText valueKind = iota
	kindNumber
	kindBoolean
)

// kindOf returns the kind of a string, number or boolean of JSON by its first character.
func kindOf(first byte) valueKind {
	switch first {
	case 't', 'f':
		return kindBoolean
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return kindNumber
	}
	return kindText
}

// kindExtractor is an Extractor of JSON, whose values have kinds.
type kindExtractor interface {
	Extractor
	extractKind(d *Delivery) (string, valueKind, error)
}

// hasKinds reports whether the values of an extractor may be other than text.
func hasKinds(x Extractor) bool {
	if f, ok := x.(first); ok {
		return slices.ContainsFunc(f, hasKinds)
	}
	_, ok := x.(kindExtractor)
	return ok
}

// extractKind returns the value of an extractor with its kind.
func extractKind(x Extractor, d *Delivery) (value string, kind valueKind, err error) {
	if x, ok := x.(kindExtractor); ok {
		return x.extractKind(d)
	}
	value, err = x.Extract(d)
	return value, kindText, err
}

// scalarAt returns the string, number or boolean at a path, see [JSON].
func scalarAt(doc *document, path string, names []string) (value string, kind valueKind, err error) {
	raw, err := doc.at(names)
	if errors.Is(err, strictjson.ErrSyntax) || err == nil && raw == nil {
		return "", kindText, nil
	}
	if err == nil && len(raw) > maxValue && raw[0] != '{' && raw[0] != '[' {
		err = errTooLong
	}
	if err == nil {
		if value, err = strictjson.Scalar(raw); err == nil {
			return value, kindOf(raw[0]), nil
		}
	}
	code := verify.EventMalformed
	if errors.Is(err, strictjson.ErrDuplicate) {
		code = verify.AmbiguousField
	}
	return "", kindText, &verify.Error{Code: code, Component: path, Err: err}
}
