package verify

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// sectionExamples is the shape of rfc9421-section-examples.json: the blocks of text of each
// section.
type sectionExamples struct {
	Source, Note string
	Sections     map[string][]string
}

// invalidExamples are the examples that the RFC shows as wrong: section and number of the
// block.
var invalidExamples = map[string]bool{
	"2.2.8/4": true, // a line feed in a value
	"B.4/5":   true, // another method and authority
	"B.4/6":   true, // the lines of a field in another order
}

// runSections checks every example: a signed message verifies, and each line of a signature
// base can be built from one of the messages before it.
func runSections(t *testing.T, text []byte, keys vectorKeys) int {
	t.Helper()
	var f sectionExamples
	decodeStrict(t, text, &f)
	checked := 0
	for section, blocks := range f.Sections {
		t.Run(section, func(t *testing.T) {
			// 2.2.7 states without an example that a target without a query has the query "?".
			s := &sectionRun{keys: keys, messages: []*http.Request{newDelivery(t, "")}}
			s.messages[0].URL.RawQuery = ""
			for i, block := range blocks {
				s.block(t, fmt.Sprintf("%s/%d", section, i), strings.ReplaceAll(block, "(SP)", " "))
			}
			checked += s.checked
		})
	}
	return checked
}

// sectionRun is the state of one section: the messages seen so far.
type sectionRun struct {
	keys     vectorKeys
	messages []*http.Request
	signed   []*vectorMessage
	checked  int
}

func (s *sectionRun) block(t *testing.T, name, block string) {
	t.Helper()
	first, _, _ := strings.Cut(block, "\n")
	switch {
	case strings.HasPrefix(block, `"`):
		s.lines(t, name, strings.ReplaceAll(block, "\\\n  ", ""))
	case strings.HasSuffix(first, " HTTP/1.1") || strings.HasPrefix(first, "HTTP/1.1 "):
		s.message(t, name, block)
	case strings.Contains(first, ": ") && !strings.Contains(first, "="), strings.HasPrefix(first, "Example-"),
		strings.HasPrefix(first, "X-"):
		s.message(t, name,
			"POST /path HTTP/1.1\nHost: www.example.com\n"+strings.TrimPrefix(block, "Host: www.example.com\n"))
	case strings.HasPrefix(first, "Signature"):
		h, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST / HTTP/1.1\r\nHost: x\r\n" + block +
			"\r\n\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		if err := refusedFields(h.Header); CodeOf(err) != SignatureMalformed { // the other field is missing
			t.Errorf("%s: %v", name, err)
		}
		s.checked++
	}
}

// message keeps a message and verifies it if it is signed.
func (s *sectionRun) message(t *testing.T, name, block string) {
	t.Helper()
	if !strings.Contains(block, "\n\n") {
		block += "\n\n"
	}
	if strings.HasPrefix(block, "CONNECT ") {
		return // a target that receivers of deliveries do not serve
	}
	v := newVectorMessage(t, name, block)
	if v.request != nil {
		for _, scheme := range []string{"https", "http"} {
			v.scheme = scheme
			s.messages = append(s.messages, v.at(v.request.Host))
		}
	}
	if v.response != nil { // responses have the same field values
		r := newDelivery(t, "")
		r.Header = v.header.Clone()
		for field := range v.response.Trailer { // net/http removes the Trailer field
			r.Header.Add("Trailer", field)
		}
		s.messages = append(s.messages, r)
	}
	signed := v.header.Get("Signature") != ""
	switch {
	case !signed && v.request == nil:
		return
	case invalidExamples[name]:
		_, err := withoutProfile(&RFC9421{Keys: s.keys.set()}).Verify(v.at(v.request.Host),
			bodyOf(string(v.body)))
		wantCode(t, err, SignatureMismatch)
	case signed:
		v.run(t, s.keys, s.signed, nil)
	}
	s.checked++
	if v.request != nil {
		s.signed = append(s.signed, v)
	}
}

// lines checks lines of a signature base. A refused line must have its reason.
func (s *sectionRun) lines(t *testing.T, name, block string) {
	t.Helper()
	for _, line := range strings.Split(block, "\n") {
		if invalidExamples[name] {
			return
		}
		id, value, ok := strings.Cut(line, ": ")
		if !ok {
			id, value = strings.TrimSuffix(line, ":"), ""
		}
		s.checked++
		if id == `"@signature-params"` {
			s.params(t, name, value)
			continue
		}
		in, ok := parseInput("x=(" + id + ");created=1")
		if !ok {
			t.Errorf("%s: %s is not a list", name, id)
			continue
		}
		if refused(id) {
			wantCode(t, asError(in.refusal), ComponentUnsupported)
			continue
		}
		if err := in.refusal; err != nil {
			t.Errorf("%s: %s: %v", name, id, err)
			continue
		}
		if !s.anyGives(in, id, strings.TrimSpace(value)) {
			t.Errorf("%s: no message before gives %s", name, line)
		}
	}
}

func refused(id string) bool {
	return strings.Contains(id, ";req") || strings.Contains(id, ";tr") ||
		id == `"@status"` || id == `"@request-target"`
}

// params checks that the parameters of an example are parsed and written unchanged.
func (s *sectionRun) params(t *testing.T, name, value string) {
	t.Helper()
	in, ok := parseInput("x=" + value)
	if !ok {
		t.Errorf("%s: %s is not a list", name, value)
		return
	}
	if strings.Contains(value, "@status") {
		wantCode(t, asError(in.refusal), ComponentUnsupported)
		return
	}
	if err := in.refusal; err != nil || in.params != value {
		t.Errorf("%s: parameters %s (%v), want %s", name, in.params, err, value)
	}
}

func (s *sectionRun) anyGives(in *signatureInput, id, value string) bool {
	for _, r := range s.messages {
		m, err := newMessage(r)
		if err != nil {
			continue
		}
		base, refusal := m.base(nil, in)
		line, _, _ := strings.Cut(string(base), "\n")
		if refusal == nil && line == id+": "+value {
			return true
		}
	}
	return false
}

// asError converts a nil *Error to a nil error.
func asError(err *Error) error {
	if err == nil {
		return nil
	}
	return err
}
