package verify

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/eyelet-dev/eyelet/internal/duration"
)

// The input parser runs before anything expensive. It reads Signature-Input and Signature once,
// knows every component and parameter that may be signed, and refuses the rest with a typed error
// before a key is looked up.

// Bounds of the signature fields and of the work that they cause.
const (
	maxSignatureFields = 8 << 10 // bytes of Signature-Input and Signature together
	maxComponents      = 32
	maxLabels          = 32       // members of each field
	maxSignatures      = 8        // signatures examined, and keys they are checked against
	maxVerified        = 2        // signatures checked against keys
	maxBase            = 64 << 10 // bytes of all signature bases of a request, and of a query
	maxStructured      = 8 << 10  // bytes of a request parsed for sf, key and name parameters
	maxMarks           = 256      // characters in them that begin a value
)

// derivedComponents are those that a request may sign (RFC 9421 section 2.2). @request-target is
// not one of them: servers and proxies disagree about it, and @method, @path and @query cover it.
var derivedComponents = map[string]bool{
	"@method": true, "@target-uri": true, "@authority": true, "@scheme": true, "@path": true, "@query": true,
	"@query-param": true,
}

// component is a covered component (RFC 9421 section 2).
type component struct {
	name   string // lower-case field name, or "@..."
	sf, bs bool
	keyed  bool     // has ;key or ;name
	key    string   // the dictionary member (;key) or, for @query-param, the parameter (;name)
	id     string   // the identifier in the base: the quoted name and its parameters
	lines  []string // of the field in the request; set by message.base
}

// coversAll reports whether the component binds every octet of the field or part.
func (c *component) coversAll() bool { return !c.keyed && (!c.sf || c.isString()) }

// isString reports whether the component is a field whose structured type is known to be a String,
// so ;sf means its canonical form. No other form of it is accepted, so every octet is bound.
func (c *component) isString() bool { return c.sf && !c.keyed && c.name == "idempotency-key" }

// same reports whether two components are equal, in whatever order their parameters come.
func (c *component) same(o *component) bool {
	return o.name == c.name && o.sf == c.sf && o.bs == c.bs && o.keyed == c.keyed && o.key == c.key
}

type signatureInput struct {
	label      string
	input      string // the label and the list of Signature-Input, as received; empty if it is not a list
	signature  string // the label and the byte sequence of Signature; empty if it is not one
	encoding   *base64.Encoding
	paired     bool // the label is in both fields
	components []component
	list       string // the list in canonical form
	params     string // the list and its parameters in canonical form: the value of @signature-params
	refusal    *Error // what is wrong with the two members

	signedAt                                         time.Time // as the scheme reads it
	created, expires                                 int64
	keyID, nonce, alg, tag                           string
	hasCreated, hasExpires, hasKeyID, hasAlg, hasTag bool
}

// member returns the member of Signature-Input as received: the list and its parameters.
func (in *signatureInput) member() string { return in.input[len(in.label)+len("="):] }

// byteSequence returns the member of Signature without parameters: ":base64:".
func (in *signatureInput) byteSequence() string { return in.signature[len(in.label)+len("="):] }

// withoutParams returns a signature base up to the parameters of the signature.
func (in *signatureInput) withoutParams(base []byte) []byte {
	return base[:len(base)-(len(in.params)-len(in.list))]
}

// refuse keeps the first refusal.
func (in *signatureInput) refuse(err *Error) {
	if in.refusal == nil {
		in.refusal = err
	}
}

// signatureFields are the parsed signature fields of a request.
type signatureFields struct {
	inputs     []signatureInput
	components []component // of all inputs
}

// clear drops what was parsed and keeps the memory.
func (f *signatureFields) clear() {
	clear(f.inputs)
	clear(f.components)
	f.inputs, f.components = f.inputs[:0], f.components[:0]
}

