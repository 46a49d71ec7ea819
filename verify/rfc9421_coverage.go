package verify

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// When is the condition under which a [CoverageRule] applies.
type When string

// The conditions of a [CoverageRule].
const (
	Always      When = "always"       // to every request
	WithBody    When = "with a body"  // to requests with a non-empty body
	WhenPresent When = "when present" // to requests that have the field

	// These are for what is pinned.
	WithoutBody  When = "without a signed body" // to requests whose body is empty, or not covered
	WithQuery    When = "with a query"          // to requests with a query, or a lone "?"
	WithoutQuery When = "without a query"       // to all others
	OtherType    When = "of another media type" // to requests with another Content-Type than the pinned one
)

// CoverageRule is one line of the profile that the policy page prints (RFC 9421 section 1.4
// requires such a profile).
type CoverageRule struct {
	When When // the condition under which the rule applies
	// AnyOf lists sets of components, one of which must be covered. "ce-*" is every field with
	// this prefix.
	AnyOf [][]string
	Why   string // the attack that the rule prevents, or the reader of the component
}

// contentCoverage is the profile for the content of deliveries.
var contentCoverage = []CoverageRule{
	{WithBody, [][]string{{"content-digest"}}, "the body could be replaced"},
	{WhenPresent, [][]string{{"idempotency-key"}}, "the event could be repeated as another one"},
	{WhenPresent, [][]string{{"content-type"}}, "the body could be read as something else"},
	{WhenPresent, [][]string{{"content-encoding"}}, "the body could be read as something else"},
	{WhenPresent, [][]string{{"ce-*"}}, "CloudEvents in binary mode keep their identity in these fields"},
}

// Coverage is what a signature must cover. The zero value is the default profile; Required and
// Consumed add to it.
type Coverage struct {
	// Required are components that must always be covered: fields, which must then be present,
	// or derived components such as "@scheme".
	Required []string
	// Consumed are header fields that extractors or handlers read. They must be covered if
	// present. "x-shop-*" is every field with this prefix.
	Consumed []string
	// Pinned is what need not be covered, because the configuration leaves one value for it.
	Pinned Pinned
	// Why says why a component must be covered, such as "the key reads it", where the configuration
	// decides that. It is for messages.
	Why map[string]string
}

// Pinned is what the configuration of a receiver leaves one value for. A signature protects what is
// not pinned. A package that makes an endpoint derives it; nothing else should set it.
type Pinned struct {
	// Method is the only method of requests, in capitals. It need not be covered where the body is
	// not empty and its digest is covered, and no field asks for another method.
	Method string
	// Query means that nothing reads the query. It need not be covered where there is none.
	Query bool
	// URL means that only one endpoint accepts the requests, wherever they are sent: a signed value
	// names it. Then neither host nor path need be covered.
	URL bool
	// MediaType is the only media type of requests, in lower case. Content-Type need not be covered
	// where it is one line with this type, without parameters or with charset=utf-8. Whoever reads
	// the type then takes this value.
	MediaType string
	// NoKey means that nothing reads Idempotency-Key, which then need not be covered.
	NoKey bool
}

// methodFields are fields by which middleware replaces the method.
var methodFields = []string{"x-http-method-override", "x-http-method", "x-method-override"}

// OverridesMethod reports whether middleware may take the method from a field, in any case.
func OverridesMethod(field string) bool { return slices.Contains(methodFields, strings.ToLower(field)) }

// rules returns the profile for deliveries of events, less what is pinned.
func (p Pinned) rules() []CoverageRule {
	const noOther = "the request could be repeated at another endpoint or with another query"
	method := CoverageRule{Always, [][]string{{"@method"}}, "the request could be repeated as another method"}
	if p.Method != "" {
		method.When = WithoutBody
	}
	url := [][]string{{"@target-uri"}, {"@authority", "@path", "@query"}}
	rules := []CoverageRule{method, {Always, url, noOther}}
	switch {
	case p.URL && p.Query:
		rules[1] = CoverageRule{WithQuery, [][]string{{"@target-uri"}, {"@query"}}, noOther}
	case p.URL:
		rules[1].AnyOf = [][]string{{"@target-uri"}, {"@query"}}
	case p.Query:
		rules[1].When = WithQuery
		rules = append(rules, CoverageRule{WithoutQuery, [][]string{{"@target-uri"}, {"@authority", "@path"}}, noOther})
	}
	for _, rule := range contentCoverage {
		switch name := rule.AnyOf[0][0]; {
		case name == "content-type" && p.MediaType != "":
			rule.When = OtherType
		case name == "idempotency-key" && p.NoKey:
			continue
		}
		rules = append(rules, rule)
	}
	return rules
}

// pinsType reports whether the Content-Type of a message need not be covered.
func (p Pinned) pinsType(m *message) bool {
	lines := m.lines("content-type")
	if len(lines) != 1 {
		return false
	}
	kind, param, more := strings.Cut(lines[0], ";")
	charset, text, _ := strings.Cut(TrimOWS(param), "=")
	return strings.EqualFold(TrimOWS(kind), p.MediaType) &&
		(!more || strings.EqualFold(charset, "charset") && strings.EqualFold(strings.Trim(text, `"`), "utf-8"))
}

