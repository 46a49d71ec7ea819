// Package conf reads structs from YAML: the struct is the description of its configuration. Tags of
// its fields name the settings (see [Decoder]), and all mistakes are found at once, each with its
// line. The same tags make the JSON Schema, the variables and flags that override settings, and a
// copy without secrets.
package conf

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/internal/usage"
)

// Node is a value of the configuration with its line, which later errors name.
type Node struct {
	At    usage.Place
	Kind  Kind
	Text  string                 // of a scalar, with its variables expanded
	Names []string               // of a mapping, in order
	Items []*Node                // of a sequence
	Shown Disclosure             // Set by decoding
	inner map[string]*Node       // of a mapping
	where map[string]usage.Place // of the names of a mapping

	errs usage.Errors // about the variables of a scalar; reported unless it is overridden
}

// Kind is the kind of a value.
type Kind int

// The kinds of values.
const (
	Empty Kind = iota
	Scalar
	Mapping
	Sequence
)

// String names the kind for messages.
func (k Kind) String() string {
	return [...]string{"nothing", "a single value", "a mapping", "a list"}[k]
}

// NewMapping returns a mapping without members.
func NewMapping() *Node {
	return &Node{Kind: Mapping, inner: map[string]*Node{}, where: map[string]usage.Place{}}
}

// VariableErrors returns the errors about variables in the value.
func (n *Node) VariableErrors() usage.Errors {
	found := slices.Clone(n.errs)
	for _, item := range n.Items {
		found = append(found, item.VariableErrors()...)
	}
	for _, name := range n.Names {
		found = append(found, n.inner[name].VariableErrors()...)
	}
	return found
}

// IsNone reports whether a mapping is missing or has no members.
func (n *Node) IsNone() bool {
	return n == nil || n.Kind == Empty || n.Kind == Mapping && len(n.Names) == 0
}

// Spans reports whether a part of the value is at a place.
func (n *Node) Spans(at usage.Place) bool {
	if n.At == at || slices.ContainsFunc(n.Items, func(item *Node) bool { return item.Spans(at) }) {
		return true
	}
	return slices.ContainsFunc(n.Names, func(name string) bool {
		return n.where[name] == at || n.inner[name].Spans(at)
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

// ParseTree reads YAML, without the top-level settings in except. It expands variables (${NAME})
// after parsing and in values only, so a variable cannot change the structure of the file. Errors
// about variables are in the nodes, because a value with one may be overridden.
func ParseTree(file string, data []byte, lookup func(string) (string, bool), except ...string) (*Node, error) {
	fail := func(line int, hint, what string) (*Node, error) {
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
	if root.Kind != Mapping && len(b.errs) == 0 {
		b.errs.Add(root.At, "", "the file is %s, want a mapping of settings", root.Kind)
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

func (b *treeBuilder) node(y *yaml.Node, depth int) *Node {
	n := &Node{At: usage.Place{File: b.file, Line: y.Line}}
	if b.nodes++; b.nodes > maxConfigNodes || depth > maxConfigDepth {
		if len(b.errs) == 0 {
			b.errs.Add(n.At, "", "the file is nested too deep or holds too much")
		}
		return n
	}
	switch y.Kind {
	case yaml.AliasNode:
		return b.node(y.Alias, depth+1)
	case yaml.MappingNode:
		b.Mapping(n, y, depth)
	case yaml.SequenceNode:
		n.Kind = Sequence
		for _, item := range y.Content {
			n.Items = append(n.Items, b.node(item, depth+1))
		}
	default:
		if y.Tag != "!!null" {
			n.Kind = Scalar
			n.expand(y.Value, b.lookup)
		}
	}
	return n
}

func (b *treeBuilder) Mapping(n *Node, y *yaml.Node, depth int) {
	n.Kind, n.inner, n.where = Mapping, map[string]*Node{}, map[string]usage.Place{}
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
		n.Names = append(n.Names, name)
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
func (n *Node) expand(text string, lookup func(string) (string, bool)) {
	n.Text = variable.ReplaceAllStringFunc(text, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		name := strings.TrimSuffix(m[2:], "}")
		if !strings.HasSuffix(m, "}") || !variableName.MatchString(name) {
			n.errs.Add(n.At, "write ${NAME}, or $${ for a literal ${", "${ is not followed by a name and }")
			return ""
		}
		value, ok := lookup(name)
		if !ok {
			n.errs.Add(n.At, "set it in the environment of eyelet: export "+name+"=...", "variable %s is not set", name)
		} else if value == "" {
			n.errs.Add(n.At, "give it a value: export "+name+"=...", "variable %s is set, but empty", name)
		}
		return value
	})
}

// Place returns where the named member was written, or the place of n if it was not written.
func (n *Node) Place(name string) usage.Place {
	if n == nil {
		return usage.Place{}
	}
	if n.inner[name] != nil {
		return n.where[name]
	}
	return n.At
}

// Member returns the named member of a mapping, or nil.
func (n *Node) Member(name string) *Node {
	if n == nil {
		return nil
	}
	return n.inner[name]
}

// Item returns the item of a sequence, or nil.
func (n *Node) Item(i int) *Node {
	if n == nil || i >= len(n.Items) {
		return nil
	}
	return n.Items[i]
}

// Scalar returns the text of the named member, or "" if it is not a single value.
func (n *Node) Scalar(name string) string {
	if inner := n.Member(name); inner != nil && inner.Kind == Scalar {
		return inner.Text
	}
	return ""
}

// Set writes a value at a dotted path and creates the mappings on the way. A value of another
// kind on the way stays, and decoding refuses it.
func (n *Node) Set(path, value string, at usage.Place) {
	if n.Kind != Mapping && n.Kind != Empty {
		return
	}
	name, rest, deeper := strings.Cut(path, ".")
	if n.inner == nil {
		n.Kind, n.inner, n.where = Mapping, map[string]*Node{}, map[string]usage.Place{}
	}
	if n.inner[name] == nil {
		n.Names = append(n.Names, name)
		n.inner[name] = &Node{At: at}
	}
	n.where[name] = at
	if deeper {
		n.inner[name].Set(rest, value, at)
		return
	}
	n.inner[name] = &Node{At: at, Kind: Scalar, Text: value}
}

// Find returns the value at a dotted path, or nil. The empty path is n itself.
func (n *Node) Find(path string) *Node {
	for name := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' }) {
		n = n.Member(name)
	}
	return n
}

// SpellOut makes a single value a mapping, in which it is the named member. It is dropped if the
// name is empty.
func (n *Node) SpellOut(member string) {
	if n == nil || n.Kind != Scalar {
		return
	}
	value := *n
	*n = *NewMapping()
	n.At = value.At
	if member != "" {
		n.Names, n.inner[member], n.where[member] = []string{member}, &value, value.At
	}
}

// Remove removes the named member of a mapping.
func (n *Node) Remove(name string) {
	if n.Member(name) == nil {
		return
	}
	delete(n.inner, name)
	n.Names = slices.DeleteFunc(slices.Clone(n.Names), func(other string) bool { return other == name })
}

// Put sets a value that is not in the mapping yet.
func (n *Node) Put(name string, value *Node, at usage.Place) {
	n.Names, n.inner[name], n.where[name] = append(n.Names, name), value, at
}
