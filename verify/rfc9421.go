package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// RFC9421 verifies HTTP Message Signatures (RFC 9421). The value is used by pointer and not
// changed after its first use.
//
//	&verify.RFC9421{Keys: verify.StaticKeys(key)}
//
// The head comes first: the body is read only after a signature over the head was verified, and
// must then match the signed Content-Digest (RFC 9530).
//
// Not accepted, although RFC 9421 defines them: @request-target, the parameters req and tr, sf
// on fields other than Dictionaries, and request lines in absolute form.
//
// The work per request is bounded. Of any number of signatures 8 are examined and 2 verified;
// all signature bases together have at most 64 KiB, and sf, key and @query-param parse at most
// 8 KiB. A signature with an unknown key costs as much as one with a known key.
type RFC9421 struct {
	// Keys are the producer's keys. With [Directories] each signature must name its directory.
	// Required.
	Keys KeySet
	// Label is the label of the signature to look at. Defaults to any, because labels have no
	// meaning (RFC 9421 section 7.2.5). Of the first 8 signatures, 2 with known keys are
	// verified in turn, and one valid signature is enough.
	Label string `conf:"label"`
	// Tag, if set, is the tag that a signature must carry (RFC 9421 section 7.2.7). Defaults to
	// "web-bot-auth" with [Directories], else to none.
	Tag string `conf:"tag"`
	// OneTag refuses a message with several signatures of the Tag (signature_malformed).
	OneTag bool
	// BoundKey is the key id of signatures without keyid. Defaults to none: keyid is then required.
	BoundKey    string
	Coverage    Coverage // what a signature must cover; defaults to the profile of [Coverage.Rules]
	KeyRequired bool     // refuses requests without an Idempotency-Key (id_missing)
	Algs        []Alg    `conf:"alg,nonempty"` // the accepted algorithms; defaults to all but rsa-v1_5-sha256
	// Encoding is that of the octets in Signature: Base64 (the default), with its padding or not
	// (RFC 9651 section 4.2.7), or Base64URL. It holds for the Label only.
	Encoding Encoding
	// TimestampHeader is the field with the time of signing, for senders that sign no created. It
	// must be covered, on one line, and in the form of TimestampUnit. Date has its own form (RFC
	// 9110 section 5.6.7). Defaults to none: created is then required.
	TimestampHeader string
	TimestampUnit   TimeUnit `conf:"timestamp_unit"` // defaults to Seconds
	// NoTime means that the sender signs no time that identifies a message. Identity.SignedAt is
	// then zero for all of its deliveries, and Identity.Stable names them, so that another
	// signature of the same message is no other event.
	NoTime bool
	// DER means that ECDSA signatures are a sequence of r and s in DER (RFC 3279 section 2.2.3),
	// and not both side by side (RFC 9421 section 3.3.4).
	DER bool
	// MaxAge is how long a signature may be valid. One that expires at its time or before, or more
	// than MaxAge after it, is refused; one without expires ends MaxAge after its time. Defaults
	// to no limit beside that of [Tolerance].
	MaxAge time.Duration `conf:"max_age"`
	// Params are further parameters that a signature must have: "alg", "expires" or "nonce".
	Params []string
	// NormalPath means that the path is signed in normal form: hexadecimal digits in capitals, and
	// characters decoded that need no encoding (RFC 3986 section 6.2.2). It is for senders that do
	// not sign the path as they send it.
	NormalPath bool

	once   sync.Once
	rules  []CoverageRule
	engine engine
	err    error
}

const defaultLabel = "sig1"

var (
	publicAlgs  = []Alg{Ed25519, ECDSAP256SHA256, ECDSAP384SHA384, RSAPSSSHA512}
	defaultAlgs = append([]Alg{HMACSHA256}, publicAlgs...)
)

// Check reports all errors of the configuration. Until they are fixed, Verify refuses every
// request.
func (s *RFC9421) Check() error {
	s.once.Do(func() {
		s.rules = s.coverageRules()
		s.err = s.check()
		if s.engine == nil && s.err == nil {
			s.engine, s.err = newHTTPSignEngine()
		}
	})
	return s.err
}

