package verify

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The input parser runs before anything expensive. It reads Signature-Input and Signature in
// one pass each, knows every component and parameter that may be signed, and refuses the rest
// with a typed error before a key is looked up.

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

// signatureParams are the signature parameters with a meaning (RFC 9421 section 2.3) and their
// types. Others are only signed.
var signatureParams = map[string]sfKind{
	"created": sfInteger, "expires": sfInteger,
	"keyid": sfString, "nonce": sfString, "alg": sfString, "tag": sfString,
}

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
	keyed  bool   // has ;key or ;name
	key    string // the dictionary member (;key) or, for @query-param, the parameter (;name)
	id     string // the identifier in the base: the quoted name and its parameters
}

// coversAll reports whether the component binds every octet of the field or part.
func (c *component) coversAll() bool { return !c.sf && !c.keyed }

// same reports whether two components are equal, in whatever order their parameters come.
func (c *component) same(o component) bool {
	return o.name == c.name && o.sf == c.sf && o.bs == c.bs && o.keyed == c.keyed && o.key == c.key
}

type signatureInput struct {
	label      string
	member     string // the member of Signature-Input as received: the list and its parameters
	signature  string // the member of Signature: ":base64:"
	components []component
	params     string // the list and its parameters in canonical form: the value of @signature-params

	created, expires                                 int64
	keyID, nonce, alg, tag                           string
	hasCreated, hasExpires, hasKeyID, hasAlg, hasTag bool
}

// signatureFields reads both fields and pairs their members by label. No field at all is
// signature_missing; anything but two well-formed Dictionaries with the same labels is
// signature_malformed as a whole.
func signatureFields(h http.Header) ([]signatureInput, error) {
	inputs, signatures := h["Signature-Input"], h["Signature"]
	if len(inputs) == 0 && len(signatures) == 0 {
		return nil, &Error{Code: SignatureMissing}
	}
	size := 0
	for _, lines := range [][]string{inputs, signatures} {
		for _, line := range lines {
			size += len(line) + len(", ")
		}
	}
	if size > maxSignatureFields {
		return nil, overLimit("signature-input", "the signature fields are larger than 8 KiB")
	}
	in, ok := parseDictionary(joinLines(inputs), maxLabels)
	if !ok {
		return nil, malformed("signature-input", "not a dictionary with each label once")
	}
	sig, ok := parseDictionary(joinLines(signatures), maxLabels)
	if !ok {
		return nil, malformed("signature", "not a dictionary with each label once")
	}
	if len(in) == 0 && len(sig) == 0 {
		return nil, &Error{Code: SignatureMissing}
	}
	if len(in) != len(sig) {
		return nil, malformed("signature", "a label is in only one of the two fields")
	}
	found := make([]signatureInput, len(in))
	for i, m := range in {
		s := findMember(sig, m.key)
		if s == nil {
			return nil, malformed("signature", "a label is in only one of the two fields")
		}
		found[i].label = m.key
		if m.list {
			found[i].member = m.value
		}
		if s.item.kind == sfBytes {
			found[i].signature = s.item.text
		}
	}
	return found, nil
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

// parse reads the meaning of the member of Signature-Input; parseDictionary has checked its syntax.
func (in *signatureInput) parse() *Error {
	if in.member == "" {
		return malformed("signature-input", "the member is not a list of components")
	}
	if in.signature == "" {
		return malformed("signature", "the member is not a byte sequence")
	}
	p := &sfScanner{s: in.member}
	if err := in.parseComponents(p); err != nil {
		return err
	}
	if err := in.parseParams(p); err != nil {
		return err
	}
	return in.checkTimes()
}

func (in *signatureInput) parseComponents(p *sfScanner) *Error {
	in.components = in.components[:0]
	p.skip('(')
	for p.spaces(); !p.skip(')'); p.spaces() {
		if len(in.components) == maxComponents {
			return overLimit("signature-input", "more than 32 components")
		}
		c, err := parseComponent(p)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(in.components, c.same) {
			return malformed(c.name, "the component is covered twice")
		}
		if in.components == nil {
			in.components = make([]component, 0, 8)
		}
		in.components = append(in.components, c)
	}
	if len(in.components) == 0 {
		return &Error{Code: InsufficientCoverage, Err: reason("the signature covers nothing")}
	}
	return nil
}

func parseComponent(p *sfScanner) (component, *Error) {
	item, ok := p.bareItem()
	name, isString := item.str()
	if !ok || !isString {
		return component{}, malformed("signature-input", "a component identifier is not a string")
	}
	c := component{name: name, id: item.text}
	if err := checkName(name); err != nil {
		return c, err
	}
	for {
		key, value, more, ok := p.param()
		if !ok {
			return c, malformed(name, "the parameters cannot be parsed")
		}
		if !more {
			break
		}
		if err := c.set(key, value); err != nil {
			return c, err
		}
	}
	if c.name == "@query-param" && !c.keyed {
		return c, malformed(c.name, "the name of the parameter is missing")
	}
	return c, nil
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
		c.id += ";" + key + "=" + value.text
	case (key == "sf" || key == "bs") && !derived:
		if !value.flag() {
			return malformed(c.name, "the parameter is not a flag")
		}
		if key == "sf" && c.sf || key == "bs" && c.bs {
			return malformed(c.name, "a parameter occurs twice")
		}
		c.sf, c.bs = c.sf || key == "sf", c.bs || key == "bs"
		c.id += ";" + key
	default:
		return unsupported(c.name, "a parameter that the component does not have")
	}
	if c.bs && (c.sf || c.keyed) {
		return unsupported(c.name, "bs cannot go with sf or key")
	}
	return nil
}

