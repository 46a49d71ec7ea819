package verify

import (
	"cmp"
	"crypto/elliptic"
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// hmacPlan is a checked HMAC, ready for use: its description and what follows from it.
type hmacPlan struct {
	*HMAC
	headers          []string // canonical
	timestampHeaders []string // one per header, or none
	idHeaders        []string // one per header, or none
	entries          []entryPattern
	timedEntries     bool // an entry holds {timestamp}
	hash             Hash
	hashes           []Hash // that {alg} may name
	tried            []Hash // all usable ones
	keys             []hmacKey
	timeDigits       int // of every timestamp; 0 is any number, or a date-time
	template         []part
	constants        segments   // one per part of the template; nil for variable parts
	stableParts      []int      // parts of the template that do not change with the time
	boundaries       []boundary // one per part of the template
	malleable        []string   // parts without one
	covered          [][]string // one per header
}

// newHMACPlan checks the description and reports all of its errors.
func newHMACPlan(h *HMAC) (*hmacPlan, error) {
	p := &hmacPlan{HMAC: h}
	err := errors.Join(
		p.setFields(), p.setHashes(), p.setEntries(), p.setTemplate(), p.setTimestamp(), p.setKeys())
	if err != nil {
		return nil, err
	}
	p.setCovered()
	return p, nil
}

func (p *hmacPlan) setFields() error {
	var errs errorList
	errs.addIf(len(p.Headers) == 0, "headers: no field for the signature")
	for _, list := range []struct {
		name string
		from []string
		to   *[]string
	}{
		{"headers", p.Headers, &p.headers},
		{"timestamp headers", p.TimestampHeaders, &p.timestampHeaders},
		{"id headers", p.IDHeaders, &p.idHeaders},
	} {
		for _, name := range list.from {
			errs.addIf(!IsToken(name), "%s: %q is not a field name", list.name, name)
			*list.to = append(*list.to, textproto.CanonicalMIMEHeaderKey(name))
		}
		n := len(list.from)
		if n == 1 {
			*list.to = slices.Repeat(*list.to, max(1, len(p.Headers)))
		}
		errs.addIf(n > 1 && n != len(p.Headers), "%s: %d fields for %d signature fields", list.name, n, len(p.Headers))
	}
	return errors.Join(errs...)
}

func (p *hmacPlan) setHashes() error {
	p.hashes = orDefault(p.Hashes, cmp.Or(p.Hash, SHA256))
	p.hash = cmp.Or(p.Hash, p.hashes[0])
	p.tried = append([]Hash{p.hash}, p.hashes...)
	slices.Sort(p.tried)
	p.tried = slices.Compact(p.tried)
	var errs errorList
	for _, x := range p.tried {
		errs.addIf(newHash[x] == nil, "hash: %q is not sha1, sha256, sha384 or sha512", string(x))
	}
	known := p.Encoding == Hex || p.Encoding == Base64
	errs.addIf(!known, "encoding: %q is neither hex nor base64", string(p.Encoding))
	return errors.Join(errs...)
}

func (p *hmacPlan) setEntries() error {
	var errs errorList
	for _, s := range orDefault(p.Entries, defaultEntry) {
		e, err := parseEntry(s)
		errs = append(errs, err)
		p.entries = append(p.entries, e)
	}
	p.timedEntries = p.entriesHold(partTimestamp)
	sig, ed25519, ecdsa := p.entriesHold(partSig), p.entriesHold(partEd25519), p.entriesHold(partECDSA)
	signed := sig || ed25519 || ecdsa
	errs.addIf(!signed, "entries: none holds a signature")
	errs.addIf(signed && !sig && len(p.Secrets)+len(p.Keys) > 0, "entries: secrets are set and no entry holds {sig}")
	errs.addIf(signed && !ed25519 && len(p.PublicKeys) > 0, "entries: public keys are set and no entry holds {ed25519}")
	errs.addIf(signed && !ecdsa && len(p.ECDSAKeys) > 0, "entries: ECDSA keys are set and no entry holds {ecdsa}")
	errs.addIf(p.entriesHold(partKID) != (len(p.Keys) > 0), "keys: entries with {kid} and keys by id go together")
	errs.addIf(len(p.Hashes) > 1 && !p.entriesHold(partAlg), "hash: several, and no entry holds {alg}")
	return errors.Join(errs...)
}

func (p *hmacPlan) entriesHold(name partKind) bool {
	return slices.ContainsFunc(p.entries, func(e entryPattern) bool { return e.holds(name) })
}

func (p *hmacPlan) setTemplate() error {
	if p.Contents != nil {
		if p.Content != "" {
			return errors.New("content: both Content and Contents")
		}
		return nil
	}
	text := cmp.Or(p.Content, "{body}")
	parts, err := parseTemplate(text)
	if err != nil {
		return fmt.Errorf("content %q: %w", text, err)
	}
	p.template = parts
	var errs errorList
	bodies := 0
	p.constants = make(segments, len(parts))
	for i, q := range parts {
		switch q.kind {
		case partText:
			p.constants[i] = []byte(q.literal)
		case partConfig:
			p.constants[i] = []byte(p.Config[q.arg])
		case partTimestamp:
		default:
			p.stableParts = append(p.stableParts, i)
		}
		if q.isBody() {
			bodies++
		}
		err := p.checkPlaceholder(q)
		errs.addIf(err != nil, "content %q: %w", text, err)
	}
	errs.addIf(bodies != 1, "content %q: holds {body} or {jcs} %d times, not once", text, bodies)
	u, err := url.Parse(p.URL)
	wrong := p.URL != "" && (err != nil || u.Scheme == "" || u.Host == "" || !p.templateHolds(partURL))
	errs.addIf(wrong, "content %q: the URL is not absolute, or there is no {url}", text)
	err = p.setBoundaries()
	errs.addIf(err != nil, "content %q: %w", text, err)
	return errors.Join(errs...)
}

func (p *hmacPlan) checkPlaceholder(q part) error {
	switch q.kind {
	case partText, partBody, partJCS, partURL:
	case partTimestamp:
		if len(p.TimestampHeaders) == 0 && !p.timedEntries {
			return errors.New("{timestamp} and no timestamp header or entry")
		}
	case partID:
		if len(p.IDHeaders) == 0 {
			return errors.New("{id} and no id header")
		}
	case partHeader:
		if !IsToken(q.arg) {
			return fmt.Errorf("{header:%s} names no field", q.arg)
		}
		return nil
	case partConfig:
		if p.Config[q.arg] == "" {
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

func (p *hmacPlan) setTimestamp() error {
	var errs errorList
	_, err := p.TimestampUnit.MarshalText()
	errs.addIf(err != nil, "timestamp unit: %w", err)
	inEntry, inHeader := p.timedEntries, len(p.TimestampHeaders) > 0
	errs.addIf(inEntry && inHeader, "timestamp: both a header and an entry")
	errs.addIf(p.Contents == nil && (inEntry || inHeader) && !p.templateHolds(partTimestamp),
		"timestamp: it is read and not signed; content lacks {timestamp}")
	errs.addIf(p.Contents == nil && len(p.IDHeaders) > 0 && !p.templateHolds(partID),
		"id: it is read and not signed; content lacks {id}")
	return errors.Join(errs...)
}

func (p *hmacPlan) setKeys() error {
	var errs errorList
	errs.addIf(len(p.Secrets) > 0 && len(p.Keys) > 0, "secrets: both secrets and keys by id")
	errs.addIf(len(p.Secrets)+len(p.Keys)+len(p.PublicKeys)+len(p.ECDSAKeys) == 0, "secrets: none is set")
	add := func(id, what string, s Secret) {
		secret, err := s.Decode(cmp.Or(p.SecretEncoding, Raw))
		errs.addIf(err != nil, "%s %w", what, err)
		p.keys = append(p.keys, newHMACKey(id, secret, p.tried))
	}
	for i, s := range p.Secrets {
		add("", fmt.Sprintf("secret %d of %d", i+1, len(p.Secrets)), s)
	}
	for _, id := range slices.Sorted(maps.Keys(p.Keys)) {
		errs.addIf(id == "", "keys: a key without an id")
		add(id, fmt.Sprintf("key %q", id), p.Keys[id])
	}
	for i, k := range p.PublicKeys {
		_, err := algsOf(k)
		errs.addIf(err != nil, "public key %d of %d: %w", i+1, len(p.PublicKeys), err)
	}
	for i, k := range p.ECDSAKeys {
		wrong := k == nil || k.Curve != elliptic.P256()
		errs.addIf(wrong, "ECDSA key %d of %d: not a key of P-256", i+1, len(p.ECDSAKeys))
	}
	return errors.Join(errs...)
}

// setCovered determines what the signature binds, for each signature field.
func (p *hmacPlan) setCovered() {
	for i := range p.headers {
		covered := slices.Clone(p.Covers)
		for _, q := range p.template {
			switch {
			case q.isBody():
				covered = append(covered, "@body")
			case q.kind == partURL:
				covered = append(covered, "@target-uri", "@authority", "@path", "@query")
			case q.kind == partHeader:
				covered = append(covered, strings.ToLower(q.arg))
			case q.kind == partID:
				covered = append(covered, strings.ToLower(p.idHeaders[i]))
			case q.kind == partTimestamp && len(p.timestampHeaders) > 0:
				covered = append(covered, strings.ToLower(p.timestampHeaders[i]))
			}
		}
		p.covered = append(p.covered, slices.Clip(covered))
	}
}
