package verify

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Any accepts a request that one of two schemes accepts, for a sender that changes from one to the
// other. It is as weak as the weaker of them: remove that one once the sender has changed.
//
// Such a sender may sign with both, and a client can remove one of the credentials. So the identity
// has only what both schemes bind, without a principal, a nonce and the claims of a token that only
// one of them reads, and its digests are the same whichever scheme accepts. Its time is that of the
// first scheme that accepts.
//
// A refused request costs two verifications. Its error is that of the scheme whose credential the
// request has, the first of several. A scheme that cannot tell (keys_unavailable) comes first,
// since a retry may succeed.
type Any [2]Scheme

// Check reports all errors of the schemes.
func (a Any) Check() error {
	var unset error
	if a[0] == nil || a[1] == nil {
		unset = errors.New("one of two schemes is not set")
	}
	var errs []error
	for _, s := range a {
		if b := bindingOf(s); b.Malleable && b.Form == nil {
			errs = append(errs, fmt.Errorf("one of two schemes (%T) signs content without boundaries, "+
				"in which the other one does not recognise an event: use it alone", s))
		}
	}
	return errors.Join(append(errs, unset, All(a[:]).Check())...)
}

// SignsURL reports whether one of the schemes signs the URL.
func (a Any) SignsURL() bool { return All(a[:]).SignsURL() }

// AcceptSignature returns the Accept-Signature field of the first scheme that has one, else "".
func (a Any) AcceptSignature() string { return All(a[:]).AcceptSignature() }

// Verify implements [Scheme].
func (a Any) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	if err := a.Check(); err != nil {
		return Identity{}, &Error{Code: KeysUnavailable, Err: err}
	}
	id, first := a[0].Verify(r, body)
	if first == nil || CodeOf(first) == "" { // the body did not arrive
		return a.shared(id, body, first)
	}
	id, second := a[1].Verify(r, body)
	if second == nil {
		return a.shared(id, body, nil)
	}
	if refusalRank(second) < refusalRank(first) {
		first = second
	}
	return Identity{}, first
}

// refusalRank orders the refusals of two schemes: the lower one is reported.
func refusalRank(err error) int {
	switch CodeOf(err) {
	case "":
		return 0
	case KeysUnavailable:
		return 1
	case SignatureMissing, CredentialsMissing, TokenMissing:
		return 3
	}
	return 2
}

// Sign signs with the first scheme that can.
func (a Any) Sign(r *http.Request, body []byte, now time.Time) error {
	for _, s := range a {
		if signer, ok := s.(interface {
			Sign(r *http.Request, body []byte, now time.Time) error
		}); ok {
			return signer.Sign(r, body, now)
		}
	}
	return fmt.Errorf("sign: neither a %T nor a %T can sign", a[0], a[1])
}

// String describes the schemes for the policy.
func (a Any) String() string { return strings.Replace(All(a[:]).String(), ", and ", ", or ", 1) }

// Binds implements [Binder]: what both schemes bind. A time counts only if both read it from the
// same signed field. Else it belongs to one of the credentials.
func (a Any) Binds() Binding {
	one, other := bindingOf(a[0]), bindingOf(a[1])
	b := Binding{
		Content:   one.Content && other.Content && one.covers("@body") && other.covers("@body"),
		Malleable: one.Malleable || other.Malleable,
		Form:      func(body []byte) []byte { return other.form(one.form(body)) },
		Unused:    slices.Concat(one.Principals, one.Unused, other.Principals, other.Unused),
	}
	if b.Time = one.Time && other.Time && one.TimeField != "" && one.TimeField == other.TimeField; b.Time {
		b.TimeField = one.TimeField
	}
	for _, part := range one.Covered {
		if other.covers(part) {
			b.Covered = append(b.Covered, part)
		}
	}
	for _, part := range other.Covered {
		if one.covers(part) && !slices.Contains(b.Covered, part) {
			b.Covered = append(b.Covered, part)
		}
	}
	return b
}

// oneToken reports whether both schemes read the same token, as those of two issuers do.
func (a Any) oneToken() bool {
	one, ok1 := a[0].(*JWT)
	other, ok2 := a[1].(*JWT)
	return ok1 && ok2 && one.Body == other.Body && strings.EqualFold(one.Field, other.Field)
}

// shared returns what the identity of either scheme would prove of a request.
func (a Any) shared(id Identity, body func() ([]byte, error), err error) (Identity, error) {
	if err != nil {
		return Identity{}, err
	}
	b := a.Binds()
	id.Principal, id.Nonce, id.Signed, id.Stable = "", "", nil, nil
	id.Malleable, id.OwnTime = b.Malleable, !b.Time
	id.Covered = slices.DeleteFunc(slices.Clone(id.Covered), func(part string) bool { return !b.covers(part) })
	if !a.oneToken() { // who removes the token would name the event otherwise
		id.Claims = nil
	}
	if !b.Content {
		return id, nil
	}
	octets, err := body()
	if err != nil {
		return Identity{}, err
	}
	sum := sha256.Sum256(b.form(octets))
	id.Stable, id.Signed = sum[:], sum[:]
	if b.Time {
		timed := sha256.Sum256(fmt.Appendf(nil, "%d.%x", id.SignedAt.UnixNano(), sum))
		id.Signed = timed[:]
	}
	return id, nil
}
