package producer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/verify"
)

// Condition is a condition on an event, made by [ParseCondition]. It is immutable. The zero value
// holds for every event.
type Condition struct {
	text     string
	root     *clause // nil for the zero value
	consumes []string
	readsTyp bool
}

// Bounds on a condition.
const (
	maxCondition = 4 << 10 // bytes
	maxClauses   = 128     // tests
	maxNesting   = 32      // of parentheses and "not"
	maxDots      = 64      // of paths: each is a pass over the body
)

// clause is a test, or clauses that a word joins.
type clause struct {
	op     string    // "and", "or", "not", or that of a test
	parts  []clause  // of "and", "or" and "not"
	from   Extractor // of a test; nil for the type
	values []literal
}

// literal is a value in a condition, or one that was extracted.
type literal struct {
	kind   valueKind
	text   string // as extracted
	number decimal
}

// String returns the condition as it was written.
func (c Condition) String() string { return c.text }

// Consumes lists the parts of the request that are read, as [Extractor.Consumes] does, without
// those of the type.
func (c Condition) Consumes() []string { return slices.Clone(c.consumes) }

// Unbound lists the parts of the request that the condition reads and that signatures of the
// producer do not bind ([Producer.Binds]). A changed copy of a delivery that arrives first could
// decide by them what happens to the event. The type may be unsigned where [Producer.KeyedByType]
// has it in the key of every event.
func (c Condition) Unbound(p *Producer) []string {
	parts := slices.Clone(c.consumes)
	keyed := p.KeyedByType != nil && p.Class() == ClassContentSigned && p.SameSigned != SameSignedOff &&
		len(verify.Parts(p.Scheme)) == 1
	switch {
	case !c.readsTyp || keyed:
	case p.Type != nil:
		parts = append(parts, p.Type.Consumes()...)
	case p.LooseBinary:
		parts = append(parts, "ce-type")
	}
	return slices.DeleteFunc(parts, p.Binds)
}

// Holds reports whether the condition holds for a delivery of one event with a type. A value that
// is missing, or that its extractor refuses, does not exist, and equals nothing. The time is linear
// in the length of the body: a dot of a path is a pass over it. Only the extractors allocate
// memory.
func (c Condition) Holds(d *Delivery, typ string) bool { return c.root == nil || c.root.holds(d, typ) }

func (c *clause) holds(d *Delivery, typ string) bool {
	switch c.op {
	case "and", "or":
		for i := range c.parts {
			if c.parts[i].holds(d, typ) == (c.op == "or") {
				return c.op == "or"
			}
		}
		return c.op == "and"
	case "not":
		return !c.parts[0].holds(d, typ)
	}
	got := literal{kind: kindText, text: typ}
	if c.from != nil {
		got.text, got.kind, _ = extractKind(c.from, d) // what is refused has no value
	}
	if got.kind == kindNumber && !got.number.read(got.text) {
		got.text = "" // its exponent is out of bounds
	}
	if c.op == "exists" {
		return got.text != ""
	}
	passes := func(v literal) bool { return got.passes(c.op, v) }
	return (got.text != "" && slices.ContainsFunc(c.values, passes)) != (c.op == "!=")
}

// passes compares an extracted value with one of a test; "!=" is "==" here, and negated elsewhere.
func (l *literal) passes(op string, v literal) bool {
	if l.kind != v.kind {
		return false
	}
	if l.kind != kindNumber {
		return l.text == v.text || op == "prefix" && strings.HasPrefix(l.text, v.text)
	}
	switch order := l.number.compare(&v.number); {
	case order < 0:
		return op[0] == '<'
	case order > 0:
		return op[0] == '>'
	}
	return op == "in" || strings.HasSuffix(op, "=")
}