func (s *RFC9421) check() error {
	var errs errorList
	errs.addIf(s.Keys == nil, "no keys")
	label := &sfScanner{s: s.Label}
	_, ok := label.key()
	errs.addIf(s.Label != "" && (!ok || !label.end()), "label %q is not a key of a dictionary", s.Label)
	for _, text := range []string{s.Tag, s.BoundKey} {
		wrong := strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
		errs.addIf(wrong, "%q holds characters that no signature parameter can hold", text)
	}
	errs.addIf(s.Encoding != "" && s.Encoding != Base64 && s.Encoding != Base64URL,
		"encoding %q is neither base64 nor base64url", s.Encoding)
	errs.addIf(s.MaxAge < 0, "a negative age of signatures")
	for _, name := range s.Params {
		errs.addIf(!slices.Contains([]string{"alg", "expires", "nonce"}, name), "parameter %q cannot be required", name)
	}
	errs.addIf(s.TimestampHeader != "" && !IsToken(s.TimestampHeader), "%q is not a field name", s.TimestampHeader)
	errs.addIf(s.datesBy() && s.TimestampUnit != Seconds, "Date has a form of its own")
	errs.addIf(s.TimestampHeader == "" && s.TimestampUnit != Seconds,
		"the form of a time without the field that has it")
	errs.addIf(s.NoTime && s.MaxAge != 0, "an age of signatures that have no time")
	errs.addIf(s.TimestampHeader != "" && s.NoTime, "both a field with the time and no time")
	_, err := s.TimestampUnit.MarshalText()
	errs.addIf(err != nil, "timestamp unit: %w", err)
	for _, alg := range s.Algs {
		known := alg == RSAv15SHA256 || slices.Contains(defaultAlgs, alg)
		errs.addIf(!known, "algorithm %q is not known", alg)
	}
	return errors.Join(append(errs, s.Coverage.Check())...)
}

// coverageRules returns the rules in force: those of the coverage, and that of the time.
func (s *RFC9421) coverageRules() []CoverageRule {
	rules := s.Coverage.Rules()
	if s.TimestampHeader != "" {
		names := [][]string{{strings.ToLower(s.TimestampHeader)}}
		rules = append(rules, CoverageRule{Always, names, "the request could be repeated later"})
	}
	return rules
}

// WithCoverage returns a copy of the scheme, which may be in use, with another coverage.
func (s *RFC9421) WithCoverage(c Coverage) *RFC9421 {
	out := settings(s)
	out.Coverage = c
	return out
}

// SignsURL reports whether signatures bind the scheme or host of the URL. The receiver must
// then know its public URL: the connection only has what an unauthenticated client claims.
func (s *RFC9421) SignsURL() bool { return !s.Coverage.Pinned.URL }

// Binds implements [Binder].
func (s *RFC9421) Binds() Binding {
	covered := append([]string{"@body"}, s.Coverage.Required...)
	switch pinned := s.Coverage.Pinned; {
	case pinned.URL && !pinned.Query:
		covered = append(covered, "@query")
	case pinned.URL:
	case pinned.Query:
		covered = append(covered, "@authority", "@path")
	default:
		covered = append(covered, "@authority", "@path", "@target-uri")
	}
	for _, rule := range s.Coverage.Pinned.rules() {
		if len(rule.AnyOf) == 1 && rule.When != WithoutBody && rule.When != OtherType {
			covered = append(covered, rule.AnyOf[0]...)
		}
	}
	if s.TimestampHeader != "" {
		covered = append(covered, strings.ToLower(s.TimestampHeader))
	}
	return Binding{
		Content: true, Time: !s.NoTime, TimeField: strings.ToLower(s.TimestampHeader),
		Covered: append(covered, s.Coverage.Consumed...), Principals: principalsOf(s.Keys),
	}
}

// stage is how far a signature came before it was refused. Of several refusals the furthest is
// reported.
type stage int

const (
	stageParse stage = iota + 1
	stageTag
	stageCoverage
	stageKey
	stageAlg
	stageSignature
	stageBody
	stageUnavailable // the key may exist but cannot be fetched: the sender should try again
	stageBodyUnread  // ends the verification
)

// Verify implements [Scheme]. Identity.Signed is the SHA-256 of the signature base. A message
// that is sent again has the same digest, whatever the label or the order of its fields. Signed
// is nil if nothing binds the body.
func (s *RFC9421) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	if err := s.Check(); err != nil {
		return Identity{}, &Error{Code: KeysUnavailable, Err: err}
	}
	return s.verify(s.rules, nil, r, body)
}

// verify verifies a request under rules for the coverage. An edit, which only an [Alternative] has,
// makes what is signed in place of the signature base.
func (s *RFC9421) verify(rules []CoverageRule, edit func(base string) string, r *http.Request,
	body func() ([]byte, error),
) (Identity, error) {
	v := verifications.Get().(*verification)
	v.scheme, v.rules, v.edit, v.body = s, rules, edit, body
	id, err := v.run(r)
	if v.reset() {
		verifications.Put(v)
	}
	return id, err
}