// pinsMethod reports whether the method of a message need not be covered, as far as its head shows.
func (p Pinned) pinsMethod(m *message, digest bool) bool {
	return m.request.Method == p.Method && digest &&
		!slices.ContainsFunc(methodFields, func(name string) bool { return len(m.lines(name)) > 0 })
}

// demands reports whether a rule is about a message, whose digest is covered or not: it has what
// the rule is about, or something in place of what is pinned.
func (p Pinned) demands(rule *CoverageRule, m *message, digest bool) bool {
	switch rule.When {
	case WithoutBody:
		return !p.pinsMethod(m, digest)
	case WithQuery, WithoutQuery:
		return m.hasQuery() == (rule.When == WithQuery)
	case OtherType:
		return !p.pinsType(m) && len(m.lines("content-type")) > 0
	}
	return true
}

// Rules returns the rules in force.
func (c Coverage) Rules() []CoverageRule {
	rules := c.Pinned.rules()
	add := func(when When, names []string, why string) {
		for _, name := range names {
			rules = append(rules, CoverageRule{when, [][]string{{name}}, why})
		}
	}
	add(Always, c.Required, "the configuration requires it")
	add(WhenPresent, c.Consumed, "the receiver reads it")
	return rules
}

// Check reports every name that signatures cannot cover.
func (c Coverage) Check() error {
	var errs errorList
	for _, name := range c.Required {
		wrong := checkName(name) != nil || strings.HasSuffix(name, "*") ||
			slices.Contains([]string{"@query-param", "signature", "signature-input"}, name)
		errs.addIf(wrong, "coverage: a request cannot be required to sign %q", name)
	}
	for _, name := range c.Consumed {
		plain := strings.TrimSuffix(name, "*")
		wrong := plain == "" || plain[0] == '@' || checkName(plain) != nil
		errs.addIf(wrong, "coverage: %q is not a header field in lower case", name)
	}
	return errors.Join(errs...)
}

// uncovered lists what a signature should cover and does not, each with its reason. Of several sets
// it takes the one that the signature covers in part.
func (s *RFC9421) uncovered(m *message, in *signatureInput) string {
	var all []string
	for _, rule := range s.coverageRules() {
		c := coverageCheck{m: m, in: in, pinned: s.Coverage.Pinned, digest: in.coversDigest()}
		_ = c.rule(&rule)
		for _, set := range rule.AnyOf[1:] {
			if left := slices.DeleteFunc(slices.Clone(set), in.covers); c.missing != nil && len(left) < len(set) {
				c.missing = left
			}
		}
		if c.missing == nil {
			continue
		}
		why := cmp.Or(s.Coverage.Why[c.missing[0]], whyPinned[rule.When], rule.Why)
		all = append(all, quotedNames(c.missing)+", because "+why)
	}
	return strings.Join(all, "; ")
}

// whyPinned says why something must be covered although the configuration pins it.
var whyPinned = map[When]string{
	WithoutBody: "the body is empty or its digest is not covered, or a field asks for another method",
	WithQuery:   "there is one",
	OtherType:   "the request has another media type or parameters",
}

// covers reports whether the signature binds every octet of the named field or part.
func (in *signatureInput) covers(name string) bool {
	for i := range in.components {
		if c := &in.components[i]; c.name == name && c.coversAll() {
			return true
		}
	}
	return false
}

// coversDigest reports whether the signature binds the body through Content-Digest: the field
// in any form, or the member of a supported digest.
func (in *signatureInput) coversDigest() bool {
	for i := range in.components {
		if c := &in.components[i]; c.name == "content-digest" && (!c.keyed || isDigestName(c.key)) {
			return true
		}
	}
	return false
}

// coverageCheck compares a signature with the rules.
type coverageCheck struct {
	m       *message
	in      *signatureInput
	pinned  Pinned
	digest  bool     // whether that of the body is covered
	missing []string // what should be covered
	instead []string // sets that would do instead of one of them
}

// checkCoverage returns what the first rule that is not met finds: required components that are
// missing, with those of all later rules, or a field with several lines, of which readers would
// take one. Fields that may be split are exempt.
func checkCoverage(rules []CoverageRule, pinned Pinned, m *message, in *signatureInput) *Error {
	c := coverageCheck{m: m, in: in, pinned: pinned, digest: in.coversDigest()}
	for i := range rules {
		if err := c.rule(&rules[i]); err != nil && c.missing == nil {
			return err
		}
	}
	if c.missing != nil {
		return c.refusal()
	}
	return nil
}

