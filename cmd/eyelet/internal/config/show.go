package config

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Shown is a configuration without secrets.
type Shown struct{ root *node }

// JSON returns the configuration for encoding/json.
func (s Shown) JSON() any { return s.root.plain() }

// YAML returns the configuration for YAML, its settings in order.
func (s Shown) YAML() *yaml.Node { return s.root.yaml() }

// Effective returns the settings that count, as they may be shown.
func (c *Settings) Effective(plan *Plan) (Shown, error) {
	data, err := os.ReadFile(c.File)
	if err != nil {
		return Shown{}, usage.Errorf("", "%s: %s", c.File, usage.Cause(err))
	}
	// The file once more, with its variables as they are written.
	written, err := parseTree(c.File, data, func(name string) (string, bool) { return "${" + name + "}", true })
	if err != nil {
		return Shown{}, err
	}
	root := &node{kind: mapping, inner: map[string]*node{}, where: map[string]usage.Place{}}
	for _, row := range c.defaultRows() {
		root.set(row[0], row[1], usage.Place{})
	}
	for _, name := range c.Node.names {
		n := veil(c.Node.inner[name], nil, name)
		if name == "producers" || name == "handlers" {
			n = veil(c.Node.inner[name], written.inner[name], name)
		}
		root.lay(name, n)
	}
	for i := range plan.Producers {
		if n := root.inner["producers"].inner[plan.Producers[i].Name]; n != nil {
			c.addProducerDefaults(n, plan.Producers[i])
		}
	}
	return Shown{root}, nil
}

// lay puts a value over what is there, member by member.
func (n *node) lay(name string, over *node) {
	old := n.inner[name]
	if old == nil || old.kind != mapping || over.kind != mapping {
		if old == nil {
			n.names = append(n.names, name)
		}
		n.inner[name] = over
		return
	}
	for _, inner := range over.names {
		old.lay(inner, over.inner[inner])
	}
}

// defaultRows are what the binary and package receiver take for settings that are not set.
func (c *Settings) defaultRows() [][2]string {
	ln := c.ConnectionLimits()
	count, bytes := strconv.Itoa, func(n int64) string { return strconv.FormatInt(n, 10) }
	rows := [][2]string{
		{"listen", c.Listen}, {"operations", c.Operations}, {"store", c.Store}, {"via", c.viaName()},
		{"log.format", c.Log.Format}, {"log.level", c.Log.Level},
		{"limits.max_body", bytes(receiver.DefaultMaxBody)}, {"limits.body_budget", bytes(receiver.DefaultBodyBudget)},
		{"limits.connections", count(ln.Connections)}, {"limits.connections_per_address", count(ln.PerAddress)},
		{"limits.head", bytes(DefaultHead)}, {"limits.head_budget", bytes(ln.HeadBytes)},
		{"limits.header_timeout", FormatDuration(defaultHeaderTimeout)}, {"limits.idle_timeout", FormatDuration(defaultIdleTimeout)}, {"limits.store_timeout", FormatDuration(receiver.DefaultStoreTimeout)},
		{"limits.body_timeout", FormatDuration(receiver.DefaultBodyTimeout)}, {"limits.workers", count(4 * runtime.GOMAXPROCS(0))},
		{"limits.attempts", count(receiver.DefaultAttempts)}, {"limits.backoff_base", FormatDuration(receiver.DefaultBackoffBase)},
		{"limits.backoff_cap", FormatDuration(receiver.DefaultBackoffCap)}, {"limits.postpone_max", FormatDuration(receiver.DefaultPostponeMax)},
		{"limits.handler_timeout", FormatDuration(receiver.DefaultHandlerTimeout)}, {"limits.answer_timeout", FormatDuration(receiver.DefaultAnswerTimeout)},
		{"limits.in_flight_wait", FormatDuration(receiver.DefaultInFlightWait)}, {"limits.lease", FormatDuration(receiver.DefaultLease)},
		{"limits.retry_after", FormatDuration(receiver.DefaultRetryAfter)}, {"limits.drain", FormatDuration(c.Limits.Drain)},
		{"limits.remember_signatures.for", FormatDuration(dedup.DefaultRememberFor)}, {"limits.remember_signatures.max", count(dedup.DefaultRememberMax)},
	}
	if kind, _, err := c.StoreKind(); err == nil && kind != "memory" {
		rows = append(rows, [2]string{"limits.backlog_events", bytes(badgerstore.DefaultBacklogRecords())})
	}
	return rows
}