// verification is the state of one Verify call: the furthest refusal and the work done.
type verification struct {
	buffers
	scheme    *RFC9421
	rules     []CoverageRule
	edit      func(base string) string // of the signature base, or nil
	body      func() ([]byte, error)
	m         message
	seen      int          // signatures examined
	tried     int          // signatures checked against keys
	keysTried int          // keys they were checked against
	asked     int          // directories that were asked for keys
	unknown   []unknownKey // signatures whose key is unknown or does not fit
	stage     stage
	err       error
}

// buffers are used by one Verify call after another. Between calls they refer to no request.
type buffers struct {
	fields       signatureFields
	prefixed     []prefixedFields
	lastBase     []byte
	lastOctets   []byte // of a signature
	coverRequest coveredRequest
}

// maxPooled is the number of bytes above which a signature base is not used again.
const maxPooled = 4 << 10

var verifications = sync.Pool{New: func() any { return new(verification) }}

// reset prepares the verification for another request. It returns false if its buffers are
// larger than most requests need.
func (v *verification) reset() bool {
	if cap(v.lastBase) > maxPooled || len(v.fields.components) > maxComponents || len(v.m.prefixed) > maxComponents {
		return false
	}
	v.coverRequest.clear()
	v.fields.clear()
	clear(v.m.prefixed)
	v.prefixed = v.m.prefixed[:0]
	v.scheme, v.rules, v.edit, v.body = nil, nil, nil, nil
	v.m, v.unknown, v.err = message{}, nil, nil
	v.seen, v.tried, v.keysTried, v.asked, v.stage = 0, 0, 0, 0, 0
	return true
}

func (v *verification) run(r *http.Request) (Identity, error) {
	s := v.scheme
	if err := v.fields.read(r.Header, s.Label, maxSignatures, s.Encoding); err != nil {
		return Identity{}, err
	}
	if s.OneTag && v.fields.tagged(s.Tag) > 1 {
		return Identity{}, malformed("signature-input", "more than one signature has the tag")
	}
	m, err := newMessage(r)
	if err != nil {
		return Identity{}, err
	}
	if s.NormalPath {
		m.normalizePath()
	}
	m.prefixed = v.prefixed
	v.m = m
	for i := range v.fields.inputs {
		in := &v.fields.inputs[i]
		if s.Label != "" && in.label != s.Label {
			continue
		}
		if id, ok := v.try(r.Context(), in); ok {
			return id, nil
		}
		if v.stage == stageBodyUnread {
			return Identity{}, v.err
		}
	}
	v.refuseUnknown(r.Context())
	if v.err == nil {
		return Identity{}, &Error{Code: SignatureMissing, Err: fmt.Errorf("no signature has the label %q", s.Label)}
	}
	return Identity{}, v.err
}

// unknownKey is a signature that none of our keys can have made, and its refusal.
type unknownKey struct {
	in  *signatureInput
	at  stage
	err error
}

func (v *verification) refuse(at stage, err error) (Identity, bool) {
	if at > v.stage {
		v.stage, v.err = at, err
	}
	return Identity{}, false
}

// try verifies one signature. Cheap checks come first, and faults of the request are found
// before its key is looked up.
func (v *verification) try(ctx context.Context, in *signatureInput) (Identity, bool) {
	if v.seen++; v.seen > maxSignatures {
		return v.refuse(stageParse, malformed("signature-input", "too many signatures to try"))
	}
	if in.refusal != nil {
		return v.refuse(stageParse, in.refusal)
	}
	if err := v.checkParams(in); err != nil {
		return v.refuse(stageTag, err)
	}
	if err := checkCoverage(v.rules, v.scheme.Coverage.Pinned, &v.m, in); err != nil {
		err.KeyID = in.keyID
		return v.refuse(stageCoverage, err)
	}
	agent, refusal := v.agent(in)
	if refusal != nil {
		return v.refuse(stageCoverage, refusal)
	}
	keys, at, err := v.keys(ctx, in, agent)
	switch {
	case at == stageUnavailable:
		return v.refuse(at, err)
	case err != nil:
		v.unknown = append(v.unknown, unknownKey{in, at, err})
		return Identity{}, false
	case v.tried == maxVerified:
		return v.refuse(stageSignature, tooMany(in))
	}
	base, refusal := v.base(in)
	if refusal != nil {
		return v.refuse(stageCoverage, refusal)
	}
	key, refusal := v.verify(keys, base, in)
	if refusal != nil {
		return v.refuse(stageSignature, refusal)
	}
	bound, at, err := v.checkBody(in)
	if err != nil {
		return v.refuse(at, err)
	}
	if v.scheme.KeyRequired && len(v.m.lines("idempotency-key")) == 0 {
		return v.refuse(stageBody, &Error{Code: IDMissing, KeyID: in.keyID, Component: "idempotency-key"})
	}
	id, at, err := v.identity(key, in, base, bound)
	if err != nil {
		return v.refuse(at, err)
	}
	return id, true
}

