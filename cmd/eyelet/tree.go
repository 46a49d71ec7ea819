package main

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
)

// node is one value of the configuration and the place where it was written. Decoding works on nodes, so that
// every mistake can name its line.
type node struct {
	at    place
	kind  nodeKind
	text  string           // of a scalar, with its variables expanded
	names []string         // of a mapping, in order
	inner map[string]*node // of a mapping
	where map[string]place // of the names of a mapping
	items []*node          // of a sequence
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
	wrong  mistakes
}

// parseTree reads YAML. Variables (${NAME}) are expanded after parsing, in values only, so that no value of a
// variable can change the structure of the file. The settings at the top that except names are left out.
func parseTree(file string, data []byte, lookup func(string) (string, bool), except ...string) (*node, error) {
	if len(data) > maxConfigBytes {
		return nil, &mistake{at: place{file, 1}, what: "file is larger than 4 MiB"}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, &mistake{at: place{file, 1}, what: "file holds no settings", hint: "run `eyelet keygen --help` for a first producer"}
	} else if err != nil {
		return nil, yamlMistake(file, err)
	}
	if err := dec.Decode(&second); err == nil {
		return nil, &mistake{at: place{file, second.Line}, what: "a second document in the file", hint: `remove the line "---"`}
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlMistake(file, err)
	}
	g := &growth{file: file, lookup: lookup, except: except}
	root := g.node(doc.Content[0], 0)
	if root.kind != mapping && len(g.wrong) == 0 {
		g.add(root.at, "", "the file is %s, want a mapping of settings", root.kind)
	}
	return root, g.wrong.err()
}

// yamlLine finds the line in the errors of the YAML library, which are texts.
var yamlLine = regexp.MustCompile(`line (\d+): ?`)

func yamlMistake(file string, err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors: ")
	if strings.HasPrefix(text, "unknown anchor") { // its name may be a secret without its quotes
		text = "a value that begins with * stands for another one, and there is no such"
	}
	at := place{file, 1}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		at.line, _ = strconv.Atoi(m[1])
		text = strings.Replace(text, m[0], "", 1)
	}
	return &mistake{at: at, what: "not YAML: " + oneLine(text), hint: `values with special characters need quotes, as in store: "memory:", and indentation is by spaces`}
}

func (g *growth) add(at place, hint, format string, args ...any) {
	g.wrong = append(g.wrong, &mistake{at: at, what: oneLine(fmt.Sprintf(format, args...)), hint: hint})
}

func (g *growth) node(y *yaml.Node, depth int) *node {
	n := &node{at: place{g.file, y.Line}}
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
	n.kind, n.inner, n.where = mapping, map[string]*node{}, map[string]place{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		name, at := y.Content[i].Value, place{g.file, y.Content[i].Line}
		if y.Content[i].Kind != yaml.ScalarNode {
			g.add(at, "", "a name of a setting must be a word")
			continue
		}
		if first, twice := n.where[name]; twice {
			g.add(at, "remove one of them", "%q is set twice, first in line %d", name, first.line)
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
func (g *growth) expand(at place, text string) string {
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
func (n *node) place(name string) place {
	if n == nil {
		return place{}
	}
	if inner := n.inner[name]; inner != nil {
		return n.where[name]
	}
	return n.at
}

// set puts a value at a dotted path, making mappings on the way. What is there already and is no mapping stays, for
// decoding to refuse.
func (n *node) set(path, value string, at place) {
	if n.kind != mapping && n.kind != empty {
		return
	}
	name, rest, deeper := strings.Cut(path, ".")
	if n.inner == nil {
		n.kind, n.inner, n.where = mapping, map[string]*node{}, map[string]place{}
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
