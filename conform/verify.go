package conform

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// proof is a valid signature of an arrival.
type proof struct {
	components []string  // of RFC 9421
	at         time.Time // signed time; zero without one
}

// covers reports whether a component is covered, whatever its parameters.
func (p *proof) covers(name string) bool {
	return slices.ContainsFunc(p.components, func(c string) bool { return strings.HasPrefix(c, quoted(name)) })
}

// proofOf verifies the signature of an arrival that was sent to this scheme, host and target.
func (t *run) proofOf(a *arrival, scheme, host, target string) (*proof, error) {
	switch t.p.Scheme {
	case "rfc9421":
		return t.messageSignature(a, scheme, host, target)
	case "hmac":
		return t.templateSignature(a)
	case "bearer":
		secret, err := t.p.secret()
		isOther := a.header.Get("Authorization") != "Bearer "+string(secret)
		return nil, cmp.Or(err, wrongIf(isOther, "the token is not that of the profile"))
	}
	return nil, notApplicable("the profile signs nothing")
}

// messageSignature verifies each signature of RFC 9421, and returns the first valid one.
func (t *run) messageSignature(a *arrival, scheme, host, target string) (*proof, error) {
	inputs, signatures := members(a.header.Values("Signature-Input")), members(a.header.Values("Signature"))
	if len(inputs) == 0 {
		return nil, errors.New("it has no Signature-Input")
	}
	for label, input := range inputs {
		signature, err := base64.StdEncoding.DecodeString(strings.Trim(signatures[label], ":"))
		if err != nil || len(signature) == 0 {
			return nil, fmt.Errorf("the signature %s is missing or not base64", label)
		}
		components, params, ok := componentList(input)
		if !ok {
			return nil, fmt.Errorf("the Signature-Input of %s has no list of components", label)
		}
		base := signatureBase(components, input, func(c string) string {
			return component(c, a.method, scheme, host, target, a.header.Values)
		})
		if !t.key.verify(base, signature) {
			continue
		}
		p := &proof{components: components}
		if created, err := strconv.ParseInt(params["created"], 10, 64); err == nil {
			p.at = time.Unix(created, 0)
		}
		return p, nil
	}
	return nil, errors.New("no signature is valid with the key of the profile")
}

// members returns the members of a structured-field dictionary, as they are written.
func members(lines []string) map[string]string {
	all := map[string]string{}
	for _, part := range split(strings.Join(lines, ", "), ',') {
		if name, value, ok := strings.Cut(strings.TrimSpace(part), "="); ok {
			all[name] = value
		}
	}
	return all
}

// componentList returns the items of an inner list as they are written, and its parameters.
func componentList(text string) (items []string, params map[string]string, ok bool) {
	parts := split(text, ';')
	list, found := strings.CutPrefix(parts[0], "(")
	if !found || !strings.HasSuffix(list, ")") {
		return nil, nil, false
	}
	for _, item := range split(strings.TrimSuffix(list, ")"), ' ') {
		if item != "" {
			items = append(items, item)
		}
	}
	params = map[string]string{}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		params[name] = value
	}
	return items, params, true
}

// split splits a structured field at a separator that is neither in a string nor in a list.
func split(text string, at rune) (all []string) {
	quotes, depth, from, escaped := false, 0, 0, false
	for i, r := range text {
		switch {
		case escaped:
			escaped = false
		case quotes && r == '\\':
			escaped = true
		case r == '"':
			quotes = !quotes
		case quotes:
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == at && depth == 0:
			all, from = append(all, text[from:i]), i+1
		}
	}
	return append(all, text[from:])
}

// templateSignature verifies an HMAC by the templates of the profile.
func (t *run) templateSignature(a *arrival) (*proof, error) {
	valueOf := func(name string) string { return strings.Join(a.header.Values(name), ", ") }
	part := func(what string) string {
		for name, template := range t.p.Fields {
			before, _, ok := strings.Cut(template, what)
			form := regexp.MustCompile(regexp.QuoteMeta(literal(before)) + `([^, ;"]+)`)
			if m := form.FindStringSubmatch(valueOf(name)); ok && m != nil {
				return m[1]
			}
		}
		return ""
	}
	secret, err := t.p.secret()
	if err != nil {
		return nil, err
	}
	id, at := cmp.Or(part("{id}"), t.p.keyOf(a)), part("{timestamp}")
	over := strings.NewReplacer("{id}", id, "{timestamp}", at, "{body}", string(a.body)).Replace(t.p.Over)
	signed := withSignature(hmacKey(secret).sign([]byte(over)))
	for name, template := range t.p.Fields {
		if isSigned(template) && strings.Contains(valueOf(name), signed.Replace(literal(template))) {
			p := &proof{}
			if seconds, err := strconv.ParseInt(at, 10, 64); err == nil {
				p.at = time.Unix(seconds, 0)
			}
			return p, nil
		}
	}
	return nil, errors.New("there is no signature as the profile has it")
}

// literal returns the end of a template: what is after another value, with the last one if it ends
// with that.
func literal(template string) string {
	return template[strings.LastIndex(strings.TrimSuffix(template, "}"), "}")+1:]
}

// keyOf returns the identifier of an arrival, with its quotes, or "".
func (p *Profile) keyOf(a *arrival) string {
	if name := p.keyField(); name != "" {
		return a.header.Get(name)
	}
	path, ok := strings.CutPrefix(p.Key, "body:")
	if !ok {
		return ""
	}
	value := json.RawMessage(a.body)
	for member := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil {
			return ""
		}
		value = object[member]
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
