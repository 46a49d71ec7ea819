package verify

import (
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func boundaryScheme(content string) *HMAC {
	h := &HMAC{Headers: []string{"X-Sig"}, Encoding: Hex, Content: content, Secrets: Secrets(hmacSecret),
		Config: map[string]string{"sep": "|", "dot": "."}}
	if strings.Contains(content, "{timestamp}") {
		h.TimestampHeaders = []string{"X-Time"}
	}
	if strings.Contains(content, "{id}") {
		h.IDHeaders = []string{"X-Id"}
	}
	return h
}

// decodableContents are templates whose signed bytes can be divided in only one way.
var decodableContents = []string{
	"{body}", "{timestamp}.{body}", "v0:{timestamp}:{body}", "{id}.{timestamp}.{body}",
	"{id}|{timestamp}|{header:X-A}|{body}",
	"{header:X-A} {body}", "{url}|{body}", "{url}\n{body}", "{config:sep}{body}",
	"{header:X-A}{config:dot}{body}", "{body}.{timestamp}",
	"{body}|{id}", "{id}.{body}.{header:X-A}", "{timestamp}::{jcs}", "{body} {url}", "{header:X-A}a{body}",
	"{timestamp}{body}", "{timestamp}0{body}", "{body}{timestamp}", "{body}.{id}{timestamp}", "{body}1{timestamp}",
}

// ambiguousContents are templates in which bytes can move from one part to another.
var ambiguousContents = []string{
	"{url}{body}", "{header:X-A}{body}", "{id}{body}",
	"{id}{timestamp}{body}", "{url}/{body}",
	"{url}={body}", "{id}{header:X-A}.{body}",
	"{body}{id}",
	"{header:X-A}{jcs}", "{url}{config:dot}{body}",
}

func TestSignedTemplatesMustBeUniquelyDecodable(t *testing.T) {
	t.Parallel()
	for _, content := range decodableContents {
		if err := boundaryScheme(content).Check(); err != nil {
			t.Errorf("%s: %v", content, err)
		}
	}
	for _, content := range ambiguousContents {
		h := boundaryScheme(content)
		if err := h.Check(); err == nil || !strings.Contains(err.Error(), "has no boundary to") {
			t.Errorf("%s: %v", content, err)
		}
		h = boundaryScheme(content)
		h.Malleable = true
		if err := h.Check(); err != nil {
			t.Errorf("%s, of a vendor: %v", content, err)
		}
	}
	// The URL is configured, so nothing can move behind it.
	for _, content := range []string{"{url}{body}", "POST{url}{body}{timestamp}"} {
		h := boundaryScheme(content)
		h.URL = "https://hooks.example/in?a=1"
		if err := h.Check(); err != nil {
			t.Error(err)
		}
	}
}

// Every division of one captured signature's bytes is tried. Only the signed delivery passes;
// under an ambiguous template of a vendor all that pass have one digest.
func TestNoByteMovesBetweenSignedParts(t *testing.T) {
	t.Parallel()
	ambiguous := 0
	for _, content := range append(append([]string{}, decodableContents...), ambiguousContents...) {
		h := boundaryScheme(content)
		h.Malleable = slices.Contains(ambiguousContents, content)
		signed := delivered("e1.2|x", "1700000000", "pa id", "https://hooks.example/in", "7.8|9 {\"n\":1}.3")
		if strings.Contains(content, "{id}.") {
			signed = delivered("e1", "1700000000", "pa id", "https://hooks.example/in", "7.8|9 {\"n\":1}.3")
		}
		if strings.Contains(content, "jcs") {
			signed.body = `{"n":1}`
		}
		for _, value := range []struct{ old, clean string }{{"|", "-"}, {" ", "-"}, {".", "-"}, {"a", "-"}} {
			if err := h.Sign(signed.request(t), []byte(signed.body), testNow); err == nil {
				break
			}
			signed.id, signed.a = strings.ReplaceAll(signed.id, value.old, value.clean),
				strings.ReplaceAll(signed.a, value.old, value.clean)
		}
		r := signed.request(t)
		if err := h.Sign(r, []byte(signed.body), testNow); err != nil {
			t.Fatalf("%s: %v", content, err)
		}
		id, err := h.Verify(r, bodyOf(signed.body))
		if err != nil {
			t.Fatalf("%s: %v", content, err)
		}
		passed := 0
		for _, moved := range signed.moved(t) {
			other := moved.request(t)
			other.Header.Set("X-Sig", r.Header.Get("X-Sig"))
			again, err := h.Verify(other, bodyOf(moved.body))
			if err != nil || moved == signed {
				continue
			}
			if !moved.differsIn(content, signed) {
				continue
			}
			passed++
			if hex.EncodeToString(again.Signed) != hex.EncodeToString(id.Signed) || !again.Malleable {
				t.Errorf("%s: %+v passes as %+v under another digest", content, moved, signed)
			}
		}
		if h.plan.malleable == nil && passed > 0 {
			t.Errorf("%s: %d other deliveries pass", content, passed)
		}
		ambiguous += passed
	}
	if ambiguous == 0 {
		t.Error("no byte was moved, even without a boundary")
	}
}

// parts are the values of a delivery that a template can hold.
type parts struct{ id, stamp, a, url, body string }

func delivered(id, stamp, a, url, body string) parts {
	return parts{id, stamp, a, url, body}
}

func (p parts) request(t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"X-Id": {p.id}, "X-Time": {p.stamp}, "X-A": {p.a}}
	return r
}

