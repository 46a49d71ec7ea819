package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

// node is one value of the configuration and the place where it was written. Decoding works on nodes, so that
// every mistake can name its line.
type node struct {
	at    usage.Place
	kind  nodeKind
	text  string                 // of a scalar, with its variables expanded
	names []string               // of a mapping, in order
	inner map[string]*node       // of a mapping
	where map[string]usage.Place // of the names of a mapping
	items []*node                // of a sequence
	// broken marks a value with a variable that cannot be had; the mistake is noted already.
	broken bool
}

type nodeKind int

const (
	empty nodeKind = iota
	scalar
	mapping
	sequence
)

// String says what kind of value it is, for messages.
func (k nodeKind) String() string {
	return [...]string{"nothing", "a single value", "a mapping", "a list"}[k]
}

// The bounds of a configuration file; aliases count each time they are used.
const (
	maxConfigBytes = 4 << 20
	maxConfigNodes = 100_000
	maxConfigDepth = 32
)

// growth reads YAML into nodes.
type growth struct {
	file   string
	lookup func(string) (string, bool)
	except []string // names at the top whose values are not looked at
	nodes  int
	wrong  usage.Errors
}

// parseTree reads YAML. Variables (${NAME}) are expanded after parsing, in values only, so that no value of a
// variable can change the structure of the file. The settings at the top that except names are left out.
func parseTree(file string, data []byte, lookup func(string) (string, bool), except ...string) (*node, error) {
	if len(data) > maxConfigBytes {
		return nil, &usage.Error{At: usage.Place{File: file, Line: 1}, What: "file is larger than 4 MiB"}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, &usage.Error{At: usage.Place{File: file, Line: 1}, What: "file holds no settings", Hint: "run `eyelet keygen --help` for a first producer"}
	} else if err != nil {
		return nil, yamlMistake(file, err)
	}
	if err := dec.Decode(&second); err == nil {
		return nil, &usage.Error{At: usage.Place{File: file, Line: second.Line}, What: "a second document in the file", Hint: `remove the line "---"`}
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlMistake(file, err)
	}
	g := &growth{file: file, lookup: lookup, except: except}
	root := g.node(doc.Content[0], 0)
	if root.kind != mapping && len(g.wrong) == 0 {
		g.add(root.at, "", "the file is %s, want a mapping of settings", root.kind)
	}
	return root, g.wrong.Err()
}

// yamlLine finds the line in the errors of the YAML library, which are texts.
var yamlLine = regexp.MustCompile(`line (\d+): ?`)

func yamlMistake(file string, err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors: ")
	if strings.HasPrefix(text, "unknown anchor") { // its name may be a secret without its quotes
		text = "a value that begins with * stands for another one, and there is no such"
	}
	at := usage.Place{File: file, Line: 1}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		at.Line, _ = strconv.Atoi(m[1])
		text = strings.Replace(text, m[0], "", 1)
	}
	return &usage.Error{At: at, What: "not YAML: " + usage.OneLine(text), Hint: `values with special characters need quotes, as in store: "memory:", and indentation is by spaces`}
}

func (g *growth) add(at usage.Place, hint, format string, args ...any) {
	g.wrong = append(g.wrong, &usage.Error{At: at, What: usage.OneLine(fmt.Sprintf(format, args...)), Hint: hint})
}

func (g *growth) node(y *yaml.Node, depth int) *node {
	n := &node{at: usage.Place{File: g.file, Line: y.Line}}
	if g.nodes++; g.nodes > maxConfigNodes || depth > maxConfigDepth {
		if len(g.wrong) == 0 {
			g.add(n.at, "", "the file is nested too deep or holds too much")
		}
		return n
	}
	switch y.Kind {
	case yaml.AliasNode:
		return g.node(y.Alias, depth+1)
	case yaml.MappingNode:
		g.mapping(n, y, depth)
	case yaml.SequenceNode:
		n.kind = sequence
		for _, item := range y.Content {
			n.items = append(n.items, g.node(item, depth+1))
		}
	default:
		if y.Tag != "!!null" {
			found := len(g.wrong)
			n.kind, n.text = scalar, g.expand(n.at, y.Value)
			n.broken = len(g.wrong) > found
		}
	}
	return n
}

func (g *growth) mapping(n *node, y *yaml.Node, depth int) {
	n.kind, n.inner, n.where = mapping, map[string]*node{}, map[string]usage.Place{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		name, at := y.Content[i].Value, usage.Place{File: g.file, Line: y.Content[i].Line}
		if y.Content[i].Kind != yaml.ScalarNode {
			g.add(at, "", "a name of a setting must be a word")
			continue
		}
		if first, twice := n.where[name]; twice {
			g.add(at, "remove one of them", "%q is set twice, first in line %d", name, first.Line)
			continue
		}
		if depth == 0 && slices.Contains(g.except, name) {
			continue
		}
		n.names = append(n.names, name)
		n.inner[name], n.where[name] = g.node(y.Content[i+1], depth+1), at
	}
}

// variable is ${NAME}; $${ stands for a literal ${.
var variable = regexp.MustCompile(`\$?\$\{([^}]*)\}?`)

// expand replaces variables. The values never appear in a message, and neither does what only looks like the name
// of one: it may be the rest of a secret.
func (g *growth) expand(at usage.Place, text string) string {
	return variable.ReplaceAllStringFunc(text, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		name := strings.TrimSuffix(m[2:], "}")
		if !strings.HasSuffix(m, "}") || !variableName.MatchString(name) {
			g.add(at, "write ${NAME}, or $${ for a literal ${", "a variable that is none: ${ without a name and }")
			return ""
		}
		value, ok := g.lookup(name)
		if !ok {
			g.add(at, "set it in the environment of eyelet: export "+name+"=...", "variable %s is not set", name)
		} else if value == "" {
			g.add(at, "give it a value: export "+name+"=...", "variable %s is set, but empty", name)
		}
		return value
	})
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// place returns where the named member was written, or the node itself when it was not.
func (n *node) place(name string) usage.Place {
	if n == nil {
		return usage.Place{}
	}
	if inner := n.inner[name]; inner != nil {
		return n.where[name]
	}
	return n.at
}

// set puts a value at a dotted path, making mappings on the way. What is there already and is no mapping stays, for
// decoding to refuse.
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