// base returns the signature base, which is valid until the next call.
func (v *verification) base(in *signatureInput) ([]byte, *Error) {
	base, err := v.m.base(v.lastBase[:0], in)
	if err != nil {
		err.KeyID = in.keyID
		return nil, err
	}
	v.lastBase = base
	return base, nil
}

// signature returns the octets of the signature, which are valid until the next call.
func (v *verification) signature(in *signatureInput) []byte {
	v.lastOctets = in.octets(v.lastOctets)
	return v.lastOctets
}

// fitting returns the octets of a signature as the primitive of a key reads them.
func (v *verification) fitting(key *Key, octets []byte) []byte {
	if public, ok := key.Public().(*ecdsa.PublicKey); ok && v.scheme.DER {
		return sideBySide(public, octets)
	}
	return octets
}

// refuseUnknown refuses the signatures with unknown keys. It does the work of a signature with a
// known key, within the same limit, so neither the refusal nor its timing reveals which keys exist.
func (v *verification) refuseUnknown(ctx context.Context) {
	for i := range v.unknown {
		u := &v.unknown[i]
		if v.tried < maxVerified {
			base, refusal := v.base(u.in)
			if refusal != nil {
				v.refuse(stageCoverage, refusal)
				continue
			}
			v.tried++
			if decoy := v.decoy(ctx, u.in); decoy != nil {
				decoy.material.check(base, v.fitting(decoy, v.signature(u.in)))
			}
		}
		v.refuse(u.at, u.err)
	}
}

// decoy returns a key of the set to verify with instead of an unknown one, if possible one with
// the signature's algorithm. It returns nil if the set has no key.
func (v *verification) decoy(ctx context.Context, in *signatureInput) *Key {
	all := v.known(ctx)
	if fits, _ := v.usable(all, in); len(fits) > 0 {
		return &fits[0]
	}
	if i := slices.IndexFunc(all, func(k Key) bool { return k.material != nil }); i >= 0 {
		return &all[i]
	}
	return nil
}

func (v *verification) checkParams(in *signatureInput) *Error {
	if tag := v.scheme.tag(); tag != "" && (!in.hasTag || in.tag != tag) {
		return &Error{Code: InsufficientCoverage, KeyID: in.keyID, Component: "tag"}
	}
	var refusal *Error
	if in.signedAt, refusal = v.signedAt(in); refusal != nil {
		refusal.KeyID = in.keyID
		return refusal
	}
	if !in.hasKeyID {
		if v.scheme.BoundKey == "" {
			return &Error{Code: InsufficientCoverage, Component: "keyid"}
		}
		in.keyID = v.scheme.BoundKey
	}
	for _, name := range v.scheme.Params {
		if !in.has(name) {
			return &Error{Code: InsufficientCoverage, KeyID: in.keyID, Component: name}
		}
	}
	return in.checkAge(v.scheme.MaxAge)
}

// signedAt returns the time that the scheme reads; the zero time if it reads none.
func (v *verification) signedAt(in *signatureInput) (at time.Time, refusal *Error) {
	s := v.scheme
	switch name := strings.ToLower(s.TimestampHeader); {
	case s.NoTime:
		return time.Time{}, nil
	case name == "" && !in.hasCreated:
		return at, &Error{Code: TimestampMissing, Component: "created"}
	case name == "":
		return time.Unix(in.created, 0), nil
	default:
		lines := v.m.lines(name)
		if len(lines) == 0 {
			return at, &Error{Code: TimestampMissing, Component: name}
		}
		at, ok := s.readTime(TrimOWS(lines[0]))
		if !ok {
			return at, &Error{Code: TimestampMalformed, Component: name}
		}
		return at, nil
	}
}

