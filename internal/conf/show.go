package conf

import (
	"encoding"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// Overlay writes a value over the named member. Mappings are merged.
func (n *Node) Overlay(name string, over *Node) {
	old := n.inner[name]
	if old == nil || old.Kind != Mapping || over.Kind != Mapping {
		if old == nil {
			n.Names = append(n.Names, name)
		}
		n.inner[name] = over
		return
	}
	for _, inner := range over.Names {
		old.Overlay(inner, over.inner[inner])
	}
}

// AddFields adds the settings of a struct that are not written, except secrets.
func (n *Node) AddFields(v reflect.Value) {
	n.addFields(v, func(f field) *Node {
		if f.inFile() || f.has("opaque") {
			return nil
		}
		return shownField(f.value)
	})
}

// AddDefaults adds the defaults of a struct that are not written.
func (n *Node) AddDefaults(t reflect.Type) {
	n.addFields(reflect.New(t).Elem(), func(f field) *Node {
		if f.fallback == "" {
			return nil
		}
		(&Decoder{}).Decode(&Node{Kind: Scalar, Text: f.fallback}, f.value, "")
		return shownField(f.value)
	})
}

func (n *Node) addFields(v reflect.Value, shown func(field) *Node) {
	for i := range v.NumField() {
		name, options := tagOf(v.Type().Field(i))
		f := field{v.Field(i), options, v.Type().Field(i).Tag.Get("default")}
		switch {
		case name == "":
		case f.value.Kind() == reflect.Struct && len(fieldsOf(f.value)) > 0:
			inner := n.Member(name)
			if inner == nil || inner.Kind == Empty {
				inner = NewMapping()
			}
			if inner.Kind == Mapping { // not remember_signatures: off
				inner.addFields(f.value, shown)
			}
			n.Add(name, inner)
		default:
			n.Add(name, shown(f))
		}
	}
}

// Add adds a member unless it is written, nil or an empty mapping.
func (n *Node) Add(name string, value *Node) {
	old := n.inner[name]
	if value == nil || value.Kind == Mapping && len(value.Names) == 0 || old != nil && old.Kind != Empty {
		return
	}
	if n.inner[name] = value; old == nil {
		n.Names = append(n.Names, name)
	}
}

// NewText returns a single value.
func NewText(text string) *Node { return &Node{Kind: Scalar, Text: text} }

// shownField returns the value of a setting as it is written, or nil if it is zero or a function.
func shownField(f reflect.Value) *Node {
	switch v := f.Interface().(type) {
	case encoding.TextMarshaler:
		if text, err := v.MarshalText(); err == nil && len(text) > 0 && (!f.IsZero() || len(wordsOf(f.Type())) > 0) {
			return NewText(string(text))
		}
		return nil
	case time.Duration:
		if v != 0 {
			return NewText(duration.Format(v))
		}
		return nil
	case []string:
		list := &Node{Kind: Sequence}
		for _, text := range v {
			list.Items = append(list.Items, NewText(text))
		}
		if len(v) > 0 {
			return list
		}
		return nil
	}
	if f.IsZero() || f.Kind() == reflect.Pointer || f.Kind() == reflect.Map {
		return nil
	}
	return NewText(fmt.Sprint(f.Interface()))
}

// Disclosure is how a value may be shown.
type Disclosure int

// The disclosures.
const (
	Open   Disclosure = iota
	Secret            // never
	Elided            // like a secret, because it is long
	Target            // a URL, whose path and query may be secret
	DSN               // perhaps a connection string, whose user, password and settings may be secret
)

// Redaction returns the texts that are shown of values.
type Redaction struct{ Target, DSN func(string) string }

// disclosures are the options of settings that are not shown openly.
var disclosures = map[string]Disclosure{"secret": Secret, "file": Elided, "target": Target, "dsn": DSN}

// disclose marks a value by the options of its field.
func (n *Node) disclose(options []string) {
	for _, option := range options {
		n.show(disclosures[option])
	}
}

func (n *Node) show(level Disclosure) {
	if level == Open {
		return
	}
	n.Shown = level
	for _, item := range n.Items {
		item.show(level)
	}
	for _, inner := range n.inner {
		inner.show(level)
	}
}

// Redact returns a copy without secrets. written has variables by name; nil shows their values.
func (r Redaction) Redact(n, written *Node) *Node {
	out := &Node{Kind: n.Kind, Text: n.Text, Names: n.Names}
	switch n.Kind {
	case Scalar:
		out.Text = r.text(n, written)
	case Sequence:
		for i, item := range n.Items {
			out.Items = append(out.Items, r.Redact(item, written.Item(i)))
		}
	case Mapping:
		out.inner, out.where = map[string]*Node{}, map[string]usage.Place{}
		for name, inner := range n.inner {
			out.inner[name] = r.Redact(inner, written.Member(name))
		}
	}
	return out
}

// text returns the text of a single value as it may be shown.
func (r Redaction) text(n, written *Node) string {
	switch {
	case n.Shown == Secret || n.Shown == Elided:
		return Hidden
	case n.Shown == DSN:
		return r.DSN(n.Text)
	case n.Shown == Target && written.isVariable():
		return written.Text
	case n.Shown == Target:
		return r.Target(n.Text) // the text around a variable may be as secret as its value
	case written != nil && strings.Contains(written.Text, "${"):
		return written.Text
	}
	return redactAddress(n.Text)
}

// isVariable reports whether a value was written as a single variable.
func (n *Node) isVariable() bool {
	return n != nil && strings.HasPrefix(n.Text, "${") && strings.IndexByte(n.Text, '}') == len(n.Text)-1
}

// redactAddress hides the possible credentials of a URL: its user and the values of its query.
func redactAddress(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User == nil && u.RawQuery == "" {
		return text
	}
	var words []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		word, _, _ := strings.Cut(pair, "=")
		words = append(words, word+"="+Hidden)
	}
	query, user := "", ""
	if u.RawQuery != "" {
		query = "?" + strings.Join(words, "&")
	}
	if u.User != nil {
		user = Hidden + "@"
	}
	u.User, u.RawQuery = nil, ""
	return strings.Replace(u.String(), "//", "//"+user, 1) + query
}

// Plain returns the value for JSON.
func (n *Node) Plain() (value any) {
	_ = n.YAML().Decode(&value) // as YAML has it
	return value
}

// readWord returns a number or a boolean if YAML writes it as text, else text.
func readWord(text string) any {
	var read any
	if err := yaml.Unmarshal([]byte(text), &read); err == nil && fmt.Sprint(read) == text {
		return read
	}
	return text
}

// YAML returns the value for YAML, its members in order.
func (n *Node) YAML() *yaml.Node {
	switch n.Kind {
	case Mapping:
		y := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range n.Names {
			written := &yaml.Node{}
			written.SetString(name)
			y.Content = append(y.Content, written, n.inner[name].YAML())
		}
		return y
	case Sequence:
		y := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range n.Items {
			y.Content = append(y.Content, item.YAML())
		}
		return y
	case Empty:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
	return textNode(n.Text)
}

// textNode returns an unquoted word if YAML reads it back as the same text, number or boolean.
func textNode(text string) *yaml.Node {
	y := &yaml.Node{}
	y.SetString(text)
	if _, quoted := readWord(text).(string); !quoted {
		y.Tag, y.Style = "", 0
	}
	return y
}