// span writes a duration without the zeros that Duration.String adds.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if d >= time.Minute && d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d >= time.Hour && d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// addProducerDefaults adds what a producer has of its scheme or preset, and was not told.
func (c *Settings) addProducerDefaults(n *node, p producer.Producer) {
	if p.MaxBody == 0 {
		p.MaxBody = cmp.Or(int64(c.Limits.MaxBody), receiver.DefaultMaxBody)
	}
	p = p.WithDefaults()
	contract := "webhook"
	if p.Contract == producer.API {
		contract = "api"
	}
	rows := [][2]string{
		{"window", FormatDuration(p.Window)}, {"tolerance.past", FormatDuration(p.Tolerance.Past)}, {"tolerance.future", FormatDuration(p.Tolerance.Future)},
		{"max_body", strconv.FormatInt(p.MaxBody, 10)}, {"contract", contract}, {"accepted", strconv.Itoa(p.Accepted.Status)},
		{"in_flight", strconv.Itoa(p.InFlight)},
	}
	if p.Key != nil {
		rows = append(rows, [2]string{"key", p.Key.String()})
	}
	remembers := "on"
	if p.Forgets {
		remembers = "off"
	}
	rows = append(rows, [2]string{"remember_signatures", remembers}, [2]string{"same_signed", sameSignedWord(p.SameSigned)})
	if p.SameSignedMax > 0 {
		rows = append(rows, [2]string{"same_signed_max", strconv.Itoa(p.SameSignedMax)})
	}
	if p.EventTime != nil {
		rows = append(rows, [2]string{"event_time", p.EventTime.String()})
	}
	if p.Type != nil {
		rows = append(rows, [2]string{"type", p.Type.String()})
	}
	for _, row := range rows {
		top, member, nested := strings.Cut(row[0], ".")
		if nested && n.inner[top] != nil && n.inner[top].kind != mapping {
			n.inner[top] = nil // tolerance: 10m is its past
			n.names = slices.DeleteFunc(slices.Clone(n.names), func(name string) bool { return name == top })
		}
		if old := n.inner[top]; old == nil || nested && old.inner[member] == nil {
			n.set(row[0], row[1], usage.Place{})
		}
	}
}

// veil returns a copy of a value as it may be shown. written is the same value with its variables as they were
// written; nil where values of variables may be shown.
func veil(n, written *node, name string) *node {
	out := &node{kind: n.kind, text: n.text, names: n.names}
	secret := slices.Contains(inFiles, name)
	switch n.kind {
	case scalar:
		switch {
		case secret:
			out.text = Hidden
		case name == "forward" && written.isVariable():
			out.text = written.text
		case name == "forward":
			out.text = forward.RedactURL(n.text) // what is written around a variable may be as secret as its value
		case written != nil && strings.Contains(written.text, "${"):
			out.text = written.text
		default:
			out.text = veilAddress(n.text)
		}
	case sequence:
		for i, item := range n.items {
			out.items = append(out.items, veil(item, written.item(i), item.nameIn(name)))
		}
	case mapping:
		out.inner, out.where = map[string]*node{}, map[string]usage.Place{}
		for _, member := range n.names {
			inner := n.inner[member]
			out.inner[member] = veil(inner, written.member(member), inner.nameUnder(name, member))
		}
	}
	return out
}

// nameIn is the name by which an item of a list is judged: that of the list, but for a list of mappings, such as keys of
// rfc9421, whose members have names of their own.
func (n *node) nameIn(list string) string {
	if n.kind == mapping && !slices.Contains(inFiles, list) {
		return ""
	}
	return list
}

// nameUnder is the name by which a member of a mapping is judged: its own, but for secrets by the id of their key.
func (n *node) nameUnder(name, member string) string {
	if n.kind == scalar && (name == "keys" || slices.Contains(inFiles, name)) {
		return "secret"
	}
	return member
}

// isVariable reports whether a value was written as a variable alone.
func (n *node) isVariable() bool {
	return n != nil && strings.HasPrefix(n.text, "${") && strings.IndexByte(n.text, '}') == len(n.text)-1
}

func (n *node) item(i int) *node {
	if n == nil || i >= len(n.items) {
		return nil
	}
	return n.items[i]
}

func (n *node) member(name string) *node {
	if n == nil {
		return nil
	}
	return n.inner[name]
}

// veilAddress hides what an address may hold of credentials: its user, and the values of its query.
func veilAddress(text string) string {
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

// readWord returns a number or a truth value where the text is one as a person would write it.
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

// textNode is a plain word where YAML reads it back as the same text or the same number.
func textNode(text string) *yaml.Node {
	y := &yaml.Node{}
	y.SetString(text)
	if _, quoted := readWord(text).(string); !quoted {
		y.Tag, y.Style = "", 0 // 5, true
	}
	return y
}

// sameSignedWord spells a policy as the file does.
func sameSignedWord(s producer.SameSigned) string {
	switch s {
	case producer.SameSignedOff:
		return "off"
	case producer.SameSignedAside:
		return "aside"
	case producer.SameSignedRun:
		return "run"
	}
	return "refuse"
}