func (in *signatureInput) parseParams(p *sfScanner) *Error {
	var b strings.Builder
	b.Grow(len(in.member))
	b.WriteByte('(')
	for i := range in.components {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(in.components[i].id)
	}
	b.WriteByte(')')
	var seen [16]string
	for n := 0; ; n++ {
		key, value, more, ok := p.param()
		if !ok {
			return malformed("signature-input", "the parameters cannot be parsed")
		}
		if !more {
			in.params = b.String()
			return nil
		}
		if n == len(seen) {
			return overLimit("signature-input", "too many parameters")
		}
		if slices.Contains(seen[:n], key) {
			return malformed("signature-input", "a parameter occurs twice")
		}
		seen[n] = key
		if err := in.setParam(key, value); err != nil {
			return err
		}
		b.WriteByte(';')
		b.WriteString(key)
		if !value.flag() {
			b.WriteByte('=')
			b.WriteString(value.text)
		}
	}
}

func (in *signatureInput) setParam(key string, value sfItem) *Error {
	kind, known := signatureParams[key]
	if !known {
		return nil
	}
	var number int64
	var text string
	if kind == sfInteger {
		number, _ = strconv.ParseInt(value.text, 10, 64)
		if value.kind != kind || number < 0 {
			return &Error{Code: TimestampMalformed, Component: key}
		}
	} else if text, known = value.str(); !known {
		return malformed(key, "the parameter is not a string")
	}
	switch key {
	case "created":
		in.created, in.hasCreated = number, true
	case "expires":
		in.expires, in.hasExpires = number, true
	case "keyid":
		in.keyID, in.hasKeyID = text, true
	case "nonce":
		in.nonce = text
	case "alg":
		in.alg, in.hasAlg = text, true
	case "tag":
		in.tag, in.hasTag = text, true
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

// SentSignature is one signature of a received request (RFC 9421), to forward with another
// request. The intermediary must decide whether it still verifies there: every covered
// component must have the same value.
type SentSignature struct{ in signatureInput }

// SentSignatures returns the well-formed signatures of a request, at most 8, in the order of
// Signature-Input. None of them is verified.
func SentSignatures(h http.Header) []SentSignature {
	inputs, err := signatureFields(h)
	if err != nil {
		return nil
	}
	var sent []SentSignature
	for i := range inputs {
		if len(sent) < maxSignatures && inputs[i].parse() == nil {
			sent = append(sent, SentSignature{inputs[i]})
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
	setMember(h, "Signature-Input", label, s.in.member)
	setMember(h, "Signature", label, s.in.signature)
}

// octets returns the decoded signature. Its text was checked by the parser.
func (in *signatureInput) octets() []byte {
	octets, _ := base64.StdEncoding.DecodeString(strings.Trim(in.signature, ":"))
	return octets
}