// moved returns the delivery with up to eight bytes moved across each boundary between two
// parts, in every order of the parts, and all of the text before or after each separator.
func (p parts) moved(t *testing.T) []parts {
	t.Helper()
	fields := []func(*parts) *string{
		func(p *parts) *string { return &p.id }, func(p *parts) *string { return &p.stamp },
		func(p *parts) *string { return &p.a }, func(p *parts) *string { return &p.body },
		func(p *parts) *string { return &p.url },
	}
	var out []parts
	for i, left := range fields {
		for j, right := range fields {
			if i == j {
				continue
			}
			for _, glue := range []string{"", ".", "|", " ", "a", "0", "1", "=", "/"} {
				whole := *left(&p) + glue + *right(&p)
				for cut := 0; cut+len(glue) <= len(whole); cut++ {
					if whole[cut:cut+len(glue)] != glue {
						continue
					}
					q := p
					*left(&q), *right(&q) = whole[:cut], whole[cut+len(glue):]
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, q.url, nil)
					if err == nil && r.URL.String() == q.url && r.URL.Host != "" {
						out = append(out, q)
					}
				}
			}
		}
	}
	return out
}

// differsIn reports whether two deliveries differ in a part of the template.
func (p parts) differsIn(content string, q parts) bool {
	return strings.Contains(content, "{id}") && p.id != q.id ||
		strings.Contains(content, "{timestamp}") && p.stamp != q.stamp ||
		strings.Contains(content, "{header") && p.a != q.a ||
		strings.Contains(content, "{url}") && p.url != q.url || p.body != q.body
}

func TestURLWithoutBoundaryHasNoQuery(t *testing.T) {
	t.Parallel()
	h := boundaryScheme("{url}{body}")
	h.Malleable = true
	r := delivered("", "", "", "https://hooks.example/in", "tea").request(t)
	if err := h.Sign(r, []byte("tea"), testNow); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Verify(r, bodyOf("tea")); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"?", "?a=1"} {
		other := delivered("", "", "", "https://hooks.example/in"+query, "tea").request(t)
		other.Header = r.Header
		if _, err := h.Verify(other, bodyOf("tea")); CodeOf(err) != ComponentUnsupported {
			t.Errorf("%q: got %v", query, err)
		}
	}
	known := boundaryScheme("{url}{body}")
	known.URL = "https://hooks.example/in?a=1"
	r = delivered("", "", "", known.URL, "tea").request(t)
	if err := known.Sign(r, []byte("tea"), testNow); err != nil {
		t.Fatal(err)
	}
	if id, err := known.Verify(r, bodyOf("tea")); err != nil || id.Malleable || !id.Covers("@query") {
		t.Errorf("%+v, %v", id, err)
	}
	other := delivered("", "", "", known.URL+"t", "ea").request(t)
	other.Header = r.Header
	if _, err := known.Verify(other, bodyOf("ea")); CodeOf(err) != SignatureMismatch {
		t.Errorf("got %v", err)
	}
}
