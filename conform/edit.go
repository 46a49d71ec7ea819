package conform

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/md5" //nolint:gosec // a digest that must not count
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// edit changes a delivery. Its first argument is not empty, the others may be.
type edit struct {
	args int
	do   func(d *delivery, a []string)
}

// edits are those of attempts.txt.
var edits = map[string]edit{
	"sign":        {0, func(d *delivery, _ []string) { d.sign() }},
	"forge":       {0, func(d *delivery, _ []string) { d.forge() }},
	"strip":       {0, func(d *delivery, _ []string) { d.strip() }},
	"cut":         {1, func(d *delivery, a []string) { d.cut(number(a[0])) }},
	"spoil":       {0, func(d *delivery, _ []string) { d.recut(spoil) }},
	"age":         {2, func(d *delivery, a []string) { d.age(number(a[0]), number(a[1])) }},
	"id":          {1, func(d *delivery, a []string) { d.identify(a[0]) }},
	"over":        {1, func(d *delivery, a []string) { d.over = a[0] }},
	"set":         {2, func(d *delivery, a []string) { d.set(a[0], a[1]) }},
	"add":         {2, func(d *delivery, a []string) { d.add(a[0], a[1]) }},
	"drop":        {1, func(d *delivery, a []string) { d.drop(a[0]) }},
	"respell":     {0, func(d *delivery, _ []string) { d.respell() }},
	"replace":     {3, func(d *delivery, a []string) { d.replace(a[0], a[1], a[2]) }},
	"method":      {1, func(d *delivery, a []string) { d.method = a[0] }},
	"query":       {1, func(d *delivery, a []string) { d.query(a[0]) }},
	"raw":         {2, func(d *delivery, a []string) { d.raw = [2]string{a[0], a[1]} }},
	"chunked":     {0, func(d *delivery, _ []string) { d.isChunked = true }},
	"body":        {1, func(d *delivery, a []string) { d.body = []byte(a[0]) }},
	"insert":      {2, func(d *delivery, a []string) { d.member(a[0], a[1]) }},
	"member":      {2, func(d *delivery, a []string) { d.edit(a[0], a[1]) }},
	"pad":         {1, func(d *delivery, a []string) { d.pad(number(a[0]) * d.s.p.MaxBody) }},
	"pad-to":      {1, func(d *delivery, a []string) { d.pad(number(a[0]) - len(d.body)) }},
	"gzip":        {0, func(d *delivery, _ []string) { d.compress() }},
	"cover":       {1, func(d *delivery, a []string) { d.cover(strings.Fields(a[0])...) }},
	"uncover":     {1, func(d *delivery, a []string) { d.uncover(a[0]) }},
	"uncover-all": {0, func(d *delivery, _ []string) { d.sig.components = nil }},
	"param":       {2, func(d *delivery, a []string) { d.sig.param(a[0], a[1]) }},
	"label":       {1, func(d *delivery, a []string) { d.sig.label = a[0] }},
	"digest":      {1, func(d *delivery, a []string) { d.sig.digest = a[0] }},
	"others":      {1, func(d *delivery, a []string) { d.signOthers(number(a[0])) }},
}

// valueForm matches a value in braces.
var valueForm = regexp.MustCompile(`\{[\w:+-]+\}`)

// values are those in braces, beside octets, fields and times.
var values = map[string]func(d *delivery) string{
	"id":            func(d *delivery) string { return d.id },
	"another-id":    func(d *delivery) string { return d.s.id() },
	"dotted-id":     func(d *delivery) string { return strings.Replace(d.id, "-", ".", 1) },
	"long-id":       func(d *delivery) string { return strings.Repeat("k", 1024-len(d.id)) + d.id },
	"number":        func(d *delivery) string { return strconv.Itoa(d.s.number()) },
	"key-field":     func(d *delivery) string { return d.s.p.keyField() },
	"run":           func(d *delivery) string { return strconv.FormatInt(d.s.began.UnixMilli(), 16) },
	"host":          func(d *delivery) string { return d.host },
	"length":        func(d *delivery) string { return strconv.Itoa(len(d.body)) },
	"long-length":   func(d *delivery) string { return strconv.Itoa(len(d.body) + 10) },
	"crlf":          func(*delivery) string { return "\r\n" },
	"lower-method":  func(d *delivery) string { return strings.ToLower(d.method) },
	"body":          func(d *delivery) string { return string(d.body) },
	"half-body":     func(d *delivery) string { return string(d.body[:len(d.body)/2]) },
	"members":       func(d *delivery) string { return strings.TrimPrefix(string(d.body), "{") },
	"label":         func(d *delivery) string { return d.sig.label },
	"zeros":         func(*delivery) string { return base64.StdEncoding.EncodeToString(make([]byte, 64)) },
	"md5":           func(d *delivery) string { return sumOf(md5.New(), d.body, 16) }, //nolint:gosec // see above
	"sha-256":       func(d *delivery) string { return sumOf(sha256.New(), d.body, 32) },
	"sha-512":       func(d *delivery) string { return sumOf(sha512.New(), d.body, 64) },
	"half-sha-256":  func(d *delivery) string { return sumOf(sha256.New(), d.body, 16) },
	"other-sha-256": func(*delivery) string { return sumOf(sha256.New(), []byte("{}"), 32) },
	"other-sha-512": func(*delivery) string { return sumOf(sha512.New(), []byte("{}"), 64) },
	"other-alg": func(d *delivery) string {
		if d.s.p.Signature.Alg == "ed25519" {
			return "hmac-sha256"
		}
		return "ed25519"
	},
}

