package producer

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// Separators of joins and alternatives.
const (
	joinSeparator  = " + "
	firstSeparator = " | "
)

// ParseExtractor parses the syntax of the configuration:
//
//	header:X-GitHub-Delivery       a header field
//	idempotency-key                the Idempotency-Key field, quoted or bare
//	idempotency-key:X-Request-Id   another field of the same syntax
//	query:delivery                 a parameter of the query
//	json:data.object.id            a member of a JSON body
//	form:MessageSid                a member of a form body
//	jwt:jti                        a claim of the verified token
//	link:self                      the target of a link
//	digest:body                    the SHA-256 of the body
//	cloudevent:id                  source and id of a single CloudEvent; or cloudevent:type
//	const:order                    always the same
//	json:order + json:status       a join; empty if a part is
//	header:X-Id | json:id          the first that is not empty; " + " binds tighter than " | "
//
// "header:Idempotency-Key" means "idempotency-key", so a quoted and a bare key are never two keys.
func ParseExtractor(text string) (Extractor, error) {
	var choices []Extractor
	for choice := range strings.SplitSeq(text, firstSeparator) {
		var parts []Extractor
		for part := range strings.SplitSeq(choice, joinSeparator) {
			x, err := parseOne(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			parts = append(parts, x)
		}
		if len(parts) == 1 {
			choices = append(choices, parts[0])
			continue
		}
		choices = append(choices, Join(parts...))
	}
	if len(choices) == 1 {
		return choices[0], nil
	}
	return First(choices...), nil
}

// plainKinds are the kinds of extractors that take any name.
var plainKinds = map[string]func(string) Extractor{"query": Query, "form": Form, "link": Link, "const": Const}

func parseOne(text string) (Extractor, error) {
	kind, arg, _ := strings.Cut(text, ":")
	if kind == "idempotency-key" {
		return parseField(kind, arg)
	}
	if arg == "" {
		return nil, fmt.Errorf("extractor %q: want KIND:NAME, such as header:X-Id or json:data.id", text)
	}
	if of, ok := plainKinds[kind]; ok {
		return of(arg), nil
	}
	switch kind {
	case "header":
		return parseField(kind, arg)
	case "json":
		return parsePath(arg, JSON)
	case "jwt":
		return parsePath(arg, JWT)
	case "cloudevent":
		if arg == "id" || arg == "type" {
			return cloudEventValue(arg), nil
		}
		return nil, fmt.Errorf("extractor %q: only cloudevent:id and cloudevent:type are known", text)
	case "digest":
		if arg == "body" {
			return BodyDigest(), nil
		}
		return nil, fmt.Errorf("extractor %q: only digest:body is known", text)
	}
	return nil, fmt.Errorf("extractor %q: unknown kind; want header, idempotency-key, query, json, form, jwt, "+
		"link, digest, cloudevent or const", text)
}

func parseField(kind, name string) (Extractor, error) {
	if name != "" && !verify.IsToken(name) {
		return nil, fmt.Errorf("extractor %s: %q is not a field name (RFC 9110 section 5.1)", kind, name)
	}
	if kind == "idempotency-key" || strings.EqualFold(name, defaultKeyField) {
		return IdempotencyKey{Field: name}, nil
	}
	return Header(name), nil
}

func parsePath(path string, build func(string) Extractor) (Extractor, error) {
	if otherPath.MatchString(path) {
		return nil, fmt.Errorf(`extractor path %q: names are separated by dots, as in data.items.0.id, and `+
			`there is no wildcard: the events of a batch are read by presets only; `+
			`a name with such characters is \* or \[0]`, path)
	}
	names := splitPath(path)
	for _, name := range names {
		if name == "" {
			return nil, fmt.Errorf("extractor path %q: a name is empty", path)
		}
	}
	if len(names) > maxPath {
		return nil, fmt.Errorf("extractor path %q: over %d names", path, maxPath)
	}
	return build(path), nil
}

// otherPath matches what means something in JSONPath, JSON Pointer and other syntaxes, and would be
// the name of a member here.
var otherPath = regexp.MustCompile(`^/|(?:^|\.)(?:\*+|#|\$)(?:\.|$)|(?:^|[^\\])\[[^\]]*\]`)

// maxPath limits the names of a path: each takes a pass over the value before it.
const maxPath = 16
