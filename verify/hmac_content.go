package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
)

// segments is signed content in parts, which saves a copy of the body.
type segments = [][]byte

// isSignatureBase reports whether content ends as a signature base of RFC 9421 does (section 2.5):
// a MAC of such a message is none of a body, where both have one secret.
func isSignatureBase(s segments) bool {
	if len(s) == 0 {
		return false
	}
	last := s[len(s)-1]
	return bytes.HasPrefix(last[bytes.LastIndexByte(last, '\n')+1:], []byte(`"@signature-params": (`))
}

func digestOf(s segments) []byte {
	if len(s) == 1 {
		sum := sha256.Sum256(s[0])
		return sum[:]
	}
	d := sha256.New()
	for _, b := range s {
		d.Write(b)
	}
	return d.Sum(nil)
}

// stable returns the digest of the content without its time and its constant parts; signed is
// the digest of the whole content. It is nil if only the body is left of several parts. The
// parts are framed by their lengths, unless the content has no boundaries either.
func (p *hmacPlan) stable(content segments, signed []byte) []byte {
	if len(content) == 1 || p.Contents != nil {
		return signed
	}
	kept := p.stableParts
	framed := len(kept) > 1 && p.malleable == nil
	switch {
	case len(kept) == 1 && p.template[kept[0]].kind == partBody:
		return nil
	case !framed && len(kept) == len(content):
		return signed
	}
	d := sha256.New()
	var length [8]byte
	for _, i := range kept {
		if framed {
			binary.BigEndian.PutUint64(length[:], uint64(len(content[i])))
			d.Write(length[:])
		}
		d.Write(content[i])
	}
	return d.Sum(nil)
}

// canonicalForm returns the canonical form of JSON, and anything else as it is.
func canonicalForm(body []byte) []byte {
	if canonical, err := strictjson.Canonical(body); err == nil {
		return canonical
	}
	return body
}

func (p *hmacPlan) contents(r *http.Request, body []byte, s signatureHead) ([]segments, error) {
	if p.Contents == nil {
		content, err := p.fill(nil, r, body, s)
		return []segments{content}, err
	}
	forms, err := p.Contents(r, body)
	if err != nil {
		return nil, err
	}
	if len(forms) == 0 || len(forms) > maxContents {
		return nil, &Error{Code: KeysUnavailable, Err: fmt.Errorf("%d candidates for the signed content", len(forms))}
	}
	return forms, nil
}

// fill appends the parts of the signed content to out.
func (p *hmacPlan) fill(out segments, r *http.Request, body []byte, s signatureHead) (segments, error) {
	for i, q := range p.template {
		switch q.kind {
		case partText, partConfig:
			out = append(out, p.constants[i])
		case partBody:
			out = append(out, body)
		case partJCS:
			canonical, err := strictjson.Canonical(body)
			if err != nil {
				return nil, &Error{Code: EventMalformed, Err: err}
			}
			out = append(out, canonical)
		case partTimestamp:
			out = append(out, []byte(s.timestamp))
		case partID:
			out = append(out, []byte(s.id))
		case partURL:
			u, err := p.signedURL(i, r)
			if err != nil {
				return nil, err
			}
			out = append(out, []byte(u))
		case partHeader:
			name := textproto.CanonicalMIMEHeaderKey(q.arg)
			value, n, err := field(r, name)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				return nil, &Error{Code: InsufficientCoverage, Component: name}
			}
			if err := p.checkValue(i, name, value); err != nil {
				return nil, err
			}
			out = append(out, []byte(value))
		}
	}
	return out, nil
}

// signedURL returns the signed URL, which is part i of the template.
func (p *hmacPlan) signedURL(i int, r *http.Request) (string, error) {
	u := r.URL.String()
	switch {
	case p.URL != "" && u != p.URL:
		why := reason("the URL is not the configured one")
		return "", &Error{Code: SignatureMismatch, Component: "@target-uri", Err: why}
	case p.openEndedURL() && (r.URL.RawQuery != "" || r.URL.ForceQuery):
		why := reason("the signed content does not show where the query ends: configure the URL to sign")
		return "", &Error{Code: ComponentUnsupported, Component: "@query", Err: why}
	}
	return u, p.checkValue(i, "@target-uri", u)
}

// withOtherURL puts the other form of the URL into the content. It reports false if there is
// none, or if it is ambiguous where the URL as called is not.
func (p *hmacPlan) withOtherURL(content segments) bool {
	i := slices.IndexFunc(p.template, func(q part) bool { return q.kind == partURL })
	if i < 0 || p.OtherURL == nil {
		return false
	}
	called := string(content[i])
	other := p.OtherURL(called)
	if other == called || p.openEndedURL() && strings.Contains(other, "?") || p.checkValue(i, "", other) != nil {
		return false
	}
	content[i] = []byte(other)
	return true
}

func (p *hmacPlan) sign(r *http.Request, body []byte, now time.Time) error {
	if len(p.keys) == 0 {
		return errors.New("sign: only public keys are set, but no secret")
	}
	var s signatureHead
	if p.idHeaders != nil {
		id, err := p.readID(r, p.idHeaders[0])
		if err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		s.id = id
	}
	s.timestamp = p.TimestampUnit.format(now)
	contents, err := p.contents(r, body, s)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	k := p.keys[0]
	e := entry{
		alg: string(p.hashes[0]), kid: k.id, timestamp: s.timestamp,
		sig: p.Encoding.encode(k.sum(nil, p.hashes[0], contents[0])),
	}
	var value string
	for _, pattern := range p.entries {
		if pattern.holds(partEd25519) || pattern.holds(partECDSA) {
			continue
		}
		if value != "" {
			value += p.Separator
		}
		value += pattern.format(e)
	}
	r.Header.Set(p.headers[0], value)
	if p.timestampHeaders != nil {
		r.Header.Set(p.timestampHeaders[0], s.timestamp)
	}
	return nil
}