// read reads both fields and pairs their members by label. No field at all is signature_missing;
// anything but two well-formed Dictionaries, each label once, is signature_malformed as a whole. A
// label in one of the fields refuses that signature alone (RFC 9421 section 3.2). Of the lists with
// this label, or with any if it is empty, the first ones up to the limit are parsed; of the others
// only the syntax is checked.
//
// The octets of these signatures are in the encoding: base64, with its padding or without (RFC 9651
// section 4.2.7), or base64url.
func (f *signatureFields) read(h http.Header, label string, limit int, encoding Encoding) error {
	inputs, signatures := h["Signature-Input"], h["Signature"]
	if len(inputs) == 0 && len(signatures) == 0 {
		return &Error{Code: SignatureMissing}
	}
	size := 0
	for _, lines := range [2][]string{inputs, signatures} {
		for _, line := range lines {
			size += len(line) + len(", ")
		}
	}
	if size > maxSignatureFields {
		return overLimit("signature-input", "the signature fields are larger than 8 KiB")
	}
	if !f.readInputs(joinLines(inputs), label, limit) {
		return malformed("signature-input", "not a dictionary with each label once")
	}
	if !f.readSignatures(joinLines(signatures), label, encoding) {
		return malformed("signature", "not a dictionary with each label once")
	}
	if len(f.inputs) == 0 {
		return &Error{Code: SignatureMissing}
	}
	for i := range f.inputs {
		if in := &f.inputs[i]; !in.paired {
			in.refusal = malformed("signature", "the label is only in signature-input")
		}
	}
	return nil
}

func (f *signatureFields) find(label string) *signatureInput {
	for i := range f.inputs {
		if f.inputs[i].label == label {
			return &f.inputs[i]
		}
	}
	return nil
}

// tagged returns how many signatures have the tag, of those that are examined.
func (f *signatureFields) tagged(tag string) (n int) {
	for i := range f.inputs {
		if f.inputs[i].tag == tag {
			n++
		}
	}
	return n
}

func (f *signatureFields) readInputs(text, label string, limit int) bool {
	p := sfScanner{s: text}
	for {
		more, ok := p.nextMember(len(f.inputs) == 0)
		if !more {
			return ok
		}
		start := p.i
		key, ok := p.key()
		if !ok || len(f.inputs) == maxLabels || f.find(key) != nil {
			return false
		}
		f.inputs = append(f.inputs, signatureInput{label: key})
		in := &f.inputs[len(f.inputs)-1]
		list := strings.HasPrefix(text[p.i:], "=(")
		if list && limit > 0 && (label == "" || label == key) {
			limit--
			ok = f.readList(&p, in)
		} else {
			ok = p.value(&sfMember{})
		}
		switch {
		case !ok:
			return false
		case list:
			in.input = text[start:p.i]
		default:
			in.refuse(malformed("signature-input", "the member is not a list of components"))
		}
	}
}

// readSignatures pairs the members of Signature with the inputs. One without an input becomes one
// that is refused.
func (f *signatureFields) readSignatures(text, label string, encoding Encoding) bool {
	p := sfScanner{s: text}
	for first := true; ; first = false {
		more, ok := p.nextMember(first)
		if !more {
			return ok
		}
		start := p.i
		key, ok := p.key()
		p.octets = unpadded
		if encoding == Base64URL && (label == "" || label == key) {
			p.octets = unpaddedURL
		}
		var m sfMember
		ok = ok && p.value(&m)
		in := f.find(key)
		switch {
		case !ok || in != nil && in.paired || in == nil && len(f.inputs) == maxLabels:
			return false
		case in == nil:
			alone := malformed("signature-input", "the label is only in signature")
			f.inputs = append(f.inputs, signatureInput{label: key, paired: true, refusal: alone})
			continue
		}
		in.paired, in.encoding = true, p.octets
		if m.item.kind == sfBytes {
			in.signature = text[start : start+len(key)+len("=")+len(m.item.text)]
		} else if in.input != "" {
			in.refusal = malformed("signature", "the member is not a byte sequence")
		}
	}
}

// parseInput parses one member of Signature-Input. It returns false if it is not one list.
func parseInput(text string) (*signatureInput, bool) {
	var f signatureFields
	if !f.readInputs(text, "", 1) || len(f.inputs) != 1 || f.inputs[0].input == "" {
		return nil, false
	}
	return &f.inputs[0], true
}

// joinLines joins the lines of a field into one value (RFC 9110 section 5.2).
func joinLines(lines []string) string {
	if len(lines) == 1 {
		return lines[0]
	}
	return strings.Join(lines, ", ")
}

func malformed(component, why string) *Error {
	return &Error{Code: SignatureMalformed, Component: component, Err: reason(why)}
}

// overLimit refuses what exceeds a limit. The sender may see the limit.
func overLimit(component, limit string) *Error {
	return &Error{Code: SignatureMalformed, Component: component, Err: Public(limit)}
}

func unsupported(component, why string) *Error {
	return &Error{Code: ComponentUnsupported, Component: component, Err: reason(why)}
}

// reason is a private cause in our own words.
type reason string

