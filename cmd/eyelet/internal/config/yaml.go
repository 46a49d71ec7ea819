package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

// node is a value of the configuration with its line, which later errors name.
type node struct {
	at    usage.Place
	kind  nodeKind
	text  string                 // of a scalar, with its variables expanded
	names []string               // of a mapping, in order
	inner map[string]*node       // of a mapping
	where map[string]usage.Place // of the names of a mapping
	items []*node                // of a sequence

	errs  usage.Errors // about the variables of a scalar; reported unless it is overridden
	shown disclosure   // set by decoding
}

type nodeKind int

const (
	empty nodeKind = iota
	scalar
	mapping
	sequence
)

// String names the kind for messages.
func (k nodeKind) String() string {
	return [...]string{"nothing", "a single value", "a mapping", "a list"}[k]
}

func newMapping() *node {
	return &node{kind: mapping, inner: map[string]*node{}, where: map[string]usage.Place{}}
}

// variableErrors returns the errors about variables in the value.
func (n *node) variableErrors() usage.Errors {
	found := slices.Clone(n.errs)
	for _, item := range n.items {
		found = append(found, item.variableErrors()...)
	}
	for _, name := range n.names {
		found = append(found, n.inner[name].variableErrors()...)
	}
	return found
}

// isNone reports whether a mapping is missing or has no members.
func (n *node) isNone() bool {
	return n == nil || n.kind == empty || n.kind == mapping && len(n.names) == 0
}

// spans reports whether a part of the value is at a place.
func (n *node) spans(at usage.Place) bool {
	if n.at == at || slices.ContainsFunc(n.items, func(item *node) bool { return item.spans(at) }) {
		return true
	}
	return slices.ContainsFunc(n.names, func(name string) bool {
		return n.where[name] == at || n.inner[name].spans(at)
	})
}

// Bounds of a configuration file. Aliases count each time they are used.
const (
	maxConfigBytes = 4 << 20
	maxConfigNodes = 100_000
	maxConfigDepth = 32
)

// treeBuilder turns YAML into nodes.
type treeBuilder struct {
	file   string
	lookup func(string) (string, bool)
	except []string // top-level settings to skip
	nodes  int
	errs   usage.Errors
}

// parseTree reads YAML, without the top-level settings in except. It expands variables (${NAME})
// after parsing and in values only, so a variable cannot change the structure of the file. Errors
// about variables are in the nodes, because a value with one may be overridden.
func parseTree(file string, data []byte, lookup func(string) (string, bool), except ...string) (*node, error) {
	fail := func(line int, hint, what string) (*node, error) {
		return nil, &usage.Error{At: usage.Place{File: file, Line: line}, What: what, Hint: hint}
	}
	if len(data) > maxConfigBytes {
		return fail(1, "", "file is larger than 4 MiB")
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return fail(1, "run `eyelet keygen --help` for a first producer", "file holds no settings")
	} else if err != nil {
		return nil, yamlError(file, err)
	}
	if err := dec.Decode(&second); err == nil {
		return fail(second.Line, `remove the line "---"`, "a second document in the file")
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlError(file, err)
	}
	b := &treeBuilder{file: file, lookup: lookup, except: except}
	root := b.node(doc.Content[0], 0)
	if root.kind != mapping && len(b.errs) == 0 {
		b.errs.Add(root.at, "", "the file is %s, want a mapping of settings", root.kind)
	}
	return root, b.errs.Err()
}

// yamlLine finds the line in an error of the YAML library.
var yamlLine = regexp.MustCompile(`line (\d+): ?`)

func yamlError(file string, err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors: ")
	if strings.HasPrefix(text, "unknown anchor") { // its name may be an unquoted secret
		text = "a value that begins with * is an alias of another value, and there is no such value"
	}
	at := usage.Place{File: file, Line: 1}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		at.Line, _ = strconv.Atoi(m[1])
		text = strings.Replace(text, m[0], "", 1)
	}
	return &usage.Error{
		At: at, What: "not YAML: " + usage.OneLine(text),
		Hint: `values with special characters need quotes, as in store: "memory:", and indentation is by spaces`,
	}
}

func (b *treeBuilder) node(y *yaml.Node, depth int) *node {
	n := &node{at: usage.Place{File: b.file, Line: y.Line}}
	if b.nodes++; b.nodes > maxConfigNodes || depth > maxConfigDepth {
		if len(b.errs) == 0 {
			b.errs.Add(n.at, "", "the file is nested too deep or holds too much")
		}
		return n
	}
	switch y.Kind {
	case yaml.AliasNode:
		return b.node(y.Alias, depth+1)
	case yaml.MappingNode:
		b.mapping(n, y, depth)
	case yaml.SequenceNode:
		n.kind = sequence
		for _, item := range y.Content {
			n.items = append(n.items, b.node(item, depth+1))
		}
	default:
		if y.Tag != "!!null" {
			n.kind = scalar
			n.expand(y.Value, b.lookup)
		}
	}
	return n
}

