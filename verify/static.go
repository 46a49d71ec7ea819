package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"
)

// Place is where a request carries a shared credential.
type Place string

// The places of a [Static] credential.
const (
	InHeader Place = "header" // the header field Name
	InQuery  Place = "query"  // the query parameter Name
	InBasic  Place = "basic"  // the password of RFC 7617, with Username as the user
	// InBearer is a bearer token (RFC 6750 section 2.1), or the query parameter Name if Name is
	// set and the field is absent (section 2.3).
	InBearer Place = "bearer"
)

// Static checks a shared credential. It proves who sent a request and nothing about its bytes:
// Identity.Signed is nil and nothing is covered. Values are compared in constant time.
//
// A request without the credential is refused with credentials_missing, a wrong one with
// credentials_mismatch, and a repeated one with ambiguous_field.
type Static struct {
	In       Place    // where the credential is; required
	Name     string   // of the header field or query parameter
	Username string   // for InBasic
	Secrets  []Secret // the accepted values, at least one; several during a rotation
}

// Basic requires basic authentication (RFC 7617).
func Basic(username string, passwords ...string) *Static {
	return &Static{In: InBasic, Username: username, Secrets: Secrets(passwords...)}
}

// HeaderValue requires a header field with a secret value.
func HeaderValue(name string, values ...string) *Static {
	return &Static{In: InHeader, Name: name, Secrets: Secrets(values...)}
}

// QueryValue requires a query parameter with a secret value.
func QueryValue(name string, values ...string) *Static {
	return &Static{In: InQuery, Name: name, Secrets: Secrets(values...)}
}

// BearerToken requires one of fixed bearer tokens (RFC 6750). For signed tokens see [JWT].
func BearerToken(tokens ...string) *Static {
	return &Static{In: InBearer, Secrets: Secrets(tokens...)}
}

// Check reports all errors of the description.
func (s *Static) Check() error {
	var errs errorList
	switch s.In {
	case InHeader:
		if !IsToken(s.Name) {
			errs = append(errs, fmt.Errorf("credential: %q is not a field name", s.Name))
		}
	case InQuery:
		errs.addIf(s.Name == "", "credential: the query parameter has no name")
	case InBasic:
		errs.addIf(strings.Contains(s.Username, ":"), "credential: a user name holds no colon (RFC 7617 section 2)")
	case InBearer:
	default:
		errs = append(errs, fmt.Errorf("credential: %q is not header, query, basic or bearer", string(s.In)))
	}
	errs.addIf(len(s.Secrets) == 0, "credential: no secret is set")
	for i, v := range s.Secrets {
		if _, err := v.Decode(Raw); err != nil {
			errs = append(errs, fmt.Errorf("credential: secret %d of %d %w", i+1, len(s.Secrets), err))
		}
	}
	return errors.Join(errs...)
}

// Verify implements [Scheme]. It does not read the body.
func (s *Static) Verify(r *http.Request, _ func() ([]byte, error)) (Identity, error) {
	if err := s.Check(); err != nil {
		return Identity{}, &Error{Code: KeysUnavailable, Err: err}
	}
	got, err := s.credential(r)
	if err != nil {
		return Identity{}, err
	}
	before := ""
	if s.In == InBasic {
		before = s.Username + ":"
	}
	secret := 0
	for i, v := range s.Secrets {
		secret = subtle.ConstantTimeSelect(equalText(got, before+string(v)), i+1, secret)
	}
	if secret == 0 {
		return Identity{}, &Error{Code: CredentialsMismatch, Component: s.component()}
	}
	return Identity{Secret: secret}, nil
}

// Sign sets the first secret on r.
func (s *Static) Sign(r *http.Request, _ []byte, _ time.Time) error {
	if err := s.Check(); err != nil {
		return err
	}
	v := string(s.Secrets[0])
	switch s.In {
	case InHeader:
		r.Header.Set(s.Name, v)
	case InBasic:
		r.SetBasicAuth(s.Username, v)
	case InBearer:
		r.Header.Set("Authorization", "Bearer "+v)
	case InQuery:
		q := r.URL.Query()
		q.Set(s.Name, v)
		r.URL.RawQuery = q.Encode()
	}
	return nil
}

// String describes the scheme for the policy.
func (s *Static) String() string {
	switch s.In {
	case InBasic:
		return "basic authentication (RFC 7617)"
	case InBearer:
		return "a fixed bearer token (RFC 6750)"
	case InQuery:
		return fmt.Sprintf("a fixed value of the query parameter %s", s.Name)
	default:
		return fmt.Sprintf("a fixed value of the field %s", s.Name)
	}
}

// equalText compares digests, so the time does not reveal even the length of a secret.
func equalText(a, b string) int {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:])
}

func (s *Static) component() string {
	if s.In == InBasic || s.In == InBearer {
		return "Authorization"
	}
	return s.Name
}

// credential returns the credential of the request, "user:password" for basic authentication.
func (s *Static) credential(r *http.Request) (string, error) {
	var got string
	var err error
	switch s.In {
	case InHeader:
		got, _, err = field(r, textproto.CanonicalMIMEHeaderKey(s.Name))
	case InQuery:
		got, err = QueryParam(r, s.Name)
	case InBasic:
		var encoded string
		if encoded, err = authorization(r, "Basic"); encoded != "" {
			b, bad := base64.StdEncoding.DecodeString(encoded)
			if bad != nil {
				return "", &Error{Code: CredentialsMismatch, Component: s.component()}
			}
			got = string(b)
		}
	case InBearer:
		got, err = s.bearer(r)
	}
	if err == nil && got == "" {
		err = &Error{Code: CredentialsMissing, Component: s.component()}
	}
	return got, err
}

func (s *Static) bearer(r *http.Request) (string, error) {
	got, err := authorization(r, "Bearer")
	if err != nil || s.Name == "" {
		return got, err
	}
	inQuery, err := QueryParam(r, s.Name)
	if err == nil && got != "" && inQuery != "" { // RFC 6750 section 2: only one method
		err = &Error{Code: AmbiguousField, Component: s.Name}
	}
	return got + inQuery, err
}

// authorization returns the credentials of the Authorization field if they are of the scheme.
func authorization(r *http.Request, scheme string) (string, error) {
	value, _, err := field(r, "Authorization")
	got, rest, _ := strings.Cut(value, " ")
	if err != nil || !strings.EqualFold(got, scheme) {
		return "", err
	}
	return TrimOWS(rest), nil
}

// QueryParam returns a parameter of the query, or "" if there is none. One that occurs twice is an
// error (ambiguous_field). Parts of the query that do not parse are not parameters. It builds no
// map of the query, in which an unauthenticated client can send thousands of parameters.
func QueryParam(r *http.Request, name string) (string, error) {
	found, times := "", 0
	for rest, more := r.URL.RawQuery, true; more; {
		var pair string
		pair, rest, more = strings.Cut(rest, "&")
		key, raw, _ := strings.Cut(pair, "=")
		if len(key) < len(name) || len(key) > len("%41")*len(name) || strings.IndexByte(pair, ';') >= 0 {
			continue
		}
		key, err := url.QueryUnescape(key)
		if err != nil || key != name {
			continue
		}
		if value, err := url.QueryUnescape(raw); err == nil {
			found = value
			times++
		}
	}
	if times > 1 {
		return "", &Error{Code: AmbiguousField, Component: name}
	}
	return found, nil
}

// Binds implements [Binder]: a shared credential binds nothing.
func (s *Static) Binds() Binding { return Binding{} }