// Error implements error.
func (r reason) Error() string { return string(r) }

// readList parses a list and its parameters. It returns false if the syntax is wrong; what else
// is wrong becomes the refusal of the input, of which then only the syntax is checked.
func (f *signatureFields) readList(p *sfScanner, in *signatureInput) bool {
	p.i += len("=")
	start, first := p.i, len(f.components)
	p.extra = false
	p.skip('(')
	for more := p.nextItem(0); more; more = p.nextItem(1) {
		if len(f.components)-first == maxComponents {
			in.refuse(overLimit("signature-input", "more than 32 components"))
		}
		if in.refusal != nil {
			if !p.item() {
				return false
			}
			continue
		}
		c, refusal, ok := parseComponent(p)
		if !ok {
			return false
		}
		if refusal == nil && slices.ContainsFunc(f.components[first:], func(o component) bool { return c.same(&o) }) {
			refusal = malformed(c.name, "the component is covered twice")
		}
		in.refuse(refusal)
		f.components = append(f.components, c)
	}
	in.components = f.components[first:len(f.components):len(f.components)]
	if len(in.components) == 0 {
		in.refuse(&Error{Code: InsufficientCoverage, Err: reason("the signature covers nothing")})
	}
	if !p.skip(')') {
		return false
	}
	in.list = p.s[start:p.i]
	if !in.parseParams(p) {
		return false
	}
	if in.params = p.s[start:p.i]; p.extra {
		in.list, in.params = canonical(in.list), canonical(in.params)
	}
	in.refuse(in.checkTimes())
	return true
}

// parseComponent returns false if the syntax is wrong.
func parseComponent(p *sfScanner) (c component, refusal *Error, ok bool) {
	start := p.i
	item, ok := p.bareItem()
	name, isString := item.str()
	switch {
	case !ok:
		return c, nil, false
	case !isString:
		refusal = malformed("signature-input", "a component identifier is not a string")
	default:
		refusal = checkName(name)
	}
	c.name = name
	for {
		key, value, more, ok := p.param()
		if !ok {
			return c, nil, false
		}
		if !more {
			break
		}
		if refusal == nil {
			refusal = c.set(key, value)
		}
	}
	if refusal == nil && c.name == "@query-param" && !c.keyed {
		refusal = malformed(c.name, "the name of the parameter is missing")
	}
	if c.id = p.s[start:p.i]; p.extra {
		c.id = canonical(c.id)
	}
	return c, refusal, true
}

func checkName(name string) *Error {
	switch derived := strings.HasPrefix(name, "@"); {
	case derived && !derivedComponents[name]:
		return unsupported(name, "not a derived component that a request may sign")
	case name == "":
		return unsupported(name, "an empty name")
	case !derived && (!IsToken(name) || strings.ContainsFunc(name, unicode.IsUpper)):
		return unsupported(name, "not a field name in lower case")
	}
	return nil
}

func (c *component) set(key string, value sfItem) *Error {
	derived := c.name[0] == '@'
	switch {
	case key == "req" || key == "tr":
		return unsupported(c.name, "req and tr do not apply to the head of a request")
	case key == "name" && c.name == "@query-param", key == "key" && !derived:
		s, ok := value.str()
		if !ok {
			return malformed(c.name, "the parameter is not a string")
		}
		if c.keyed {
			return malformed(c.name, "a parameter occurs twice")
		}
		c.keyed, c.key = true, s
	case (key == "sf" || key == "bs") && !derived:
		if !value.flag() {
			return malformed(c.name, "the parameter is not a flag")
		}
		if key == "sf" && c.sf || key == "bs" && c.bs {
			return malformed(c.name, "a parameter occurs twice")
		}
		c.sf, c.bs = c.sf || key == "sf", c.bs || key == "bs"
	default:
		return unsupported(c.name, "a parameter that the component does not have")
	}
	if c.bs && (c.sf || c.keyed) {
		return unsupported(c.name, "bs cannot go with sf or key")
	}
	return nil
}

// parseParams returns false if the syntax is wrong.
func (in *signatureInput) parseParams(p *sfScanner) bool {
	var seen [16]string
	for n := 0; ; n++ {
		key, value, more, ok := p.param()
		switch {
		case !ok || !more:
			return ok
		case in.refusal != nil:
		case n == len(seen):
			in.refuse(overLimit("signature-input", "too many parameters"))
		case slices.Contains(seen[:n], key):
			in.refuse(malformed("signature-input", "a parameter occurs twice"))
		default:
			seen[n] = key
			in.refuse(in.setParam(key, value))
		}
	}
}