func (b *treeBuilder) mapping(n *node, y *yaml.Node, depth int) {
	n.kind, n.inner, n.where = mapping, map[string]*node{}, map[string]usage.Place{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		name, at := y.Content[i].Value, usage.Place{File: b.file, Line: y.Content[i].Line}
		if y.Content[i].Kind != yaml.ScalarNode {
			b.errs.Add(at, "", "a name of a setting must be a word")
			continue
		}
		if first, twice := n.where[name]; twice {
			b.errs.Add(at, "remove one of them", "%q is set twice, first in line %d", name, first.Line)
			continue
		}
		if depth == 0 && slices.Contains(b.except, name) {
			continue
		}
		n.names = append(n.names, name)
		n.inner[name], n.where[name] = b.node(y.Content[i+1], depth+1), at
	}
}

// variable matches ${NAME}, and $${, which is a literal ${.
var (
	variable     = regexp.MustCompile(`\$?\$\{([^}]*)\}?`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// expand sets the text, with its variables replaced. Messages quote no value and no malformed name:
// both may be secret.
func (n *node) expand(text string, lookup func(string) (string, bool)) {
	n.text = variable.ReplaceAllStringFunc(text, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		name := strings.TrimSuffix(m[2:], "}")
		if !strings.HasSuffix(m, "}") || !variableName.MatchString(name) {
			n.errs.Add(n.at, "write ${NAME}, or $${ for a literal ${", "${ is not followed by a name and }")
			return ""
		}
		value, ok := lookup(name)
		if !ok {
			n.errs.Add(n.at, "set it in the environment of eyelet: export "+name+"=...", "variable %s is not set", name)
		} else if value == "" {
			n.errs.Add(n.at, "give it a value: export "+name+"=...", "variable %s is set, but empty", name)
		}
		return value
	})
}

// place returns where the named member was written, or the place of n if it was not written.
func (n *node) place(name string) usage.Place {
	if n == nil {
		return usage.Place{}
	}
	if n.inner[name] != nil {
		return n.where[name]
	}
	return n.at
}

// member returns the named member of a mapping, or nil.
func (n *node) member(name string) *node {
	if n == nil {
		return nil
	}
	return n.inner[name]
}

// item returns the item of a sequence, or nil.
func (n *node) item(i int) *node {
	if n == nil || i >= len(n.items) {
		return nil
	}
	return n.items[i]
}

// scalar returns the text of the named member, or "" if it is not a single value.
func (n *node) scalar(name string) string {
	if inner := n.member(name); inner != nil && inner.kind == scalar {
		return inner.text
	}
	return ""
}

// set writes a value at a dotted path and creates the mappings on the way. A value of another
// kind on the way stays, and decoding refuses it.
func (n *node) set(path, value string, at usage.Place) {
	if n.kind != mapping && n.kind != empty {
		return
	}
	name, rest, deeper := strings.Cut(path, ".")
	if n.inner == nil {
		n.kind, n.inner, n.where = mapping, map[string]*node{}, map[string]usage.Place{}
	}
	if n.inner[name] == nil {
		n.names = append(n.names, name)
		n.inner[name] = &node{at: at}
	}
	n.where[name] = at
	if deeper {
		n.inner[name].set(rest, value, at)
		return
	}
	n.inner[name] = &node{at: at, kind: scalar, text: value}
}

// find returns the value at a dotted path, or nil. The empty path is n itself.
func (n *node) find(path string) *node {
	for name := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' }) {
		n = n.member(name)
	}
	return n
}

// spellOut makes a single value a mapping, in which it is the named member. It is dropped if the
// name is empty.
func (n *node) spellOut(member string) {
	if n == nil || n.kind != scalar {
		return
	}
	value := *n
	*n = *newMapping()
	n.at = value.at
	if member != "" {
		n.names, n.inner[member], n.where[member] = []string{member}, &value, value.at
	}
}

// remove removes the named member of a mapping.
func (n *node) remove(name string) {
	if n.member(name) == nil {
		return
	}
	delete(n.inner, name)
	n.names = slices.DeleteFunc(slices.Clone(n.names), func(other string) bool { return other == name })
}
