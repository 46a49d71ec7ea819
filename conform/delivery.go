package conform

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// field is a line of a head, as it is sent.
type field struct{ name, value string }

// delivery is a request of a sender. It is made whole, then signed, then broken as a check needs
// it.
type delivery struct {
	s      *session
	method string
	target string // path and query
	host   string
	fields []field
	body   []byte
	id     string // by which its effects are counted
	at     time.Time
	secret []byte   // of an HMAC
	sig    *signing // with RFC 9421
	over   string   // what an HMAC is made of; that of the profile if empty

	raw       [2]string // text in the request, and what replaces it
	isChunked bool
}

// delivery returns a signed delivery of a new event.
func (t *run) delivery() *delivery { return t.unsigned().sign() }

// unsigned returns a delivery of a new event that is not signed yet.
func (t *run) unsigned() *delivery { return t.unsignedOf(t.id()) }

// waiting returns a delivery whose handler takes a time.
func (t *run) waiting(takes time.Duration) *delivery {
	return t.unsigned().member("wait", strconv.FormatInt(takes.Milliseconds(), 10)).sign()
}

// conflict returns another payload under the identifier of an event.
func (t *run) conflict(of *delivery) *delivery {
	d := t.unsignedOf(of.id)
	if bytes.Equal(d.body, of.body) {
		d.member("conform", strconv.Itoa(t.number()))
	}
	return d.sign()
}

func (t *run) unsignedOf(id string) *delivery {
	d := &delivery{
		s: t.session, method: t.p.Method, target: t.url.RequestURI(), host: t.url.Host, id: id, at: t.now(),
	}
	d.secret, _ = t.p.secret() // the profile was completed with it
	d.body = []byte(d.expand(strings.ReplaceAll(t.p.Body, "{n}", strconv.Itoa(t.number()))))
	d.set("Content-Type", t.p.Type).set("User-Agent", "conform/"+Version) // firewalls may insist on both
	for _, name := range slices.Sorted(maps.Keys(t.p.Fields)) {
		if value := t.p.Fields[name]; !isSigned(value) {
			d.set(name, d.expand(value))
		}
	}
	if t.p.Scheme == "rfc9421" {
		d.sig = newSigning(t.p, t.key)
	}
	return d
}

// isSigned reports whether the template of a field has a signature.
func isSigned(value string) bool {
	return strings.Contains(value, "{hex}") || strings.Contains(value, "{base64}")
}

// withSignature fills the signature into a template.
func withSignature(sum []byte) *strings.Replacer {
	return strings.NewReplacer("{hex}", hex.EncodeToString(sum), "{base64}", base64.StdEncoding.EncodeToString(sum))
}

// expand fills a template.
func (d *delivery) expand(text string) string {
	return strings.NewReplacer(
		"{id}", d.id, "{timestamp}", strconv.FormatInt(d.at.Unix(), 10), "{body}", string(d.body),
		"{origin}", d.s.url.Scheme+"://"+d.host,
	).Replace(text)
}

// sign makes what the scheme adds: fields with a time or a signature. A delivery can be signed
// again after a change.
func (d *delivery) sign() *delivery {
	p := d.s.p
	switch p.Scheme {
	case "bearer":
		d.set("Authorization", "Bearer "+string(d.secret))
	case "rfc9421":
		d.sig.sign(d)
	case "hmac":
		signed := withSignature(hmacKey(d.secret).sign([]byte(d.expand(cmp.Or(d.over, p.Over)))))
		for name, value := range p.Fields {
			if isSigned(value) || strings.Contains(value, "{timestamp}") {
				d.set(name, signed.Replace(d.expand(value)))
			}
		}
	}
	return d
}

// as signs a delivery with the credential of a profile.
func (d *delivery) as(p *Profile) (*delivery, error) {
	d.secret, _ = p.secret() // it is that of a complete profile, or signers fails
	if d.sig == nil {
		return d.sign(), nil
	}
	key, _, err := p.signers()
	if err != nil {
		return nil, notJudged("the other credential: %v", err)
	}
	d.sig.key = key
	d.sig.param("keyid", quoted(p.Signature.KeyID))
	return d.sign(), nil
}

// again returns the delivery of the same event, signed again.
func (d *delivery) again() *delivery {
	c := *d
	c.fields, c.body, c.at = slices.Clone(d.fields), slices.Clone(d.body), d.s.now()
	if d.sig != nil {
		sig := *d.sig
		c.sig = &sig
	}
	return c.sign()
}

// set replaces a field, or adds it.
func (d *delivery) set(name, value string) *delivery {
	for i, f := range d.fields {
		if strings.EqualFold(f.name, name) {
			d.fields[i].value = value
			return d
		}
	}
	d.fields = append(d.fields, field{name, value})
	return d
}

// add adds one more line of a field.
func (d *delivery) add(name, value string) *delivery {
	d.fields = append(d.fields, field{name, value})
	return d
}

// drop removes a field.
func (d *delivery) drop(name string) *delivery {
	d.fields = slices.DeleteFunc(d.fields, func(f field) bool { return strings.EqualFold(f.name, name) })
	return d
}

// lines returns the lines of a field.
func (d *delivery) lines(name string) (all []string) {
	for _, f := range d.fields {
		if strings.EqualFold(f.name, name) {
			all = append(all, f.value)
		}
	}
	return all
}

// key replaces the value of the field of the identifier.
func (d *delivery) key(value string) *delivery { return d.set(d.s.p.keyField(), value) }

// member adds a member to a JSON object, before the others, or changes another body.
func (d *delivery) member(name, value string) *delivery {
	if !bytes.Contains(d.body, []byte("{")) {
		d.body = fmt.Appendf(d.body, "&%s=%s", name, value)
	}
	d.body = bytes.Replace(d.body, []byte("{"), []byte(`{"`+name+`":`+value+`,`), 1)
	return d
}

// cover adds covered components, and uncover removes those of a name. Both are for RFC 9421.
func (d *delivery) cover(components ...string) *delivery {
	if d.sig != nil {
		d.sig.components = slices.Concat(d.sig.components, components)
	}
	return d
}

func (d *delivery) uncover(name string) *delivery {
	if d.sig != nil {
		d.sig.components = slices.DeleteFunc(slices.Clone(d.sig.components), func(c string) bool {
			return strings.HasPrefix(c, quoted(strings.ToLower(name)))
		})
	}
	return d
}

// chunked returns the request in two chunks.
func (d *delivery) chunked() []byte {
	b := d.head("Transfer-Encoding: chunked")
	half := len(d.body) / 2
	for _, part := range [][]byte{d.body[:half], d.body[half:]} {
		if len(part) > 0 {
			b = fmt.Appendf(b, "%x\r\n%s\r\n", len(part), part)
		}
	}
	return append(b, "0\r\n\r\n"...)
}

// bytes returns the request as it is sent.
func (d *delivery) bytes() []byte {
	text := append(d.head("Content-Length: "+strconv.Itoa(len(d.body))), d.body...)
	if d.isChunked {
		text = d.chunked()
	}
	return bytes.Replace(text, []byte(d.raw[0]), []byte(d.raw[1]), 1)
}

// head returns the head of the request with more lines at its end.
func (d *delivery) head(lines ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", d.method, d.target, d.host)
	for _, f := range d.fields {
		fmt.Fprintf(&b, "%s: %s\r\n", f.name, f.value)
	}
	for _, line := range lines {
		b.WriteString(line + "\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}
