package preset

import (
	"net/http"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// bodyTimed is an HMAC of the body, whose signed time is a member of it: milliseconds since
// 1970.
type bodyTimed struct {
	*verify.HMAC
	member string // a path of [producer.JSON]
}

// Verify implements [verify.Scheme]. It reads the time after the signature is verified.
func (b *bodyTimed) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	return b.verify(b.HMAC, r, body)
}

func (b *bodyTimed) verify(inner verify.Scheme, r *http.Request, body func() ([]byte, error)) (
	verify.Identity, error,
) {
	id, err := inner.Verify(r, body)
	if err != nil {
		return verify.Identity{}, err
	}
	raw, err := body()
	if err != nil {
		return verify.Identity{}, err
	}
	text, err := producer.JSON(b.member).Extract(&producer.Delivery{Request: r, Body: raw})
	if err == nil && text == "" {
		err = &verify.Error{Code: verify.TimestampMissing, Component: b.member}
	}
	if err != nil {
		return verify.Identity{}, err
	}
	ms, err := strconv.ParseUint(text, 10, 53)
	if err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.TimestampMalformed, Component: b.member}
	}
	id.SignedAt = time.UnixMilli(int64(ms)) //nolint:gosec // 53 bits
	return id, nil
}

// SignBody signs the body with the present time in it.
func (b *bodyTimed) SignBody(r *http.Request, body []byte, now time.Time) ([]byte, error) {
	body = withMember(body, b.member, strconv.FormatInt(now.UnixMilli(), 10), true)
	return body, b.Sign(r, body, now)
}

// Binds implements [verify.Binder].
func (b *bodyTimed) Binds() verify.Binding {
	all := b.HMAC.Binds()
	all.Time = true
	return all
}

// String describes the scheme for the policy.
func (b *bodyTimed) String() string { return b.HMAC.String() + ", the time in its member " + b.member }