func (c *coverageCheck) rule(rule *CoverageRule) *Error {
	if !c.pinned.demands(rule, c.m, c.digest) {
		return nil
	}
	switch rule.When {
	case Always, WithoutBody, WithQuery, WithoutQuery:
		return c.always(rule)
	case OtherType:
		return c.field("content-type", c.m.lines("content-type"))
	case WhenPresent:
		prefix, many := strings.CutSuffix(rule.AnyOf[0][0], "*")
		if !many {
			return c.field(prefix, c.m.lines(prefix))
		}
		known := len(c.missing)
		for _, field := range c.m.fieldsWithPrefix(prefix) {
			if err := c.field(field.name, field.lines); err != nil {
				return err
			}
		}
		slices.Sort(c.missing[known:])
	case WithBody:
		if c.m.request.ContentLength <= 0 || c.digest {
			return nil
		}
		if err := uncoveredBody(c.m); c.missing == nil && err.Code == DigestMissing {
			return err
		}
		c.miss("content-digest")
	}
	return nil
}

func (c *coverageCheck) always(rule *CoverageRule) *Error {
	missing := ""
sets:
	for _, set := range rule.AnyOf {
		for _, name := range set {
			if c.in.covers(name) || name == "content-digest" && c.digest {
				if err := checkOneLine(name, c.m.lines(name)); err != nil {
					return err
				}
				continue
			}
			if missing == "" {
				missing = name
			}
			continue sets
		}
		return nil
	}
	c.miss(missing)
	for _, set := range rule.AnyOf[1:] {
		c.instead = append(c.instead, fmt.Sprintf("instead of %q also %s", missing, quotedNames(set)))
	}
	return nil
}

func (c *coverageCheck) field(name string, lines []string) *Error {
	if len(lines) == 0 {
		return nil
	}
	if !c.in.covers(name) {
		c.miss(name)
		return nil
	}
	if len(lines) > 1 { // its reader may take one of them
		return &Error{Code: AmbiguousField, Component: name}
	}
	return nil
}

// maxMissing bounds the missing components that an error names.
const maxMissing = 10

// miss adds a missing component.
func (c *coverageCheck) miss(name string) {
	if len(c.missing) < maxMissing && !slices.Contains(c.missing, name) {
		c.missing = append(c.missing, name)
	}
}

// refusal names all missing components, and what is accepted instead.
func (c *coverageCheck) refusal() *Error {
	err := uncovered(c.missing[0])
	more := c.instead
	if len(c.missing) > 1 {
		more = append([]string{"and " + quotedNames(c.missing[1:])}, more...)
	}
	if more != nil {
		err.Err = reason(strings.Join(more, "; "))
	}
	return err
}

// quotedNames returns the names in quotes, each bounded.
func quotedNames(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, strconv.Quote(truncate(name)))
	}
	return strings.Join(all, " ")
}

// splitFields are lists and dictionaries, which may be split over lines (RFC 9651 section 3.2, RFC
// 9110 section 5.3): all of their readers join them.
var splitFields = []string{
	"content-digest", "repr-digest", "content-language", "link", "via", "forwarded",
}

func checkOneLine(name string, lines []string) *Error {
	if len(lines) > 1 && !slices.Contains(splitFields, name) {
		return &Error{Code: AmbiguousField, Component: name}
	}
	return nil
}

func uncovered(name string) *Error { return &Error{Code: InsufficientCoverage, Component: name} }

// uncoveredBody refuses a body that nothing binds.
func uncoveredBody(m *message) *Error {
	if len(m.request.Header["Content-Digest"]) == 0 {
		return &Error{Code: DigestMissing, Component: "content-digest"}
	}
	return uncovered("content-digest")
}

// needsBody reports whether the digest of a body must be signed.
func needsBody(rules []CoverageRule) bool {
	return slices.ContainsFunc(rules, func(r CoverageRule) bool { return r.When == WithBody })
}

// AcceptSignature returns the value of an Accept-Signature field that requests the configured
// signature (RFC 9421 section 5.1).
func (s *RFC9421) AcceptSignature() string {
	label := cmp.Or(s.Label, defaultLabel)
	names := acceptComponents(s.coverageRules())
	if !s.KeyRequired && !slices.Contains(s.Coverage.Consumed, "idempotency-key") {
		names = slices.DeleteFunc(names, func(name string) bool { return name == `"idempotency-key"` })
	}
	if d := s.directories(); d != nil {
		names = append(names, d.component(label))
	}
	v := label + "=(" + strings.Join(names, " ") + ")"
	if s.TimestampHeader == "" && !s.NoTime {
		v += ";created"
	}
	if slices.Contains(s.Params, "expires") {
		v += ";expires"
	}
	if s.BoundKey != "" {
		v += ";keyid=" + quote(s.BoundKey)
	}
	if tag := s.tag(); tag != "" {
		v += ";tag=" + quote(tag)
	}
	return v
}

// acceptComponents returns the components that a request should sign to meet the rules, as in
// Accept-Signature (RFC 9421 section 5.1). That field cannot express "when present", so the
// components that deliveries seldom have are left out. A delivery has a body and no query.
func acceptComponents(rules []CoverageRule) []string {
	var names []string
	for i := range rules {
		if slices.Contains([]When{WithoutBody, WithQuery, OtherType}, rules[i].When) {
			continue
		}
		for _, name := range rules[i].AnyOf[0] {
			if !strings.HasSuffix(name, "*") && name != "content-encoding" && !slices.Contains(names, `"`+name+`"`) {
				names = append(names, `"`+name+`"`)
			}
		}
	}
	return names
}
