package verify

import (
	"encoding/base64"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The oracle builds signature bases from the text of a request, straight from RFC 9421 sections
// 2 and 2.5. It shares no code with the package, net/http or a structured-field library.

// oracleComponent is a covered component: its name and its parameters, in order and as written.
type oracleComponent struct {
	name   string
	params [][2]string // name, and value in quotes or "" for a flag
}

func (c oracleComponent) identifier() string {
	s := `"` + c.name + `"`
	for _, p := range c.params {
		if s += ";" + p[0]; p[1] != "" {
			s += "=" + p[1]
		}
	}
	return s
}

func (c oracleComponent) param(name string) (string, bool) {
	for _, p := range c.params {
		if p[0] == name {
			return strings.Trim(p[1], `"`), true
		}
	}
	return "", false
}

// oracleRequest is a request as text: the target on the wire, and each field line with its
// folds.
type oracleRequest struct {
	method, scheme, host, target string
	fields                       [][2]string
}

var (
	errOracleAbsent = errors.New("covered and not there")
	errOracleTwice  = errors.New("a parameter occurs twice")
	errOracleValue  = errors.New("a value that a base cannot hold")
	errOracleParse  = errors.New("not a dictionary")
)

// base returns the signature base of the components and the serialized signature parameters.
func (r oracleRequest) base(components []oracleComponent, params string) (string, error) {
	var b strings.Builder
	for _, c := range components {
		value, err := r.value(c)
		if err != nil {
			return "", err
		}
		for i := range len(value) { // section 2.5: the base is ASCII, and a line is a component
			if value[i] != '\t' && (value[i] < 0x20 || value[i] > 0x7e) {
				return "", errOracleValue
			}
		}
		b.WriteString(c.identifier() + ": " + value + "\n")
	}
	return b.String() + `"@signature-params": ` + params, nil
}

func (r oracleRequest) value(c oracleComponent) (string, error) {
	path, query, _ := strings.Cut(r.target, "?")
	authority := strings.ToLower(r.host) // section 2.2.3
	if r.scheme == "https" {
		authority = strings.TrimSuffix(authority, ":443")
	} else {
		authority = strings.TrimSuffix(authority, ":80")
	}
	switch c.name {
	case "@method":
		return r.method, nil
	case "@target-uri":
		return r.scheme + "://" + authority + r.target, nil
	case "@authority":
		return authority, nil
	case "@scheme":
		return r.scheme, nil
	case "@path":
		return path, nil
	case "@query":
		return "?" + query, nil
	case "@query-param":
		return oracleQueryParam(query, c)
	}
	return r.field(c)
}

// foldedLine is obsolete line folding (RFC 9112 section 5.2).
var foldedLine = regexp.MustCompile(`[ \t]*\r?\n[ \t]+`)

// field implements section 2.1.
func (r oracleRequest) field(c oracleComponent) (string, error) {
	var lines []string
	for _, f := range r.fields {
		if strings.EqualFold(f[0], c.name) {
			line := foldedLine.ReplaceAllString(f[1], " ")
			for line != "" && (line[0] == ' ' || line[0] == '\t') {
				line = line[1:]
			}
			for line != "" && (line[len(line)-1] == ' ' || line[len(line)-1] == '\t') {
				line = line[:len(line)-1]
			}
			lines = append(lines, line)
		}
	}
	if lines == nil {
		return "", errOracleAbsent
	}
	if _, bs := c.param("bs"); bs { // section 2.1.3
		for i, line := range lines {
			lines[i] = ":" + base64.StdEncoding.EncodeToString([]byte(line)) + ":"
		}
		return strings.Join(lines, ", "), nil
	}
	key, keyed := c.param("key")
	if _, sf := c.param("sf"); !sf && !keyed {
		return strings.Join(lines, ", "), nil
	}
	dict, err := oracleDictionary(strings.Join(lines, ", "))
	if err != nil {
		return "", err
	}
	var members []string
	for _, m := range dict {
		switch {
		case keyed && m[0] == key && strings.HasPrefix(m[1], "?1"): // section 2.1.2: the member's value alone
			return m[1], nil
		case keyed && m[0] == key:
			return m[1], nil
		case strings.HasPrefix(m[1], "?1"): // RFC 9651 section 4.1.2
			members = append(members, m[0]+m[1][2:])
		default:
			members = append(members, m[0]+"="+m[1])
		}
	}
	if keyed {
		return "", errOracleAbsent
	}
	return strings.Join(members, ", "), nil
}

// oracleQueryParam implements section 2.2.8.
func oracleQueryParam(query string, c oracleComponent) (string, error) {
	want, _ := c.param("name")
	value, found := "", 0
	for _, pair := range strings.Split(query, "&") {
		if pair == "" {
			continue
		}
		name, raw, _ := strings.Cut(pair, "=")
		if oracleEncode(oracleDecode(name)) == want {
			value = raw
			found++
		}
	}
	decoded := oracleDecode(value)
	switch {
	case found == 0:
		return "", errOracleAbsent
	case found > 1:
		return "", errOracleTwice
	case !utf8.ValidString(decoded):
		return "", errOracleValue
	}
	return oracleEncode(decoded), nil
}

func oracleDecode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		if s[i] == '+' {
			b.WriteByte(' ')
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

var oracleUnreserved = regexp.MustCompile(`^[A-Za-z0-9*._-]$`)

func oracleEncode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if oracleUnreserved.MatchString(s[i : i+1]) {
			b.WriteByte(s[i])
		} else {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(s[i])+0x100, 16)[1:]))
		}
	}
	return b.String()
}

