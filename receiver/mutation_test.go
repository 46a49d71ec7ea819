package receiver_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// message is a delivery as a client can put it on the wire.
type message struct {
	method, target string
	header         http.Header
	body           []byte
	connection     *tls.ConnectionState // nil without TLS
	host           string               // defaults to hooks.example
}

// prefix is a path under which the endpoints are mounted too.
const prefix = "/shop-2"

func (m message) clone() message {
	return message{m.method, m.target, m.header.Clone(), bytes.Clone(m.body), m.connection, m.host}
}

// request is the message as net/http hands it to a handler, but with nothing refused or
// stripped: other servers and protocols may do neither. It is nil if there is no such request.
func (m message) request() *http.Request {
	u, err := url.ParseRequestURI(m.target)
	if err != nil {
		return nil
	}
	u.Path = strings.TrimPrefix(u.Path, prefix)
	r := &http.Request{
		Method: m.method, URL: u, RequestURI: m.target, Header: m.header, Host: cmp.Or(m.host, "hooks.example"),
		RemoteAddr: "192.0.2.1:1234",
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, ContentLength: int64(len(m.body)),
		TLS: m.connection,
	}
	if len(m.body) > 0 {
		r.Body = readCloser{bytes.NewReader(m.body)}
	}
	return r
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// oddCharacters are white space to some parsers, or invalid in field values.
var oddCharacters = []string{
	" ", "\t", "\u0085", "\u00a0", "\u1680", "\u2000", "\u2003", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f",
	"\u205f", "\u3000",
	"\u200b", "\u2060", "\ufeff", "\x00", "\x01", "\x08", "\n", "\v", "\f", "\r", "\x1c", "\x1f", "\x7f", "\x85",
	"\xa0", "\xff",
}

// readFields are fields that some producer or server interprets.
var readFields = []string{
	"Idempotency-Key", "X-Request-Id", "Ce-Id", "Ce-Type", "Ce-Source", "Ce-Specversion", "Ce-Subject", "Webhook-Id",
	"Svix-Id", "X-Event-Id",
	"X-Github-Delivery", "X-Github-Event", "X-Shopify-Event-Id", "X-Shopify-Webhook-Id", "X-Shopify-Topic",
	"Shopify-Webhook-Id", "Shopify-Topic",
	"X-Razorpay-Event-Id", "I-Twilio-Idempotency-Token", "X-Hub-Signature", "X-Gitlab-Event", "Link", "Date",
	"Content-Digest", "Content-Encoding",
	"X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-For", "X-Http-Method-Override", "Early-Data", "Signature",
	"Signature-Input",
}

var mediaTypes = []string{
	"", "application/json", "Application/JSON; charset=utf-8", "text/plain", "application/octet-stream",
	"application/x-www-form-urlencoded",
	"application/cloudevents+json", "application/cloudevents-batch+json", "application/cloudevents+avro",
	"multipart/form-data; boundary=x",
	"application/jwt", "application/secevent+jwt", "application/atom+xml", ";", "application/json, text/plain",
}

// mutator derives messages from a captured one, without the secret that signed it.
type mutator struct {
	*rand.Rand
	captured    message
	credentials []func(http.Header) // each removes one, if there are several
	moves       []func(*message)
}

func newMutator(seed uint64, c capture) *mutator {
	//nolint:gosec // a seeded test
	m := &mutator{Rand: rand.New(rand.NewPCG(seed, 17)), captured: c.message, credentials: c.credentials}
	m.moves = m.allMoves()
	return m
}

// mutate returns mutation number i and its kind.
func (m *mutator) mutate(i int) (string, message) {
	out := m.captured.clone()
	kinds := []struct {
		name string
		do   func(*message)
	}{
		{"field added", m.addField}, {"value rewritten", m.rewriteValue}, {"bytes moved", m.move},
		{"order changed", m.reorder},
		{"field replaced", m.replaceField}, {"member replaced", m.replaceMember}, {"media type", m.otherMedia},
		{"query", m.changeQuery},
		{"body rewritten", m.rewriteBody}, {"bytes moved", m.move}, {"field replaced", m.replaceField},
		{"items", m.changeItems}, {"sum kept", m.keepSum}, {"method", m.otherMethod}, {"field doubled", m.doubleField},
		{"endpoint", otherEndpoint}, {"host", otherHost},
	}
	if m.credentials != nil {
		kinds = append(kinds, kinds...)
		for i := 0; i < len(kinds); i += 2 { // each kind once, because their number is odd
			kinds[i].name, kinds[i].do = "credential removed and "+kinds[i].name, m.withoutCredential(kinds[i].do)
		}
	}
	kind := kinds[i%len(kinds)]
	kind.do(&out)
	if m.IntN(3) == 0 {
		also := kinds[m.IntN(len(kinds))]
		also.do(&out)
		kind.name += " and " + also.name
	}
	return kind.name, out
}

// each returns the message with one change of each kind: each field removed, doubled and replaced,
// fields of other methods and proxies added, the query removed and others added, other media types.
// All of these are repeated without each of several credentials.
func (m *mutator) each() (all []message) {
	var changes []func(*message)
	for _, name := range fieldsOf(&m.captured) {
		changes = append(changes,
			func(msg *message) { delete(msg.header, name) },
			func(msg *message) { msg.header[name] = append(msg.header[name], msg.header[name]...) },
			func(msg *message) { msg.header[name] = []string{"other"} },
		)
	}
	for _, name := range append([]string{"X-Http-Method", "X-Method-Override", "Host", "X-More"}, readFields...) {
		changes = append(changes, func(msg *message) { msg.header[name] = append(msg.header[name], "other") })
	}
	path, query, _ := strings.Cut(m.captured.target, "?")
	for _, target := range []string{path, path + "?", path + "?b=1", path + "?" + query + "&b=1", path + "/"} {
		changes = append(changes, func(msg *message) { msg.target = target })
	}
	changes = append(changes, otherEndpoint, otherHost, func(msg *message) { otherEndpoint(msg); otherHost(msg) })
	for _, kind := range mediaTypes {
		changes = append(changes, func(msg *message) { msg.header["Content-Type"] = []string{kind} })
	}
	for _, change := range changes {
		msg := m.captured.clone()
		change(&msg)
		all = append(all, msg)
		for _, remove := range m.credentials {
			fewer := msg.clone()
			remove(fewer.header)
			all = append(all, fewer)
		}
	}
	return all
}

var endpointName = regexp.MustCompile(`/webhooks/[\w.-]+`)

// otherEndpoint sends the message to the endpoint of a producer with the same credentials.
func otherEndpoint(msg *message) {
	msg.target = endpointName.ReplaceAllString(msg.target, "/webhooks/other")
}

// otherHost sends the message to another of our hosts, under another path.
func otherHost(msg *message) { msg.host, msg.target = "shop-2.example", prefix+msg.target }

// withoutCredential removes one of the credentials before a mutation.
func (m *mutator) withoutCredential(do func(*message)) func(*message) {
	return func(msg *message) {
		pick(m, m.credentials)(msg.header)
		if m.IntN(4) > 0 {
			do(msg)
		}
	}
}

// id is a new identifier.
func (m *mutator) id() string { return fmt.Sprintf("other-%x", m.Uint64()) }

func pick[T any](m *mutator, list []T) T { return list[m.IntN(len(list))] }

// fieldsOf returns the names of the message's fields.
func fieldsOf(msg *message) []string {
	names := make([]string, 0, len(msg.header))
	for name := range msg.header {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (m *mutator) addField(msg *message) {
	name := pick(m, readFields)
	if m.IntN(3) == 0 && len(msg.header) > 0 {
		name = pick(m, fieldsOf(msg))
	}
	value := m.id()
	if had := msg.header.Get(name); had != "" && m.IntN(2) == 0 {
		value = had
	}
	switch m.IntN(3) {
	case 0:
		msg.header[name] = append([]string{value}, msg.header[name]...)
	case 1:
		msg.header[name] = append(slices.Clone(msg.header[name]), value)
	default:
		msg.header[name] = []string{value}
	}
}

func (m *mutator) rewriteValue(msg *message) {
	if len(msg.header) == 0 {
		return
	}
	name := pick(m, fieldsOf(msg))
	value, odd := msg.header.Get(name), pick(m, oddCharacters)
	at := m.IntN(len(value) + 1)
	switch m.IntN(7) {
	case 0, 1:
		value = odd + value
	case 2, 3:
		value += odd
	case 4:
		value = value[:at] + odd + value[at:]
	case 5:
		value = strings.ToUpper(value)
	default:
		value = `"` + value + `"`
	}
	msg.header[name] = []string{value}
}

// piece is a part of a message that may be signed next to another one.
type piece struct {
	get func(*message) string
	set func(*message, string)
}

func (m *mutator) pieces() []piece {
	list := []piece{
		{func(msg *message) string { return string(msg.body) }, func(msg *message, s string) { msg.body = []byte(s) }},
		{func(msg *message) string { return msg.target }, func(msg *message, s string) { msg.target = s }},
	}
	for _, name := range append(fieldsOf(&m.captured), "X-Event-Id") {
		list = append(list, piece{
			func(msg *message) string { return msg.header.Get(name) },
			func(msg *message, s string) {
				if msg.header[name] = []string{s}; s == "" {
					delete(msg.header, name)
				}
			},
		})
	}
	return list
}

// allMoves are all ways to move the boundary between two parts of the message, with each text
// that may be signed between them. Those of the body come first.
func (m *mutator) allMoves() []func(*message) {
	var withBody, others []func(*message)
	all := m.pieces()
	for i, a := range all {
		for k, b := range all {
			if i == k {
				continue
			}
			moves := m.movesBetween(a, b)
			m.Shuffle(len(moves), func(x, y int) { moves[x], moves[y] = moves[y], moves[x] })
			if i == 0 || k == 0 {
				withBody = append(withBody, moves...)
			} else {
				others = append(others, moves[:min(len(moves), 4)]...)
			}
		}
	}
	for _, list := range [][]func(*message){withBody, others} {
		m.Shuffle(len(list), func(x, y int) { list[x], list[y] = list[y], list[x] })
	}
	return append(withBody, others...)
}

func (m *mutator) movesBetween(a, b piece) []func(*message) {
	var moves []func(*message)
	left, right := a.get(&m.captured), b.get(&m.captured)
	for _, sep := range []string{"", ".", ":", "|", "\n", "&", ","} {
		whole := left + sep + right
		positions := 0
		for at := 0; at+len(sep) <= len(whole) && positions < 8; at++ {
			near := sep != "" || at >= len(left)-3 && at <= len(left)+3
			if at == len(left) || !near || whole[at:at+len(sep)] != sep {
				continue
			}
			positions++
			moves = append(moves, func(msg *message) {
				a.set(msg, whole[:at])
				b.set(msg, whole[at+len(sep):])
			})
		}
	}
	return moves
}

func (m *mutator) move(msg *message) {
	if len(m.moves) == 0 {
		return
	}
	m.moves[0](msg)
	m.moves = m.moves[1:]
}

// shuffled reorders the parts of a list.
func (m *mutator) shuffled(text, sep string) string {
	parts := strings.Split(text, sep)
	m.Shuffle(len(parts), func(x, y int) { parts[x], parts[y] = parts[y], parts[x] })
	return strings.Join(parts, sep)
}

func (m *mutator) reorder(msg *message) {
	path, query, _ := strings.Cut(msg.target, "?")
	switch m.IntN(4) {
	case 0:
		if query != "" {
			msg.target = path + "?" + m.shuffled(query, "&")
		}
	case 1:
		msg.body = []byte(m.shuffled(string(msg.body), pick(m, []string{"&", ","})))
	case 2: // the label of a signature has no meaning
		for _, name := range []string{"Signature", "Signature-Input"} {
			if value := msg.header.Get(name); value != "" {
				msg.header.Set(name, strings.Replace(value, "sig1", "other", 1))
			}
		}
	default:
		if len(msg.header) > 0 {
			name := pick(m, fieldsOf(msg))
			msg.header.Set(name, m.shuffled(msg.header.Get(name), pick(m, []string{",", ";", " ", ", "})))
		}
	}
}

// replaceField changes or removes a field that may hold an identifier, a type or a time.
func (m *mutator) replaceField(msg *message) {
	if len(msg.header) == 0 {
		return
	}
	name := pick(m, fieldsOf(msg))
	switch m.IntN(6) {
	case 0:
		delete(msg.header, name)
	case 1:
		msg.header[name] = []string{fmt.Sprint(1_700_000_000 + m.IntN(1_000_000))}
	default:
		msg.header[name] = []string{m.id()}
	}
}

var jsonMember = regexp.MustCompile(`"(\w+)":("[^"]*"|\d+|true|false|null)`)

// replaceMember changes a member or parameter of the body, sometimes by adding a second one of
// the same name.
func (m *mutator) replaceMember(msg *message) {
	if list := jsonMember.FindAllSubmatchIndex(msg.body, -1); list != nil {
		at := pick(m, list)
		value := []byte(fmt.Sprintf("%q", m.id()))
		begin, end := at[4], at[5]
		switch m.IntN(4) {
		case 0: // another member of the name, before it
			name := msg.body[at[2]:at[3]]
			value = fmt.Appendf(nil, `"%s":%s,`, name, value)
			begin, end = at[0], at[0]
		case 1: // after it
			value = fmt.Appendf(nil, `,"%s":%s`, msg.body[at[2]:at[3]], value)
			begin = end
		}
		msg.body = slices.Concat(msg.body[:begin], value, msg.body[end:])
		return
	}
	pairs := strings.Split(string(msg.body), "&")
	i := m.IntN(len(pairs))
	name, _, _ := strings.Cut(pairs[i], "=")
	pairs[i] = name + "=" + m.id()
	msg.body = []byte(strings.Join(pairs, "&"))
}

func (m *mutator) otherMedia(msg *message) {
	kind := pick(m, mediaTypes)
	if kind == "" {
		msg.header.Del("Content-Type")
		return
	}
	msg.header.Set("Content-Type", kind)
}

// otherMethod changes the method, or asks middleware to.
func (m *mutator) otherMethod(msg *message) {
	other := pick(m, []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "post", "POST"})
	if m.IntN(3) > 0 {
		msg.method = other
		return
	}
	name := pick(m, []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"})
	msg.header[name] = append(msg.header[name], other)
}

// doubleField removes a field, if any is left, or gives it a second line.
func (m *mutator) doubleField(msg *message) {
	if len(msg.header) == 0 {
		return
	}
	name := pick(m, fieldsOf(msg))
	switch lines := msg.header[name]; m.IntN(3) {
	case 0:
		delete(msg.header, name)
	case 1:
		msg.header[name] = append(lines, lines...)
	default:
		msg.header[name] = append([]string{m.id()}, lines...)
	}
}

func (m *mutator) changeQuery(msg *message) {
	path, query, _ := strings.Cut(msg.target, "?")
	extra := pick(m, []string{"id", "type", "eventType", "code", "access_token", "a"}) + "=" + m.id()
	switch m.IntN(7) {
	case 0:
		query += "&" + extra
	case 1:
		query = extra + "&" + query
	case 2:
		query = ""
	case 3:
		query = strings.ReplaceAll(query, "=", "%3D")
	case 4:
		query = strings.ReplaceAll(query, "e", "%65")
	case 5:
		path += pick(m, []string{"/", "//", "/.", ";a", "%20", "/../x"})
	default:
		query += pick(m, []string{"&", ";", "#", "%", "%00", "+", "?"})
	}
	if msg.target = path; query != "" {
		msg.target += "?" + strings.Trim(query, "&")
	}
}

func (m *mutator) rewriteBody(msg *message) {
	body := string(msg.body)
	switch m.IntN(9) {
	case 0:
		body = pick(m, oddCharacters) + body
	case 1:
		body += pick(m, append(slices.Clone(oddCharacters), "\r\n", "{}"))
	case 2:
		if all := jsonMember.FindAllStringIndex(body, -1); all != nil { // a letter as an escape
			at := pick(m, all)[0] + 1
			body = fmt.Sprintf("%s\\u%04x%s", body[:at], body[at], body[at+1:])
		}
	case 3:
		body = strings.ReplaceAll(body, ",", ", ")
	case 4:
		body = strings.ReplaceAll(body, ":1", ":1.0")
	case 5:
		body = strings.ReplaceAll(body, "+", "%20")
	case 6:
		if at := strings.IndexByte(body, '='); at > 0 {
			body = fmt.Sprintf("%%%02X%s", body[0], body[1:])
		}
	case 7:
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(msg.body)
		_ = w.Close()
		body = packed.String()
		msg.header.Set("Content-Encoding", "gzip")
	default:
		var tree any
		if json.Unmarshal(msg.body, &tree) == nil {
			if again, err := json.MarshalIndent(tree, "", " "); err == nil {
				body = string(again)
			}
		}
	}
	msg.body = []byte(body)
}

// changeItems repeats, reverses or wraps the lists in the body.
func (m *mutator) changeItems(msg *message) {
	var tree any
	if json.Unmarshal(msg.body, &tree) != nil {
		msg.body = slices.Concat(msg.body, []byte("&"), msg.body)
		return
	}
	choice := m.IntN(4)
	if _, isList := tree.([]any); choice == 3 && !isList {
		tree = []any{tree, tree}
	}
	if body, err := json.Marshal(changeLists(tree, choice)); err == nil {
		msg.body = body
	}
}

func changeLists(tree any, choice int) any {
	switch node := tree.(type) {
	case map[string]any:
		for name, value := range node {
			node[name] = changeLists(value, choice)
		}
	case []any:
		switch choice {
		case 0:
			return append(slices.Clone(node), node...)
		case 1:
			slices.Reverse(node)
		case 2:
			return node[:len(node)/2]
		}
	}
	return tree
}

// keepSum gives the body another identifier, and four bytes that preserve its CRC-32: PayPal
// signs nothing else of it.
func (m *mutator) keepSum(msg *message) {
	begin, end, ok := strings.Cut(string(m.captured.body), `{"id":"`)
	_, end, closed := strings.Cut(end, `"`)
	if !ok || !closed {
		return
	}
	suffix := []byte(`"` + end)
	before := sumBefore(suffix, crc32.ChecksumIEEE(m.captured.body))
	for range 5_000 { // until the four bytes are letters of a string
		prefix := []byte(begin + `{"id":"` + m.id())
		patch := bytesForSum(prefix, before)
		if !slices.ContainsFunc(patch, func(c byte) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) {
			msg.body = slices.Concat(prefix, patch, suffix)
			return
		}
	}
}

// sumBefore returns the CRC-32, without its last inversion, that four bytes and suffix turn into
// want. It does not depend on what comes before them.
func sumBefore(suffix []byte, want uint32) uint32 {
	state := ^want
	back := func(b byte) {
		for i, entry := range crc32.IEEETable {
			if entry>>24 == state>>24 {
				state = (state^entry)<<8 | uint32(byte(i)^b) //nolint:gosec // i < 256
				return
			}
		}
	}
	for _, b := range slices.Backward(suffix) {
		back(b)
	}
	for range 4 {
		back(0)
	}
	return state
}

// bytesForSum returns the four bytes after prefix that continue with [sumBefore].
func bytesForSum(prefix []byte, before uint32) []byte {
	patch := before ^ ^crc32.ChecksumIEEE(prefix)
	return []byte{byte(patch), byte(patch >> 8), byte(patch >> 16), byte(patch >> 24)}
}
