package verify

import (
	"net/http"
	"strings"
	"testing"
)

// The values are those of RFC 9421 section 2.2.8 and of the percent-encode set that it cites.
func TestQueryParametersAreEncodedAsTheRFCSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ query, name, want string }{
		{"param=value&foo=bar&baz=batman&qux=", "qux", ""},
		{"param=value&foo=bar&baz=batman&qux=", "baz", "batman"},
		{"var=this%20is%20a%20big%0Amultiline%20value&bar=with+plus+whitespace&fa%C3%A7ade%22%3A%20=something", "var",
			"this%20is%20a%20big%0Amultiline%20value"},
		{"bar=with+plus+whitespace", "bar", "with%20plus%20whitespace"},
		{"fa%C3%A7ade%22%3A%20=something", "fa%C3%A7ade%22%3A%20", "something"},
		{"a=*-._~!'()", "a", "*-._%7E%21%27%28%29"},
		{"a=%2a%7e%41", "a", "*%7EA"},
		{"a=1;b=2", "a", "1%3Bb%3D2"},
		{"&&a=1&", "a", "1"},
		{"a", "a", ""},
	} {
		p := newPair(t, "k", Ed25519)
		p.signer.Components = []string{"@method", "@authority", "@path", "@query", "content-digest", "content-type",
			"idempotency-key", `@query-param;name="` + c.name + `"`}
		r := newDelivery(t, testBody)
		r.URL.RawQuery = c.query
		r.RequestURI = ""
		m, err := newMessage(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.appendQueryParam(nil, c.name); err != nil || string(got) != c.want {
			t.Errorf("%s of %s: %q, %v, want %q", c.name, c.query, got, err, c.want)
		}
		p.sign(t, r, testBody)
		scheme := &RFC9421{Keys: StaticKeys(p.key)}
		if _, err := scheme.Verify(r, bodyOf(testBody)); err != nil {
			t.Errorf("%s: %v", c.query, err)
		}
		r.URL.RawQuery += "x"
		_, err = scheme.Verify(r, bodyOf(testBody))
		wantCode(t, err, SignatureMismatch)
	}
	for query, code := range map[string]Code{"a=1&%61=2": AmbiguousField,
		"b=1": SignatureMismatch, "a=%ff": SignatureMalformed} {
		r := newDelivery(t, "")
		r.URL.RawQuery = query
		m, err := newMessage(r)
		if err != nil {
			t.Fatal(err)
		}
		_, refusal := m.appendQueryParam(nil, "a")
		if refusal == nil || refusal.Code != code {
			t.Errorf("%s: %v", query, refusal)
		}
	}
}

// A query is octets: RFC 9421 sections 2.2.2 and 2.2.7 do not require a form.
func TestQueriesNeedNotBeForms(t *testing.T) {
	t.Parallel()
	for _, components := range [][]string{{"@target-uri"},
		{"@authority", "@path", "@query"}, {"@target-uri", "@query"}} {
		for _, query := range []string{"a=1;b=2", "?", "a=b=c&&=", "q='\"",
			"a=1;b=2&c", strings.Repeat("a&", 12_000), "%3b;%00"} {
			p := newPair(t, "k", Ed25519)
			p.signer.Components = append([]string{"@method", "content-digest", "content-type", "idempotency-key"},
				components...)
			r := newDelivery(t, testBody)
			r.URL.RawQuery, r.RequestURI = query, ""
			p.sign(t, r, testBody)
			scheme := &RFC9421{Keys: StaticKeys(p.key)}
			if _, err := scheme.Verify(r, bodyOf(testBody)); err != nil {
				t.Errorf("%v, ?%s: %v", components, query, err)
			}
			for _, other := range []string{query + ";", "a=1&b=2"} {
				changed := r.Clone(t.Context())
				changed.URL.RawQuery = other
				_, err := scheme.Verify(changed, bodyOf(testBody))
				wantCode(t, err, SignatureMismatch)
			}
		}
	}
}

func TestInvalidPercentEncodingIsRefused(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"%", "a=%zz", "a=%2", "%%41"} {
		s := newScene(t)
		s.pair.sign(t, s.r, s.body)
		s.r.URL.RawQuery, s.r.RequestURI = query, ""
		_, err := s.verify()
		wantCode(t, err, SignatureMalformed)
	}
}

// The engine checks every signature that it reads as the RFC does.
func TestEngineIsAskedWhereItAgreesWithTheRFC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		components []string
		query      string
		asked      bool
	}{
		{[]string{"@target-uri"}, "a=1", true}, {[]string{"@target-uri"}, "a=1;b", true},
		{[]string{"@authority", "@path", "@query"}, "a=1", true},
		{[]string{"@authority", "@path", "@query"}, "a=1;b", false},
		{[]string{"@target-uri", `@query-param;name="a"`}, "a=1", false},
	} {
		p := newPair(t, "k", Ed25519)
		p.signer.Components = append([]string{"@method", "content-digest", "content-type", "idempotency-key"},
			c.components...)
		r := newDelivery(t, testBody)
		r.URL.RawQuery, r.RequestURI = c.query, ""
		p.sign(t, r, testBody)
		asked := 0
		engine, err := newHTTPSignEngine()
		if err != nil {
			t.Fatal(err)
		}
		scheme := &RFC9421{Keys: StaticKeys(p.key), engine: askedEngine{engine, &asked}}
		if _, err := scheme.Verify(r, bodyOf(testBody)); err != nil ||
			(asked == 1) != c.asked {
			t.Errorf("%v, ?%s: asked %d times, %v", c.components, c.query, asked, err)
		}
	}
}

// askedEngine counts the calls of another engine.
type askedEngine struct {
	engine
	asked *int
}

func (e askedEngine) agrees(list string, r *http.Request, base []byte) error {
	*e.asked++
	return e.engine.agrees(list, r, base)
}