// setParam sets a signature parameter with a meaning (RFC 9421 section 2.3). Others are only
// signed.
func (in *signatureInput) setParam(key string, value sfItem) *Error {
	switch key {
	case "created":
		return value.timeTo(key, &in.created, &in.hasCreated)
	case "expires":
		return value.timeTo(key, &in.expires, &in.hasExpires)
	case "keyid":
		return value.textTo(key, &in.keyID, &in.hasKeyID)
	case "nonce":
		return value.textTo(key, &in.nonce, new(bool))
	case "alg":
		return value.textTo(key, &in.alg, &in.hasAlg)
	case "tag":
		return value.textTo(key, &in.tag, &in.hasTag)
	}
	return nil
}

// timeTo sets a time in seconds since 1970.
func (i sfItem) timeTo(key string, to *int64, has *bool) *Error {
	*to, _ = strconv.ParseInt(i.text, 10, 64)
	*has = i.kind == sfInteger && *to >= 0
	if !*has {
		return &Error{Code: TimestampMalformed, Component: key}
	}
	return nil
}

func (i sfItem) textTo(key string, to *string, has *bool) *Error {
	if *to, *has = i.str(); !*has {
		return malformed(key, "the parameter is not a string")
	}
	return nil
}

// checkTimes refuses a signature that expires before it was created. [Tolerance.Check] checks
// everything else about time.
func (in *signatureInput) checkTimes() *Error {
	if in.hasCreated && in.hasExpires && in.expires < in.created {
		why := reason("it expires before it was created")
		return &Error{Code: TokenExpired, KeyID: in.keyID, Component: "expires", Err: why}
	}
	return nil
}

// has reports whether the signature has one of the parameters of [RFC9421.Params].
func (in *signatureInput) has(param string) bool {
	return param == "alg" && in.hasAlg || param == "expires" && in.hasExpires || param == "nonce" && in.nonce != ""
}

// checkAge refuses a signature that is not valid after its time, or too long; 0 is no limit.
func (in *signatureInput) checkAge(most time.Duration) *Error {
	if most == 0 || !in.hasExpires {
		return nil
	}
	if lasts := time.Unix(in.expires, 0).Sub(in.signedAt); lasts <= 0 || lasts > most {
		why := Public("expires must be after the time of signing, and at most " + duration.Rough(most) + " after it")
		return &Error{Code: TokenExpired, KeyID: in.keyID, Component: "expires", Err: why}
	}
	return nil
}

// SentSignature is one signature of a received request (RFC 9421), to forward with another
// request. The intermediary must decide whether it still verifies there: every covered
// component must have the same value.
type SentSignature struct{ in signatureInput }

// SentSignatures returns the well-formed signatures of a request, at most 8, in the order of
// Signature-Input. None of them is verified.
func SentSignatures(h http.Header) []SentSignature { return sentSignatures(h, Base64) }

func sentSignatures(h http.Header, encoding Encoding) []SentSignature {
	var f signatureFields
	if f.read(h, "", maxLabels, encoding) != nil {
		return nil
	}
	var sent []SentSignature
	for i := range f.inputs {
		if len(sent) < maxSignatures && f.inputs[i].refusal == nil {
			sent = append(sent, SentSignature{f.inputs[i]})
		}
	}
	return sent
}

// Label returns the label of the signature.
func (s *SentSignature) Label() string { return s.in.label }

// KeyID returns the parameter keyid, or "".
func (s *SentSignature) KeyID() string { return s.in.keyID }

// Covers returns the names of the covered components, each once: field names in lower case, and
// derived components such as "@method".
func (s *SentSignature) Covers() []string {
	var names []string
	for i := range s.in.components {
		if name := s.in.components[i].name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// AddTo adds the signature, octet for octet, to the signature fields of a header. No signature
// covers its own label, so an intermediary may choose another (RFC 9421 section 7.2.5).
func (s *SentSignature) AddTo(h http.Header, label string) {
	setMember(h, "Signature-Input", label, s.in.member())
	setMember(h, "Signature", label, s.in.byteSequence())
}

// octets decodes the signature into a buffer. Its text was checked by the parser.
func (in *signatureInput) octets(buffer []byte) []byte {
	text := strings.TrimRight(strings.Trim(in.byteSequence(), ":"), "=")
	octets, _ := in.encoding.AppendDecode(buffer[:0], []byte(text))
	return octets
}