// oracleDictionary parses a dictionary (RFC 9651 section 4.2.2) with regular expressions. It
// returns the members with their values in canonical form, "?1" for a member without a value. A
// repeated member takes the value of the last and the position of the first.
func oracleDictionary(s string) ([][2]string, error) {
	p := &oracleParser{strings.Trim(s, " ")}
	var out [][2]string
	for p.rest != "" {
		key, ok := p.take(`[a-z*][a-z0-9_.*-]*`)
		if !ok {
			return nil, errOracleParse
		}
		value := "?1"
		if _, ok := p.take(`=`); ok {
			if value, ok = p.itemOrList(); !ok {
				return nil, errOracleParse
			}
		}
		params, ok := p.params()
		if !ok {
			return nil, errOracleParse
		}
		replaced := false
		for i := range out {
			if out[i][0] == key {
				out[i][1], replaced = value+params, true
			}
		}
		if !replaced {
			out = append(out, [2]string{key, value + params})
		}
		if _, ok := p.take(`[ \t]*,[ \t]*`); ok == (strings.Trim(p.rest, " \t") == "") {
			return nil, errOracleParse // a trailing or missing comma
		}
		p.rest = strings.TrimLeft(p.rest, " \t")
	}
	return out, nil
}

type oracleParser struct{ rest string }

func (p *oracleParser) take(pattern string) (string, bool) {
	got := regexp.MustCompile(`^(?:` + pattern + `)`).FindString(p.rest)
	if got == "" {
		return "", false
	}
	p.rest = p.rest[len(got):]
	return got, true
}

func (p *oracleParser) itemOrList() (string, bool) {
	if _, ok := p.take(`\(`); !ok {
		return p.item()
	}
	var items []string
	for {
		_, spaced := p.take(` +`)
		if _, ok := p.take(`\)`); ok {
			return "(" + strings.Join(items, " ") + ")", true
		}
		if len(items) > 0 && !spaced {
			return "", false
		}
		value, ok := p.item()
		if !ok {
			return "", false
		}
		params, ok := p.params()
		if !ok {
			return "", false
		}
		items = append(items, value+params)
	}
}

func (p *oracleParser) params() (string, bool) {
	var keys, values []string
	for {
		if _, ok := p.take(`; *`); !ok {
			break
		}
		key, ok := p.take(`[a-z*][a-z0-9_.*-]*`)
		if !ok {
			return "", false
		}
		value := ""
		if _, ok := p.take(`=`); ok {
			if value, ok = p.item(); !ok {
				return "", false
			}
			if value == "?1" {
				value = ""
			}
		}
		if value != "" {
			value = "=" + value
		}
		for i := range keys {
			if keys[i] == key {
				values[i], key = value, ""
			}
		}
		if key != "" {
			keys, values = append(keys, key), append(values, value)
		}
	}
	out := ""
	for i := range keys {
		out += ";" + keys[i] + values[i]
	}
	return out, true
}

// item parses a bare item and returns its canonical form.
func (p *oracleParser) item() (string, bool) {
	if s, ok := p.take(`"(?:[ !#-\[\]-~]|\\["\\])*"`); ok {
		return s, true
	}
	if s, ok := p.take(`:[A-Za-z0-9+/]*={0,2}:`); ok {
		raw, err := base64.StdEncoding.DecodeString(strings.Trim(s, ":"))
		return ":" + base64.StdEncoding.EncodeToString(raw) + ":", err == nil
	}
	if s, ok := p.take(`\?[01]`); ok {
		return s, true
	}
	if s, ok := p.take(`-?[0-9]{1,12}\.[0-9]{1,3}`); ok {
		whole, fraction, _ := strings.Cut(strings.TrimPrefix(s, "-"), ".")
		whole = strings.TrimLeft(whole[:len(whole)-1], "0") + whole[len(whole)-1:]
		fraction = fraction[:1] + strings.TrimRight(fraction[1:], "0")
		if strings.HasPrefix(s, "-") {
			whole = "-" + whole
		}
		return whole + "." + fraction, true
	}
	if s, ok := p.take(`-?[0-9]{1,15}`); ok {
		n, err := strconv.ParseInt(s, 10, 64)
		return strconv.FormatInt(n, 10), err == nil
	}
	return p.take(`[A-Za-z*][A-Za-z0-9!#$%&'*+.^_|~:/` + "`" + `-]*`)
}
