package explain

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// otherEndpoint asks the schemes of the other endpoints. One that accepts an empty request proves
// nothing.
//
// If the body was not read, a scheme that can read the head, where the endpoint's own cannot, is
// likely.
func (s *search) otherEndpoint(start state, first outcome) (likely Finding, found bool) {
	for _, p := range s.others {
		st := start
		st.scheme = p.Scheme
		o := s.try(st)
		if s.d.Unread && o.asked && !first.asked {
			likely, found = Finding{Cause: otherEndpoint, Detail: fmt.Sprintf("producer %q", p.Name)}, true
		}
		if !o.held {
			continue
		}
		blank := &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: "blank.example"},
			Header: http.Header{}, Body: http.NoBody}
		st.request, st.body = blank.WithContext(s.ctx), nil
		if !s.try(st).held {
			return Finding{Cause: otherEndpoint, Proved: true, Detail: fmt.Sprintf("producer %q", p.Name)}, true
		}
	}
	return likely, found
}

// otherVendor returns the preset whose fields the request has, or "".
func (s *search) otherVendor() string {
	best, most := "", 0
	for _, one := range preset.All() {
		made := one.Open(preset.Settings{})
		if one.Name == s.own.Preset || sameFields(&made, &s.own) {
			continue
		}
		n := 0
		for _, name := range signatureFields(&made) {
			if s.d.Request.Header.Get(name) != "" {
				n += 2
			}
		}
		if n == 0 {
			continue
		}
		n += ownFields(s.d.Request, &made)
		if n > most {
			best, most = one.Name, n
		}
	}
	return best
}

// ownFields counts the fields of the request that the producer has for itself.
func ownFields(r *http.Request, p *producer.Producer) (n int) {
	for _, pattern := range p.OwnFields() {
		prefix, wild := strings.CutSuffix(pattern, "*")
		for name := range r.Header {
			if strings.EqualFold(name, prefix) || wild && len(name) > len(prefix) &&
				strings.EqualFold(name[:len(prefix)], prefix) {
				n++
			}
		}
	}
	return n
}

// signatureFields are the fields that carry the signatures of a producer.
func signatureFields(p *producer.Producer) []string {
	switch scheme := p.Scheme.(type) {
	case *verify.HMAC:
		return scheme.Headers
	case *verify.RFC9421:
		return []string{"Signature-Input"}
	}
	// The error of an empty request names the field.
	if p.Scheme == nil {
		return nil
	}
	blank := &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: "blank.example"},
		Header: http.Header{}, Body: http.NoBody}
	_, err := p.Scheme.Verify(blank, func() ([]byte, error) { return nil, errUnread })
	var e *verify.Error
	if errors.As(err, &e) && strings.Contains(e.Component, "-") {
		return []string{textproto.CanonicalMIMEHeaderKey(e.Component)}
	}
	return nil
}

func sameFields(a, b *producer.Producer) bool {
	for _, x := range signatureFields(a) {
		for _, y := range signatureFields(b) {
			if strings.EqualFold(x, y) {
				return true
			}
		}
	}
	return false
}
