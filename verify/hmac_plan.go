package verify

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"
)

// hmacPlan is a checked HMAC, ready for use.
type hmacPlan struct {
	headers          []string // canonical
	timestampHeaders []string // one per header, or none
	idHeaders        []string // one per header, or none
	separator        string
	entries          []entryPattern
	hash             Hash
	hashes           []Hash // that {alg} may name
	tried            []Hash // all usable ones
	encoding         Encoding
	keys             []hmacKey
	publicKeys       []ed25519.PublicKey
	unit             time.Duration
	template         []part
	boundaries       []boundary // one per part of the template
	malleable        []string   // parts without one
	config           map[string]string
	url              string
	custom           func(*http.Request, []byte) ([][][]byte, error)
	covered          [][]string // one per header
}

// newHMACPlan checks the description and reports all of its errors.
func newHMACPlan(h *HMAC) (*hmacPlan, error) {
	p := &hmacPlan{
		separator: h.Separator, encoding: h.Encoding, unit: h.TimestampUnit, config: h.Config,
		custom: h.Contents, publicKeys: h.PublicKeys, url: h.URL,
	}
	errs := []error{
		p.setFields(h), p.setHashes(h), p.setEntries(h), p.setTemplate(h), p.setTimestamp(h), p.setKeys(h),
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p.setCovered(h)
	return p, nil
}

func (p *hmacPlan) setFields(h *HMAC) error {
	var errs []error
	if len(h.Headers) == 0 {
		errs = append(errs, errors.New("headers: no field for the signature"))
	}
	for _, list := range []struct {
		name string
		from []string
		to   *[]string
	}{
		{"headers", h.Headers, &p.headers},
		{"timestamp headers", h.TimestampHeaders, &p.timestampHeaders},
		{"id headers", h.IDHeaders, &p.idHeaders},
	} {
		for _, name := range list.from {
			if !IsToken(name) {
				errs = append(errs, fmt.Errorf("%s: %q is not a field name", list.name, name))
			}
			*list.to = append(*list.to, textproto.CanonicalMIMEHeaderKey(name))
		}
		switch n := len(list.from); {
		case n == 1:
			for len(*list.to) < len(h.Headers) {
				*list.to = append(*list.to, (*list.to)[0])
			}
		case n != 0 && n != len(h.Headers):
			errs = append(errs, fmt.Errorf("%s: %d fields for %d signature fields", list.name, n, len(h.Headers)))
		}
	}
	return errors.Join(errs...)
}

func (p *hmacPlan) setHashes(h *HMAC) error {
	p.hash = h.Hash
	if p.hash == "" && len(h.Hashes) > 0 {
		p.hash = h.Hashes[0]
	}
	if p.hash == "" {
		p.hash = SHA256
	}
	p.hashes = h.Hashes
	if len(p.hashes) == 0 {
		p.hashes = []Hash{p.hash}
	}
	p.tried = append([]Hash{p.hash}, p.hashes...)
	slices.Sort(p.tried)
	p.tried = slices.Compact(p.tried)
	var errs []error
	for _, x := range p.tried {
		if x.new() == nil {
			errs = append(errs, fmt.Errorf("hash: %q is not sha1, sha256, sha384 or sha512", string(x)))
		}
	}
	if p.encoding != Hex && p.encoding != Base64 {
		errs = append(errs, fmt.Errorf("encoding: %q is neither hex nor base64", string(p.encoding)))
	}
	return errors.Join(errs...)
}

func (p *hmacPlan) setEntries(h *HMAC) error {
	forms := h.Entries
	if len(forms) == 0 {
		forms = []string{"{sig}"}
	}
	var errs []error
	for _, s := range forms {
		e, err := parseEntry(s)
		errs = append(errs, err)
		p.entries = append(p.entries, e)
	}
	switch {
	case !p.entriesHold(partSig) && !p.entriesHold(partEd25519):
		errs = append(errs, errors.New("entries: none holds a signature"))
	case p.entriesHold(partEd25519) && !p.entriesHold(partSig) && len(h.Secrets)+len(h.Keys) > 0:
		errs = append(errs, errors.New("entries: secrets are set and no entry holds {sig}"))
	case len(h.PublicKeys) > 0 && !p.entriesHold(partEd25519):
		errs = append(errs, errors.New("entries: public keys are set and no entry holds {ed25519}"))
	}
	if p.entriesHold(partKID) != (len(h.Keys) > 0) {
		errs = append(errs, errors.New("keys: entries with {kid} and keys by id go together"))
	}
	if len(h.Hashes) > 0 && !p.entriesHold(partAlg) {
		errs = append(errs, errors.New("hashes: no entry holds {alg}"))
	}
	return errors.Join(errs...)
}

func (p *hmacPlan) entriesHold(name partKind) bool {
	return slices.ContainsFunc(p.entries, func(e entryPattern) bool { return e.holds(name) })
}

func (p *hmacPlan) setTemplate(h *HMAC) error {
	if h.Contents != nil {
		if h.Content != "" {
			return errors.New("content: both Content and Contents")
		}
		return nil
	}
	text := h.Content
	if text == "" {
		text = "{body}"
	}
	parts, err := parseTemplate(text)
	if err != nil {
		return fmt.Errorf("content %q: %w", text, err)
	}
	p.template = parts
	var errs []error
	bodies := 0
	for _, q := range parts {
		if q.isBody() {
			bodies++
		}
		if err := p.checkPlaceholder(q, h); err != nil {
			errs = append(errs, fmt.Errorf("content %q: %w", text, err))
		}
	}
	if bodies != 1 {
		errs = append(errs, fmt.Errorf("content %q: holds {body} or {jcs} %d times, not once", text, bodies))
	}
	u, err := url.Parse(h.URL)
	if h.URL != "" && (err != nil || u.Scheme == "" || u.Host == "" || !p.templateHolds(partURL)) {
		errs = append(errs, fmt.Errorf("content %q: the URL is not absolute, or there is no {url}", text))
	}
	if err := p.setBoundaries(h); err != nil {
		errs = append(errs, fmt.Errorf("content %q: %w", text, err))
	}
	return errors.Join(errs...)
}

func (p *hmacPlan) checkPlaceholder(q part, h *HMAC) error {
	switch q.kind {
	case partText, partBody, partJCS, partURL:
	case partTimestamp:
		if len(h.TimestampHeaders) == 0 && !p.entriesHold(partTimestamp) {
			return errors.New("{timestamp} and no timestamp header or entry")
		}
	case partID:
		if len(h.IDHeaders) == 0 {
			return errors.New("{id} and no id header")
		}
	case partHeader:
		if !IsToken(q.arg) {
			return fmt.Errorf("{header:%s} names no field", q.arg)
		}
		return nil
	case partConfig:
		if h.Config[q.arg] == "" {
			return fmt.Errorf("{config:%s} is not set", q.arg)
		}
		return nil
	default:
		return fmt.Errorf("unknown placeholder {%s}", q.text())
	}
	if q.kind != partText && q.arg != "" {
		return fmt.Errorf("{%s} takes no argument", q.kind)
	}
	return nil
}

func (p *hmacPlan) templateHolds(name partKind) bool {
	return slices.ContainsFunc(p.template, func(q part) bool { return q.kind == name })
}

func (p *hmacPlan) setTimestamp(h *HMAC) error {
	var errs []error
	switch p.unit {
	case 0:
		p.unit = time.Second
	case time.Second, time.Millisecond:
	default:
		errs = append(errs, fmt.Errorf("timestamp unit: %v is neither 1s nor 1ms", p.unit))
	}
	inEntry := p.entriesHold(partTimestamp)
	if inEntry && len(h.TimestampHeaders) > 0 {
		errs = append(errs, errors.New("timestamp: both a header and an entry"))
	}
	if h.Contents == nil && (inEntry || len(h.TimestampHeaders) > 0) && !p.templateHolds(partTimestamp) {
		errs = append(errs, errors.New("timestamp: it is read and not signed; content lacks {timestamp}"))
	}
	if h.Contents == nil && len(h.IDHeaders) > 0 && !p.templateHolds(partID) {
		errs = append(errs, errors.New("id: it is read and not signed; content lacks {id}"))
	}
	return errors.Join(errs...)
}

func (p *hmacPlan) setKeys(h *HMAC) error {
	enc := h.SecretEncoding
	if enc == "" {
		enc = Raw
	}
	var errs []error
	if len(h.Secrets) > 0 && len(h.Keys) > 0 {
		errs = append(errs, errors.New("secrets: both secrets and keys by id"))
	}
	if len(h.Secrets)+len(h.Keys)+len(h.PublicKeys) == 0 {
		errs = append(errs, errors.New("secrets: none is set"))
	}
	add := func(id, what string, s Secret) {
		secret, err := s.Decode(enc)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %w", what, err))
			return
		}
		p.keys = append(p.keys, newHMACKey(id, secret, p.tried))
	}
	for i, s := range h.Secrets {
		add("", fmt.Sprintf("secret %d of %d", i+1, len(h.Secrets)), s)
	}
	ids := make([]string, 0, len(h.Keys))
	for id := range h.Keys {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if id == "" {
			errs = append(errs, errors.New("keys: a key without an id"))
		}
		add(id, fmt.Sprintf("key %q", id), h.Keys[id])
	}
	for i, k := range h.PublicKeys {
		if _, err := algsOf(k); err != nil {
			errs = append(errs, fmt.Errorf("public key %d of %d: %w", i+1, len(h.PublicKeys), err))
		}
	}
	return errors.Join(errs...)
}

// setCovered determines what the signature binds, for each signature field.
func (p *hmacPlan) setCovered(h *HMAC) {
	for i := range p.headers {
		covered := slices.Clone(h.Covers)
		for _, q := range p.template {
			switch q.kind {
			case partBody, partJCS:
				covered = append(covered, "@body")
			case partURL:
				covered = append(covered, "@target-uri", "@authority", "@path", "@query")
			case partHeader:
				covered = append(covered, strings.ToLower(q.arg))
			case partID:
				covered = append(covered, strings.ToLower(p.idHeaders[i]))
			case partTimestamp:
				if len(p.timestampHeaders) > 0 {
					covered = append(covered, strings.ToLower(p.timestampHeaders[i]))
				}
			}
		}
		p.covered = append(p.covered, slices.Clip(covered))
	}
}
