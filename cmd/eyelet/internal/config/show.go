package config

import (
	"cmp"
	"encoding"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Shown is a configuration without secrets.
type Shown struct{ root *node }

// JSON returns the configuration for encoding/json.
func (s Shown) JSON() any { return s.root.plain() }

// YAML returns the configuration with its settings in order.
func (s Shown) YAML() *yaml.Node { return s.root.yaml() }

// Effective returns the settings with their defaults and without secrets.
func (s *Settings) Effective(plan *Plan) (Shown, error) {
	data, err := os.ReadFile(s.File)
	if err != nil {
		return Shown{}, usage.Errorf("", "%s: %s", s.File, usage.Cause(err))
	}
	// In producers and handlers variables are shown by name, because their values may be secret.
	written, err := parseTree(s.File, data, func(name string) (string, bool) { return "${" + name + "}", true })
	if err != nil {
		return Shown{}, err
	}
	root := newMapping()
	for _, row := range defaultRows(s) {
		root.set(row[0], row[1], usage.Place{})
	}
	for _, name := range s.Node.names {
		var names *node
		if name == "producers" || name == "handlers" {
			names = written.inner[name]
		}
		root.overlay(name, redact(s.Node.inner[name], names))
	}
	for i := range plan.Producers {
		if n := root.inner["producers"].inner[plan.Producers[i].Name]; n != nil {
			addProducerDefaults(n, plan.Producers[i], cmp.Or(int64(s.Limits.MaxBody), receiver.DefaultMaxBody))
		}
	}
	return Shown{root}, nil
}

// overlay writes a value over the named member. Mappings are merged.
func (n *node) overlay(name string, over *node) {
	old := n.inner[name]
	if old == nil || old.kind != mapping || over.kind != mapping {
		if old == nil {
			n.names = append(n.names, name)
		}
		n.inner[name] = over
		return
	}
	for _, inner := range over.names {
		old.overlay(inner, over.inner[inner])
	}
}

// defaultRows are the paths and values of settings with a default.
func defaultRows(s *Settings) [][2]string {
	limits := s.ConnectionLimits()
	count, span, bytes := strconv.Itoa, FormatDuration, func(n int64) string { return strconv.FormatInt(n, 10) }
	rows := [][2]string{
		{"listen", s.Listen}, {"operations", s.Operations}, {"store", s.StoreName()}, {"via", s.viaName()},
		{"inspector.prefix", s.Inspector.Prefix}, {"log.format", s.Log.Format}, {"log.level", s.Log.Level},
		{"refused.keep", s.Refused.Keep}, {"refused.for", span(defaultRefusedFor)},
		{"explain", s.Explain},
		{"limits.max_body", bytes(receiver.DefaultMaxBody)}, {"limits.body_budget", bytes(receiver.DefaultBodyBudget)},
		{"limits.connections", count(limits.Connections)},
		{"limits.connections_per_address", count(limits.PerAddress)},
		{"limits.head", bytes(DefaultHead)}, {"limits.head_budget", bytes(limits.HeadBytes)},
		{"limits.header_timeout", span(defaultHeaderTimeout)}, {"limits.idle_timeout", span(defaultIdleTimeout)},
		{"limits.store_timeout", span(receiver.DefaultStoreTimeout)},
		{"limits.body_timeout", span(receiver.DefaultBodyTimeout)},
		{"limits.workers", count(4 * runtime.GOMAXPROCS(0))}, {"limits.attempts", count(receiver.DefaultAttempts)},
		{"limits.backoff_base", span(receiver.DefaultBackoffBase)},
		{"limits.backoff_cap", span(receiver.DefaultBackoffCap)},
		{"limits.postpone_max", span(receiver.DefaultPostponeMax)},
		{"limits.handler_timeout", span(receiver.DefaultHandlerTimeout)},
		{"limits.answer_timeout", span(receiver.DefaultAnswerTimeout)},
		{"limits.in_flight_wait", span(receiver.DefaultInFlightWait)}, {"limits.lease", span(receiver.DefaultLease)},
		{"limits.retry_after", span(receiver.DefaultRetryAfter)}, {"limits.drain", span(s.Limits.Drain)},
		{"limits.remember_signatures.for", span(dedup.DefaultRememberFor)},
		{"limits.remember_signatures.max", count(dedup.DefaultRememberMax)},
	}
	orphans := receiver.DefaultOrphanAfterAlone
	switch kind, _, _ := s.StoreKind(); kind { // an invalid setting was reported
	case "badger":
		rows = append(rows, [2]string{"limits.backlog_events", bytes(badgerstore.DefaultBacklogRecords())})
	case "postgres":
		orphans = receiver.DefaultOrphanAfter
		rows = append(rows, [2]string{"schema", cmp.Or(s.Schema, pgstore.DefaultSchema)})
	}
	return append(rows, [2]string{"limits.orphan_after", span(orphans)})
}

// addProducerDefaults adds what the scheme, the preset or the defaults say and the file does not.
func addProducerDefaults(n *node, p producer.Producer, maxBody int64) {
	p.MaxBody = cmp.Or(p.MaxBody, maxBody)
	p = p.WithDefaults()
	n.addFields(reflect.ValueOf(p))
	n.add("accepted", shownText(strconv.Itoa(p.Accepted.Status)))
	n.add("remember_signatures", shownText(map[bool]string{true: "off", false: "on"}[p.Forgets]))
}

// addFields adds the settings of a struct that are not written.
func (n *node) addFields(v reflect.Value) {
	for i := range v.NumField() {
		name, _ := tagOf(v.Type().Field(i))
		switch f := v.Field(i); {
		case name == "":
		case f.Kind() == reflect.Struct && len(fieldsOf(f)) > 0:
			if short, _, ok := shortOf(f); ok {
				n.member(name).spellOut(short)
			}
			inner := newMapping()
			inner.addFields(f)
			n.add(name, inner)
			for _, member := range inner.names {
				n.inner[name].add(member, inner.inner[member])
			}
		default:
			n.add(name, shownField(f))
		}
	}
}

// add adds a member unless it is written, nil or an empty mapping.
func (n *node) add(name string, value *node) {
	if n.inner[name] == nil && value != nil && !(value.kind == mapping && len(value.names) == 0) {
		n.names, n.inner[name] = append(n.names, name), value
	}
}

func shownText(text string) *node { return &node{kind: scalar, text: text} }

// shownField returns the value of a setting as it is written, or nil if it is zero or a function.
func shownField(f reflect.Value) *node {
	switch v := f.Interface().(type) {
	case producer.KeyFormat:
		return nil
	case producer.Extractor:
		return shownText(v.String())
	case encoding.TextMarshaler:
		if text, err := v.MarshalText(); err == nil && len(text) > 0 && (!f.IsZero() || len(wordsOf(f.Type())) > 0) {
			return shownText(string(text))
		}
		return nil
	case time.Duration:
		if v != 0 {
			return shownText(FormatDuration(v))
		}
		return nil
	case []string:
		list := &node{kind: sequence}
		for _, text := range v {
			list.items = append(list.items, shownText(text))
		}
		if len(v) > 0 {
			return list
		}
		return nil
	}
	if f.IsZero() || f.Kind() == reflect.Pointer || f.Kind() == reflect.Map || f.Kind() == reflect.Interface {
		return nil
	}
	return shownText(fmt.Sprint(f.Interface()))
}

// disclosure is how a value may be shown.
type disclosure int

const (
	open   disclosure = iota
	hidden            // a secret
	elided            // shown like a secret, because it is long
	host              // a URL, whose path and query may be secret
	dsn               // perhaps a connection string, whose user, password and settings may be secret
)

// disclosures are the options of settings that are not shown openly.
var disclosures = map[string]disclosure{"secret": hidden, "file": elided, "target": host, "dsn": dsn}

// disclose marks a value by the options of its field.
func (n *node) disclose(options []string) {
	for _, option := range options {
		n.show(disclosures[option])
	}
}

func (n *node) show(level disclosure) {
	if level == open {
		return
	}
	n.shown = level
	for _, item := range n.items {
		item.show(level)
	}
	for _, inner := range n.inner {
		inner.show(level)
	}
}

// redact returns a copy without secrets. written has variables by name; nil shows their values.
func redact(n, written *node) *node {
	out := &node{kind: n.kind, text: n.text, names: n.names}
	switch n.kind {
	case scalar:
		out.text = n.redacted(written)
	case sequence:
		for i, item := range n.items {
			out.items = append(out.items, redact(item, written.item(i)))
		}
	case mapping:
		out.inner, out.where = map[string]*node{}, map[string]usage.Place{}
		for name, inner := range n.inner {
			out.inner[name] = redact(inner, written.member(name))
		}
	}
	return out
}

// redacted returns the text of a single value as it may be shown.
func (n *node) redacted(written *node) string {
	switch {
	case n.shown == hidden || n.shown == elided:
		return Hidden
	case n.shown == dsn:
		return storeName(n.text)
	case n.shown == host && written.isVariable():
		return written.text
	case n.shown == host:
		return forward.RedactURL(n.text) // the text around a variable may be as secret as its value
	case written != nil && strings.Contains(written.text, "${"):
		return written.text
	}
	return redactAddress(n.text)
}

// isVariable reports whether a value was written as a single variable.
func (n *node) isVariable() bool {
	return n != nil && strings.HasPrefix(n.text, "${") && strings.IndexByte(n.text, '}') == len(n.text)-1
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

// plain returns the value for JSON.
func (n *node) plain() any {
	switch n.kind {
	case mapping:
		m := map[string]any{}
		for _, name := range n.names {
			m[name] = n.inner[name].plain()
		}
		return m
	case sequence:
		list := []any{}
		for _, item := range n.items {
			list = append(list, item.plain())
		}
		return list
	case empty:
		return nil
	}
	return readWord(n.text)
}

// readWord returns a number or a boolean if YAML writes it as text, else text.
func readWord(text string) any {
	var read any
	if err := yaml.Unmarshal([]byte(text), &read); err == nil && fmt.Sprint(read) == text {
		return read
	}
	return text
}

// yaml returns the value for YAML, its members in order.
func (n *node) yaml() *yaml.Node {
	switch n.kind {
	case mapping:
		y := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range n.names {
			y.Content = append(y.Content, textNode(name), n.inner[name].yaml())
		}
		return y
	case sequence:
		y := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range n.items {
			y.Content = append(y.Content, item.yaml())
		}
		return y
	case empty:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
	return textNode(n.text)
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
