package verify

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Any accepts a request that one of two schemes accepts, for a sender that changes from one to the
// other. It is as weak as the weaker of them: remove that one once the sender has changed. The
// identity is that of the first scheme that accepts, with its time.
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
	return errors.Join(unset, All(a[:]).Check())
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
		return id, first
	}
	id, second := a[1].Verify(r, body)
	if second == nil {
		return id, nil
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

// Binds implements [Binder]: what both schemes bind.
func (a Any) Binds() Binding {
	one, other := All(a[:1]).Binds(), All(a[1:]).Binds()
	return Binding{
		Content: one.Content && other.Content, Time: one.Time && other.Time,
		Malleable: one.Malleable || other.Malleable,
		Covered: slices.DeleteFunc(one.Covered, func(part string) bool {
			return !Identity{Covered: other.Covered}.Covers(part)
		}),
	}
}
