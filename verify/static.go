package verify

import (
	"errors"
	"net/http"
)

// Place says where a request carries a shared credential.
type Place string

// The places of a [Static] credential.
const (
	// InHeader is the header field Name.
	InHeader Place = "header"
	// InQuery is the query parameter Name.
	InQuery Place = "query"
	// InBasic is the password of RFC 7617, with Username as the user.
	InBasic Place = "basic"
	// InBearer is a bearer token (RFC 6750 section 2.1), or the query parameter Name when Name is set and the
	// field is absent (section 2.3).
	InBearer Place = "bearer"
)

// Static checks a shared credential that is sent as it is. It proves who sent a request and nothing about its
// bytes: Identity.Signed is nil and nothing is covered. Values are compared in constant time.
//
// A request without the credential is refused with credentials_missing, one with another credential with
// credentials_mismatch, and one that carries it twice with ambiguous_field.
type Static struct {
	// In is where the credential stands. Required.
	In Place
	// Name of the header field or query parameter.
	Name string
	// Username for InBasic.
	Username string
	// Secrets, of which any may match; several while they are changed. At least one is required.
	Secrets []Secret
}

// Check reports every mistake of the description.
func (s *Static) Check() error { return errors.New("not built yet") }

// Verify implements [Scheme].
func (s *Static) Verify(r *http.Request, _ func() ([]byte, error)) (Identity, error) {
	return Identity{}, &Error{Code: KeysUnavailable, Err: s.Check()}
}

// All demands that every scheme accepts the request, such as two query parameters, or basic authentication
// and a signature. The identity holds what the schemes prove together.
type All []Scheme