// datesBy reports whether the field Date has the time, in its own form (RFC 9110 section 5.6.7).
func (s *RFC9421) datesBy() bool { return strings.EqualFold(s.TimestampHeader, "Date") }

func (s *RFC9421) readTime(text string) (time.Time, bool) {
	if s.datesBy() {
		at, err := time.Parse(http.TimeFormat, text)
		return at, err == nil && at.Format(http.TimeFormat) == text
	}
	return s.TimestampUnit.read(text)
}

func (s *RFC9421) formatTime(at time.Time) string {
	if s.datesBy() {
		return at.UTC().Format(http.TimeFormat)
	}
	return s.TimestampUnit.format(at)
}

// keys finds the keys with the signature's id, of the agent if there is one, whose algorithm is
// allowed.
func (v *verification) keys(ctx context.Context, in *signatureInput, agent string) ([]Key, stage, error) {
	if in.keyID == "" { // a key set would return all keys
		return nil, stageKey, &Error{Code: KeyUnknown}
	}
	found, err := v.lookup(ctx, in, agent)
	switch {
	case CodeOf(err) == KeyUnknown:
		return nil, stageKey, err
	case err != nil:
		return nil, stageUnavailable, err
	}
	usable, code := v.usable(found, in)
	if len(usable) == 0 {
		return nil, stageAlg, &Error{Code: code, KeyID: in.keyID}
	}
	return usable, 0, nil
}

// usable returns the keys whose algorithm is allowed and agrees with the signature's alg, or
// the code why there is none. The keys are not changed.
func (v *verification) usable(found []Key, in *signatureInput) ([]Key, Code) {
	algs := v.scheme.algs()
	code := KeyUnknown
	refused := func(k Key) bool {
		switch {
		case k.material == nil:
		case in.hasAlg && in.alg != string(k.material.alg):
			code = AlgorithmMismatch
		case !slices.Contains(algs, k.material.alg):
			code = AlgorithmNotAllowed
		default:
			return false
		}
		return true
	}
	if !slices.ContainsFunc(found, refused) {
		return found, code
	}
	return slices.DeleteFunc(slices.Clone(found), refused), code
}

// verify returns the key that made the signature. Our own signature base decides. The engine,
// which does more work than the bytes require, is asked second and must read the same, unless it
// is known to read the request differently from RFC 9421.
func (v *verification) verify(keys []Key, base []byte, in *signatureInput) (*Key, *Error) {
	v.tried++
	signature := v.signature(in)
	signed := base
	if v.edit != nil {
		signed = []byte(v.edit(string(base)))
	}
	for i := range keys {
		if v.keysTried++; v.keysTried > maxSignatures {
			return nil, tooMany(in)
		}
		octets := v.fitting(&keys[i], signature)
		if keys[i].material.check(signed, octets) {
			return v.confirm(&keys[i], base, in)
		}
	}
	return nil, &Error{Code: SignatureMismatch, KeyID: in.keyID}
}

// confirm returns the key that made the signature if the engine agrees.
func (v *verification) confirm(key *Key, base []byte, in *signatureInput) (*Key, *Error) {
	if !v.m.engineAgrees(in) {
		return key, nil
	}
	switch err := v.scheme.engine.agrees(in.list, v.coverRequest.set(&v.m, in), in.withoutParams(base)); {
	case err == nil:
		return key, nil
	case errors.Is(err, errBroken):
		return nil, &Error{Code: SignatureMalformed, KeyID: in.keyID}
	}
	return nil, &Error{Code: SignatureMismatch, KeyID: in.keyID}
}

func tooMany(in *signatureInput) *Error {
	return &Error{Code: SignatureMismatch, KeyID: in.keyID, Err: reason("too many signatures to verify")}
}

// checkBody reads the body if it must and compares it with the signed digest. It reports
// whether the signature binds the body.
func (v *verification) checkBody(in *signatureInput) (bound bool, at stage, err error) {
	covered := in.coversDigest()
	if !covered && !needsBody(v.rules) {
		return false, stageBody, nil
	}
	var digest contentDigest
	var refusal *Error
	if covered {
		lines := v.m.lines("content-digest")
		digest, refusal = parseContentDigest(lines)
		if refusal != nil && errors.Is(refusal, ErrDigestSyntax) && len(lines) > 1 { // such as an algorithm on each
			refusal = &Error{Code: AmbiguousField, Component: "content-digest"}
		}
	}
	if refusal == nil {
		body, err := v.body()
		switch {
		case err != nil:
			return false, stageBodyUnread, err
		case covered:
			refusal = digest.check(body)
		case len(body) > 0:
			refusal = uncoveredBody(&v.m)
		}
		switch {
		case refusal != nil:
		case v.scheme.Coverage.Pinned.Method != "" && len(body) == 0 && !in.covers("@method"):
			refusal = uncovered("@method")
		case needsBody(v.rules) && beginsCoded(body) && len(v.m.lines("content-encoding")) == 0:
			refusal = uncovered("content-encoding") // whose line was removed
		}
	}
	if refusal != nil {
		refusal.KeyID = in.keyID
		return false, stageBody, refusal
	}
	return covered, 0, nil
}