// ParseCondition parses a condition. A test is an extractor in the syntax of [ParseExtractor], or
// the word type for the type of the event, with an operator and values in the syntax of JSON:
//
//	json:status == "paid"                    or !=, which is not ==
//	json:amount >= 99.5                      or <, <= and >: of numbers, compared exactly
//	type in ("order.paid", "order.refunded")
//	json:customer.id prefix "cus_"
//	json:test exists                         has a value that is not empty
//
// Tests are joined by and, or, not and parentheses; not binds tighter than and, and that tighter
// than or. A number equals only a number of JSON, true and false only a boolean, and a text only a
// text. A number whose exponent has more than nine digits has no value. An extractor with spaces or
// one of ()",=<>! is written as a JSON string.
//
// A condition has at most 4,096 bytes, 128 tests and 64 dots in its extractors, and is nested at
// most 32 deep. An error names the column of the first mistake, in characters from 1.
func ParseCondition(text string) (Condition, error) {
	if len(text) > maxCondition || !utf8.ValidString(text) {
		return Condition{}, errors.New("a condition is UTF-8 text of at most 4,096 bytes") // maxCondition
	}
	p := conditionParser{text: text, words: conditionWords.FindAllStringIndex(text, -1)}
	root, err := p.either()
	if err == nil && len(p.words) > 0 {
		err = p.mistake(`want "and", "or" or the end`)
	}
	if err != nil {
		return Condition{}, err
	}
	slices.Sort(p.consumes)
	return Condition{text: text, root: &root, consumes: slices.Compact(p.consumes), readsTyp: p.readsTyp}, nil
}

