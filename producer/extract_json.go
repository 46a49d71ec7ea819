package producer

import (
	"errors"
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

// scalarAt returns the string, number or boolean at a path, see [JSON].
func scalarAt(doc *document, path string, names []string) (string, error) {
	raw, err := doc.at(names)
	if errors.Is(err, strictjson.ErrSyntax) || err == nil && raw == nil {
		return "", nil
	}
	if err == nil && len(raw) > maxValue && raw[0] != '{' && raw[0] != '[' {
		err = errTooLong
	}
	if err == nil {
		var value string
		if value, err = strictjson.Scalar(raw); err == nil {
			return value, nil
		}
	}
	code := verify.EventMalformed
	if errors.Is(err, strictjson.ErrDuplicate) {
		code = verify.AmbiguousField
	}
	return "", &verify.Error{Code: code, Component: path, Err: err}
}
