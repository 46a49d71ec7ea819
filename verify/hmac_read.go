package verify

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha512"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Bounds on the work for an unauthenticated sender.
const (
	maxSignatureField = 8 << 10 // bytes of the signature field
	maxEntries        = 64      // entries in it
	maxPublicChecks   = 2       // signatures checked per public key
	maxContents       = 8       // candidates for the signed content
)

type signatureHead struct {
	header    int // index of the signature field
	timestamp string
	signedAt  time.Time
	id        string
}

type signature struct {
	hash   Hash // empty for signatures with a public key
	ecdsa  bool
	kid    string
	length int // of the decoded bytes; one other than that of the MAC never matches
	bytes  [maxECDSA]byte
}

// read reads the signed time and id of the header fields, and the signatures into a buffer.
func (p *hmacPlan) read(r *http.Request, buffer []signature) (signatureHead, []signature, error) {
	s, value, err := p.find(r)
	if err != nil {
		return signatureHead{}, nil, err
	}
	sigs, stamps, err := p.readEntries(&s, value, buffer[:0])
	if err != nil {
		return signatureHead{}, nil, err
	}
	if p.idHeaders != nil {
		if s.id, err = p.readID(r, p.idHeaders[s.header]); err != nil {
			return signatureHead{}, nil, err
		}
	}
	name := p.headers[s.header]
	if p.timestampHeaders != nil {
		name = p.timestampHeaders[s.header]
		if s.timestamp, stamps, err = field(r, name); err != nil {
			return signatureHead{}, nil, err
		}
		if s.timestamp == "" {
			stamps = 0
		}
	} else if !p.timedEntries {
		return s, sigs, nil
	}
	if stamps == 0 {
		return signatureHead{}, nil, &Error{Code: TimestampMissing, Component: name}
	}
	var ok bool
	if s.signedAt, ok = p.parseTime(s.timestamp); !ok {
		return signatureHead{}, nil, &Error{Code: TimestampMalformed, Component: name}
	}
	return s, sigs, nil
}

// find returns the value of the first signature field that is present. An empty field counts as
// absent.
func (p *hmacPlan) find(r *http.Request) (signatureHead, string, error) {
	for i, name := range p.headers {
		value, _, err := field(r, name)
		if lines := r.Header[name]; err != nil && p.Separator != "" { // a list, which may be split over lines
			value, err = strings.Join(slices.Compact(slices.Clone(lines)), p.Separator), nil
		}
		if err != nil {
			return signatureHead{}, "", err
		}
		if value != "" {
			return signatureHead{header: i}, value, nil
		}
	}
	return signatureHead{}, "", &Error{Code: SignatureMissing, Component: p.headers[0]}
}

// field returns the value of a field of at most one line, without optional white space around
// it, and the number of lines.
func field(r *http.Request, name string) (string, int, error) {
	if name == "Host" { // net/http moves it out of the header
		return r.Host, 1, nil
	}
	switch values := r.Header[name]; len(values) {
	case 0:
		return "", 0, nil
	case 1:
		return TrimOWS(values[0]), 1, nil
	default:
		return "", 0, &Error{Code: AmbiguousField, Component: name}
	}
}

// readEntries appends the usable signatures to sigs, and returns the number of timestamps.
func (p *hmacPlan) readEntries(s *signatureHead, value string, sigs []signature) ([]signature, int, error) {
	if len(value) > maxSignatureField {
		return nil, 0, p.malformed(s)
	}
	stamps, entries, code := 0, 0, SignatureMalformed
	for rest, more := value, true; more; {
		var text string
		if text, rest, more = p.cut(rest); entries == maxEntries {
			return nil, 0, p.malformed(s)
		}
		entries++
		e, ok := p.parse(TrimOWS(text))
		if !ok {
			continue
		}
		if e.hasTimestamp {
			s.timestamp = e.timestamp
			stamps++
		}
		switch sig, refusal := p.decode(e); refusal {
		case "":
			sigs = append(sigs, sig)
		case AlgorithmNotAllowed:
			code = refusal
		}
	}
	switch {
	case stamps > 1:
		return nil, 0, p.malformed(s)
	case len(sigs) == 0:
		return nil, 0, &Error{Code: code, Component: p.headers[s.header], Err: p.otherNames(value)}
	}
	return sigs, stamps, nil
}

// otherNames says that a list has none of the names of signatures, or returns nil.
func (p *hmacPlan) otherNames(value string) error {
	var wanted, has []string
	for _, e := range p.entries {
		if name := entryName(e[0].literal); name != "" && !e.holds(partTimestamp) {
			wanted = append(wanted, name)
		}
	}
	for more := p.Separator != "" && len(wanted) > 0; more && len(has) < maxNames; {
		var text string
		text, value, more = p.cut(value)
		if name := entryName(TrimOWS(text)); slices.Contains(wanted, name) {
			return nil
		} else if name != "" {
			has = append(has, name)
		}
	}
	if len(has) == 0 {
		return nil
	}
	return reason("no " + strings.Join(wanted, " or ") + " in the field; it has " + strings.Join(has, ", "))
}

const (
	maxNames = 8 // of entries in an error
	maxName  = 8 // bytes of one; a longer one may be a part of a signature
)