// conditionWords matches a word of a condition. Only white space is between words.
var conditionWords = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?|[=!<>]+|[(),]|[^\s"=!<>(),]+`)

var operators = []string{"==", "!=", "<", "<=", ">", ">=", "in", "prefix", "exists"}

type conditionParser struct {
	text     string
	words    [][]int // where those begin and end that are not read yet
	tests    int
	depth    int
	dots     int
	consumes []string
	readsTyp bool
}

// next returns the next word, or "" at the end.
func (p *conditionParser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.text[p.words[0][0]:p.words[0][1]]
}

// take reads the next word if it is the given one.
func (p *conditionParser) take(word string) bool {
	taken := p.next() == word
	if taken {
		p.words = p.words[1:]
	}
	return taken
}

// mistake is an error at the next word.
func (p *conditionParser) mistake(format string, args ...any) error {
	at := len(p.text)
	if len(p.words) > 0 {
		at = p.words[0][0]
	}
	return fmt.Errorf("column %d: %s", utf8.RuneCountInString(p.text[:at])+1, fmt.Sprintf(format, args...))
}

func (p *conditionParser) either() (clause, error) { return p.joined("or", p.all) }
func (p *conditionParser) all() (clause, error)    { return p.joined("and", p.unit) }

// joined reads parts with a word between them.
func (p *conditionParser) joined(word string, part func() (clause, error)) (clause, error) {
	first, err := part()
	parts := []clause{first}
	for err == nil && p.take(word) {
		var next clause
		next, err = part()
		parts = append(parts, next)
	}
	if len(parts) == 1 {
		return first, err
	}
	return clause{op: word, parts: parts}, err
}

// unit reads a test, a negation, or what is in parentheses.
func (p *conditionParser) unit() (c clause, err error) {
	if p.depth == maxNesting {
		return c, p.mistake("nested deeper than %d", maxNesting)
	}
	p.depth++
	defer func() { p.depth-- }()
	switch {
	case p.take("not"):
		negated, err := p.unit()
		return clause{op: "not", parts: []clause{negated}}, err
	case p.take("("):
		if c, err = p.either(); err == nil && !p.take(")") {
			err = p.mistake(`want "and", "or" or ")"`)
		}
		return c, err
	}
	return p.test()
}

func (p *conditionParser) test() (c clause, err error) {
	if p.tests++; p.tests > maxClauses {
		return c, p.mistake("more than %d tests", maxClauses)
	}
	if p.take("type") {
		p.readsTyp = true
	} else if c.from, err = p.extractor(); err != nil {
		return c, err
	}
	for _, c.op = range operators {
		if p.take(c.op) {
			return c, p.valuesOf(&c)
		}
	}
	return c, p.mistake("want one of %s", strings.Join(operators, " "))
}

func (p *conditionParser) extractor() (Extractor, error) {
	text := p.next()
	if text == "" || strings.Contains("()=!<>,", text[:1]) {
		return nil, p.mistake("want an extractor, such as json:data.status, or type")
	}
	if text[0] == '"' {
		quoted, err := p.literal()
		if err != nil {
			return nil, err
		}
		text = quoted.text
	}
	x, err := ParseExtractor(text)
	if err != nil {
		return nil, p.mistake("%v", err)
	}
	if p.dots += strings.Count(text, "."); p.dots > maxDots {
		return nil, p.mistake("more than %d dots in all extractors", maxDots)
	}
	p.words = p.words[1:]
	p.consumes = append(p.consumes, x.Consumes()...)
	return x, nil
}

// valuesOf reads the values of a test.
func (p *conditionParser) valuesOf(c *clause) error {
	if c.op == "exists" {
		return nil
	}
	list := c.op == "in"
	if list && !p.take("(") {
		return p.mistake(`want a list, such as in ("a", "b")`)
	}
	for {
		v, err := p.literal()
		switch {
		case err != nil:
			return err
		case strings.Contains("< <= > >=", c.op) && v.kind != kindNumber:
			return p.mistake("%s compares numbers", c.op)
		case c.op == "prefix" && v.kind != kindText:
			return p.mistake("prefix compares texts")
		case v.text == "":
			return p.mistake("no value is empty: test with exists")
		case v.kind != kindText && !hasKinds(c.from):
			return p.mistake("what it reads is always text: write %q", v.text)
		}
		c.values = append(c.values, v)
		p.words = p.words[1:]
		switch {
		case !list || p.take(")"):
			return nil
		case !p.take(","):
			return p.mistake(`want "," or ")"`)
		}
	}
}

// literal returns the value that the next word is.
func (p *conditionParser) literal() (v literal, err error) {
	raw := p.next()
	valid := json.Valid([]byte(raw))
	if valid {
		v.kind = kindOf(raw[0])
		v.text, err = strictjson.Scalar([]byte(raw))
	}
	switch {
	case raw == "" || strings.Contains("()=!<>,", raw[:1]):
		return v, p.mistake("want a value: a text in quotes, a number, true or false")
	case raw == "null":
		return v, p.mistake("null is no value: write not EXTRACTOR exists")
	case raw[0] == '"' && (!valid || err != nil):
		return v, p.mistake("a text is a JSON string of Unicode, which ends with a quote")
	case !valid:
		return v, p.mistake("write a text in quotes: %q", raw)
	case v.kind == kindNumber && !v.number.read(v.text):
		return v, p.mistake("an exponent has at most nine digits")
	}
	return v, nil
}

// decimal is a JSON number, 0.DIGITS times ten to the exponent. The first digit is not 0; zero has
// none.
type decimal struct {
	sign     int // -1, 0 or 1
	exponent int
	whole    string // digits, as written before the point
	rest     string // and after it
}

// read sets the number to that of a JSON text. It reports false for an exponent of more than nine
// digits.
func (n *decimal) read(text string) bool {
	*n = decimal{sign: 1}
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		power, err := strconv.Atoi(text[i+1:])
		if mantissa, exponent = text[:i], power; err != nil || max(power, -power) > 999_999_999 {
			return false
		}
	}
	if mantissa[0] == '-' {
		mantissa, n.sign = mantissa[1:], -1
	}
	n.whole, n.rest, _ = strings.Cut(mantissa, ".")
	n.whole, n.rest = strings.TrimLeft(n.whole, "0"), strings.TrimRight(n.rest, "0")
	n.exponent = exponent + len(n.whole)
	if n.whole == "" {
		significant := strings.TrimLeft(n.rest, "0")
		n.exponent, n.rest = exponent-(len(n.rest)-len(significant)), significant
	}
	if n.whole == "" && n.rest == "" {
		*n = decimal{}
	}
	return true
}

// digit returns a digit after the point, from 0.
func (n *decimal) digit(i int) byte {
	switch {
	case i < len(n.whole):
		return n.whole[i]
	case i-len(n.whole) < len(n.rest):
		return n.rest[i-len(n.whole)]
	}
	return '0'
}

// compare returns -1, 0 or 1.
func (n *decimal) compare(other *decimal) int {
	order := cmp.Compare(n.sign, other.sign)
	if order != 0 || n.sign == 0 {
		return order
	}
	order = cmp.Compare(n.exponent, other.exponent)
	for i := 0; order == 0 && i < max(len(n.whole)+len(n.rest), len(other.whole)+len(other.rest)); i++ {
		order = cmp.Compare(n.digit(i), other.digit(i))
	}
	return order * n.sign
}
