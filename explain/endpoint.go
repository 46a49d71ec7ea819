package explain

import (
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// otherEndpoint asks the schemes of the other endpoints. One that accepts a blank request proves
// nothing.
func (s *search) otherEndpoint(start state) (Finding, bool) {
	for i := range s.others {
		st := start
		st.scheme = s.others[i].Scheme
		if s.try(st).held && !s.try(s.blank(st)).held {
			return Finding{Cause: otherEndpoint, Proved: true, Detail: named(s.others[i : i+1])}, true
		}
	}
	return Finding{}, false
}

// readers are the other endpoints whose schemes can read the head of the request, where the
// endpoint's own cannot.
func (s *search) readers(start state, first outcome) []Finding {
	var readers []producer.Producer
	for _, p := range s.others {
		st := start
		st.scheme = p.Scheme
		if !first.asked && s.reads(st) {
			readers = append(readers, p)
		}
	}
	if len(readers) == 0 {
		return nil
	}
	return []Finding{{Cause: otherEndpoint, Detail: named(readers)}}
}

// reads reports whether the scheme of the state asks for the body because of what the request
// says: a scheme whose signature is in the body asks for that of a blank request, too.
func (s *search) reads(st state) bool { return s.try(st).asked && !s.try(s.blank(st)).asked }

// blank returns the state with a request that says nothing but which content it has.
func (s *search) blank(st state) state {
	header := http.Header{}
	for _, name := range []string{"Content-Type", "Content-Encoding"} {
		if lines := st.request.Header[name]; lines != nil {
			header[name] = lines
		}
	}
	blank := &http.Request{Method: st.request.Method, URL: &url.URL{Scheme: "https", Host: "blank.example"},
		Header: header, Body: http.NoBody}
	st.request, st.body = blank.WithContext(s.ctx), nil
	return st
}

func named(producers []producer.Producer) string {
	names := make([]string, len(producers))
	for i := range producers {
		names[i] = strconv.Quote(producers[i].Name)
	}
	return "producer " + strings.Join(names, " or ")
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
	case *verify.JWT:
		if scheme.Field != "" {
			return []string{scheme.Field}
		}
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
	others := signatureFields(b)
	return slices.ContainsFunc(signatureFields(a), func(x string) bool {
		return slices.ContainsFunc(others, func(y string) bool { return strings.EqualFold(x, y) })
	})
}