// beginsCoded reports whether a body begins as the codings that HTTP has in use do (RFC 1952
// section 2.3.1, RFC 1950 section 2.2 with its usual window, RFC 8878 section 3.1.1), which text
// does not.
func beginsCoded(body []byte) bool {
	zlib := len(body) > 1 && body[0] == 0x78 && slices.Contains([]byte{0x01, 0x5e, 0x9c, 0xda}, body[1])
	zstd := bytes.HasPrefix(body, []byte{0x28, 0xb5, 0x2f, 0xfd})
	return zlib || zstd || bytes.HasPrefix(body, []byte{0x1f, 0x8b, 8})
}

// identity returns what the signature proves, or an error as checkBody does.
func (v *verification) identity(key *Key, in *signatureInput, base []byte, bound bool) (Identity, stage, error) {
	id := Identity{
		KeyID: cmp.Or(key.ID, in.keyID), Principal: key.Principal, Label: in.label, Nonce: in.nonce,
		SignedAt: in.signedAt, Covered: coveredNames(in, bound),
	}
	if in.hasExpires {
		id.Expires = time.Unix(in.expires, 0)
	} else if age := v.scheme.MaxAge; age > 0 {
		id.Expires, id.ExpiredCode = id.SignedAt.Add(age), TimestampTooOld
	}
	if v.scheme.NoTime || v.scheme.TimestampHeader != "" {
		id.Created = unixTime(in.created, in.hasCreated)
	}
	if v.scheme.NoTime {
		body, err := v.body()
		if err != nil {
			return Identity{}, stageBodyUnread, err
		}
		id.Stable = v.stable(body)
		id.Signed = id.Stable
		return id, 0, nil
	}
	if bound || needsBody(v.rules) { // without a digest the body is empty
		sum := sha256.Sum256(base)
		id.Signed = sum[:]
	}
	return id, 0, nil
}

// stable digests the body and what the configuration always demands. Parameters of the signature,
// the form of the digest, what is pinned, and what only some signatures cover name no event: a
// client can leave them out where a request has two signatures.
func (v *verification) stable(body []byte) []byte {
	h := sha256.New()
	part := func(b []byte) { h.Write(append(strconv.AppendInt(nil, int64(len(b)), 10), ':')); h.Write(b) }
	sum := sha256.Sum256(body)
	part(sum[:])
	coverage := &v.scheme.Coverage
	names := slices.Clone(coverage.Required)
	if coverage.Pinned.Method == "" {
		names = append(names, "@method")
	}
	if !coverage.Pinned.URL {
		names = append(names, "@authority", "@path")
	}
	if !coverage.Pinned.Query {
		names = append(names, "@query")
	}
	for _, name := range names {
		if slices.Contains([]string{"content-digest", "content-length", "date"}, name) {
			continue // named by the body, or a time
		}
		c := component{name: name, lines: v.m.lines(name)}
		var value []byte
		if name[0] == '@' {
			value, _ = v.m.appendDerived(nil, &c)
		} else {
			value, _ = appendField(nil, &c)
		}
		part([]byte(name))
		part(value)
	}
	return h.Sum(nil)
}

// coveredNames lists what the signature binds: the name of a component of which it binds every
// octet, the name with its parameters otherwise, and the parts of @target-uri.
func coveredNames(in *signatureInput, bound bool) []string {
	names := make([]string, 0, len(in.components)+5)
	for i := range in.components {
		c := &in.components[i]
		if c.coversAll() {
			names = append(names, c.name)
		} else {
			names = append(names, c.name+c.id[len(c.name)+2:])
		}
	}
	if in.covers("@target-uri") {
		for _, part := range []string{"@scheme", "@authority", "@path", "@query"} {
			if !slices.Contains(names, part) {
				names = append(names, part)
			}
		}
	}
	if bound {
		names = append(names, "@body")
	}
	return names
}