// entryName returns the name before the value of an entry, such as v1 in "v1=...", or "".
func entryName(text string) string {
	i := strings.IndexAny(text, "=,:")
	if i <= 0 || i > maxName || strings.IndexFunc(text[:i], func(r rune) bool {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) >= 0 {
		return ""
	}
	return text[:i]
}

func (p *hmacPlan) malformed(s *signatureHead) *Error {
	return &Error{Code: SignatureMalformed, Component: p.headers[s.header]}
}

func (p *hmacPlan) cut(value string) (first, rest string, more bool) {
	if p.Separator == "" {
		return value, "", false
	}
	return strings.Cut(value, p.Separator)
}

func (p *hmacPlan) parse(text string) (entry, bool) {
	for _, pattern := range p.entries {
		if e, ok := pattern.match(text); ok {
			return e, true
		}
	}
	return entry{}, false
}

// decode decodes the signature of an entry, or returns why it is unusable. Without a key of its
// kind a signature is unusable: it was not compared, so it is not reported as a mismatch.
func (p *hmacPlan) decode(e entry) (signature, Code) {
	s := signature{hash: p.hash, kid: e.kid}
	text := e.sig
	switch {
	case e.ed25519 != "" && len(p.PublicKeys) > 0:
		s.hash, text = "", e.ed25519
	case e.ecdsa != "" && len(p.ECDSAKeys) > 0:
		s.hash, s.ecdsa, text = "", true, e.ecdsa
	case e.ed25519 != "" || e.ecdsa != "" || len(p.keys) == 0:
		return s, SignatureMalformed
	case e.alg != "":
		if s.hash = Hash(strings.ToLower(e.alg)); newHash[s.hash] == nil {
			return s, SignatureMalformed
		}
	}
	var buf [2 * sha512.Size]byte
	b, ok := p.Encoding.decode(buf[:0], text)
	if !ok {
		return s, SignatureMalformed
	}
	s.length = len(b)
	copy(s.bytes[:], b)
	if e.alg != "" && !slices.Contains(p.hashes, s.hash) {
		return s, AlgorithmNotAllowed
	}
	return s, ""
}

func (p *hmacPlan) readID(r *http.Request, name string) (string, error) {
	id, _, err := field(r, name)
	if err == nil && id == "" {
		err = &Error{Code: IDMissing, Component: name}
	}
	for i, q := range p.template {
		if err == nil && q.kind == partID {
			err = p.checkValue(i, name, id)
		}
	}
	return id, err
}

func (p *hmacPlan) parseTime(s string) (time.Time, bool) {
	if p.timeDigits > 0 && len(s) != p.timeDigits { // the content shows where it ends by its length
		return time.Time{}, false
	}
	return p.TimestampUnit.read(s)
}

// match compares every signature with every key. It returns the id and the position of the key that
// made one, from 1; 0 if none did. If no key has the id of a signature, one MAC is computed anyway,
// so the time does not reveal which keys exist.
func (p *hmacPlan) match(sigs []signature, content segments) (string, int) {
	var buf [sha512.Size]byte
	computed := false
	for at, k := range p.keys {
		for _, h := range p.tried {
			if !slices.ContainsFunc(sigs, func(x signature) bool { return x.hash == h && x.kid == k.id }) {
				continue
			}
			sum := k.sum(buf[:0], h, content)
			computed = true
			for i := range sigs {
				x := &sigs[i]
				if x.hash == h && x.kid == k.id && x.length == len(sum) && hmac.Equal(x.bytes[:x.length], sum) {
					return k.id, at + 1
				}
			}
		}
	}
	if i := slices.IndexFunc(sigs, func(x signature) bool { return x.hash != "" }); i >= 0 && !computed {
		p.keys[0].sum(buf[:0], sigs[i].hash, content)
	}
	return "", matchPublic(p, sigs, content)
}

// maxECDSA is the length of the longest signature with P-256: the DER of two integers of 33 bytes.
const maxECDSA = 72

// matchPublic returns the position of the public key of its kind that made one of the signatures,
// from 1; 0 if none did.
func matchPublic(p *hmacPlan, sigs []signature, content segments) int {
	var joined, digest []byte
	tried, most := 0, maxPublicChecks*(len(p.PublicKeys)+len(p.ECDSAKeys))
	for i := range sigs {
		x := &sigs[i]
		switch {
		case x.hash != "" || x.length > maxECDSA:
			continue
		case x.ecdsa:
			if digest == nil {
				digest = digestOf(content)
			}
			for at, k := range p.ECDSAKeys {
				if tried++; tried > most {
					return 0
				}
				if ecdsa.VerifyASN1(k, digest, bytes.Clone(x.bytes[:x.length])) {
					return at + 1
				}
			}
			continue
		case x.length != ed25519.SignatureSize:
			continue
		case joined == nil:
			joined = bytes.Join(content, nil)
		}
		for at, k := range p.PublicKeys {
			if tried++; tried > most {
				return 0
			}
			if ed25519.Verify(k, joined, bytes.Clone(x.bytes[:x.length])) { // the copy keeps sigs off the heap
				return at + 1
			}
		}
	}
	return 0
}