// valueOf returns what makes a value, or nil if there is no such value.
func valueOf(text string) func(d *delivery) string {
	word := strings.Trim(text, "{}")
	if octets, err := hex.DecodeString(word); err == nil {
		return func(*delivery) string { return string(octets) }
	}
	if name, ok := strings.CutPrefix(word, "field:"); ok {
		return func(d *delivery) string { return d.lines(name)[0] }
	}
	if text, ok := strings.CutPrefix(word, "timestamp"); ok {
		seconds := number(cmp.Or(text, "0"))
		return func(d *delivery) string { return strconv.FormatInt(d.at.Unix()+int64(seconds), 10) }
	}
	return values[word]
}

// sumOf returns the first octets of a hash in base64.
func sumOf(h hash.Hash, data []byte, n int) string {
	h.Write(data)
	return base64.StdEncoding.EncodeToString(h.Sum(nil)[:n])
}

// forge signs a delivery with a key that is not the profile's.
func (d *delivery) forge() *delivery {
	d.secret = []byte("not the secret of the profile")
	if d.sig != nil {
		d.sig.key = d.s.foreign
	}
	return d.sign()
}

// strip removes the credentials.
func (d *delivery) strip() {
	for name, value := range d.s.p.Fields {
		if isSigned(value) {
			d.drop(name)
		}
	}
	if d.s.p.Scheme == "bearer" {
		d.drop("Authorization")
	}
	if d.sig != nil {
		d.drop("Signature").drop("Signature-Input")
	}
}

// cut leaves one part of a signature, or nothing if parts is zero.
func (d *delivery) cut(parts int) {
	d.recut(func(digits string) string {
		if parts == 0 {
			return ""
		}
		return digits[:len(digits)/parts]
	})
}

// spoiled is how many digits at the end of a signature are changed: the last one of base64 may have
// bits that do not count.
const spoiled = 4

func spoil(digits string) string {
	end := max(0, len(digits)-spoiled)
	return digits[:end] + strings.Map(otherDigit, digits[end:])
}

// recut changes the digits of a signature.
func (d *delivery) recut(change func(digits string) string) {
	cut := func(whole, empty string) string { return empty + change(whole[len(empty):]) }
	for name, value := range d.s.p.Fields {
		if isSigned(value) {
			empty := d.expand(strings.NewReplacer("{hex}", "", "{base64}", "").Replace(value))
			d.set(name, cut(d.lines(name)[0], empty))
		}
	}
	if d.s.p.Scheme == "bearer" {
		d.set("Authorization", cut(d.lines("Authorization")[0], "Bearer "))
	}
	if d.sig != nil {
		d.set("Signature", cut(strings.TrimSuffix(d.lines("Signature")[0], ":"), d.sig.label+"=:")+":")
	}
}

// otherDigit returns another digit of hexadecimal and base64.
func otherDigit(r rune) rune {
	switch r {
	case '=':
		return r
	case '0':
		return '1'
	}
	return '0'
}

// age makes a delivery older, by a part of the tolerance and some seconds.
func (d *delivery) age(percent, seconds int) {
	d.at = d.at.Add(-time.Duration(percent)*d.s.p.Tolerance/100 - time.Duration(seconds)*time.Second)
}

// identify gives a delivery another identifier, also in its field.
func (d *delivery) identify(id string) {
	d.replace(d.s.p.keyField(), d.id, id)
	d.id = id
}

// respell writes the names of all fields in unusual letters.
func (d *delivery) respell() {
	for i, f := range d.fields {
		name := strings.ToLower(f.name)
		d.fields[i].name = name[:len(name)-1] + strings.ToUpper(name[len(name)-1:])
	}
}

// replace replaces text in a field, or in all if the name is *.
func (d *delivery) replace(name, old, text string) {
	for i, f := range d.fields {
		if name == "*" || strings.EqualFold(f.name, name) {
			d.fields[i].value = strings.ReplaceAll(f.value, old, text)
		}
	}
}

// query adds to the query.
func (d *delivery) query(text string) {
	sign := "?"
	if strings.Contains(d.target, "?") {
		sign = "&"
	}
	d.target += sign + text
}

// edit replaces a member of a JSON body, or removes it.
func (d *delivery) edit(name, value string) *delivery {
	members := map[string]any{}
	if err := json.Unmarshal(d.body, &members); err != nil {
		return d
	}
	members[name] = json.RawMessage(value)
	if value == "" {
		delete(members, name)
	}
	d.body, _ = json.Marshal(members) // it was JSON
	return d
}

// pad makes the body of a delivery larger, inside its data if it has any.
func (d *delivery) pad(n int) {
	pad := quoted(strings.Repeat("x", max(0, n-8)))
	if head, tail, ok := bytes.Cut(d.body, []byte(`"data":{`)); ok {
		d.body = fmt.Appendf(nil, `%s"data":{"pad":%s,%s`, head, pad, tail)
		return
	}
	d.member("pad", pad)
}

// compress codes the body with gzip, and covers that.
func (d *delivery) compress() {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.Copy(w, bytes.NewReader(d.body)) // to memory
	_ = w.Close()
	d.body = b.Bytes()
	d.set("Content-Encoding", "gzip").cover(`"content-encoding"`)
}

// signOthers adds signatures of others.
func (d *delivery) signOthers(n int) {
	input, signature := d.lines("Signature-Input")[0], d.lines("Signature")[0]
	for i := range n {
		input += fmt.Sprintf(`, other%d=("@method");created=%d;keyid="conform-%d"`, i, d.at.Unix(), i)
		signature += fmt.Sprintf(", other%d=%s", i, binary(make([]byte, 64)))
	}
	d.set("Signature-Input", input).set("Signature", signature)
}
