package producer

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// delivery makes a delivery for extractors: target and body, then header names and values in turn.
func delivery(target, body string, header ...string) *Delivery {
	r := httptest.NewRequest(http.MethodPost, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return &Delivery{Request: r, Body: []byte(body)}
}

const hook = "https://hooks.example.com/webhooks/shop"

func TestExtractors(t *testing.T) {
	t.Parallel()
	form := "application/x-www-form-urlencoded"
	deep := strings.Repeat("[", 300) + strings.Repeat("]", 300)
	cases := []struct {
		name      string
		extractor string
		d         *Delivery
		want      string
		code      verify.Code
	}{
		{"header", "header:X-Id", delivery(hook, "", "x-id", " e1 "), "e1", ""},
		{"header absent", "header:X-Id", delivery(hook, ""), "", ""},
		{"header twice", "header:X-Id", delivery(hook, "", "X-Id", "e1", "X-Id", "e1"), "", verify.AmbiguousField},
		{"query", "query:id", delivery(hook+"?a=1&id=e%201", ""), "e 1", ""},
		{"query name escaped", "query:id", delivery(hook+"?%69d=e1", ""), "e1", ""},
		{"query twice", "query:id", delivery(hook+"?id=1&%69d=2", ""), "", verify.AmbiguousField},
		{"query malformed", "query:id", delivery(hook+"?id=%zz", ""), "", verify.EventMalformed},
		{"query absent", "query:id", delivery(hook+"?x=id", ""), "", ""},
		{"form", "form:id", delivery(hook, "a=b&id=e+1", "Content-Type", form), "e 1", ""},
		{"form with charset", "form:id", delivery(hook, "id=e1", "Content-Type", form+"; charset=utf-8"), "e1", ""},
		{"form of another type", "form:id", delivery(hook, "id=e1", "Content-Type", "text/plain"), "", ""},
		{"form twice", "form:id", delivery(hook, "id=1&id=1", "Content-Type", form), "", verify.AmbiguousField},
		{"json", "json:id", delivery(hook, ` {"a":[1,{"id":2}], "id" : "e1"} `), "e1", ""},
		{"json path", "json:data.object.id", delivery(hook, `{"data":{"x":"}","object":{"id":"e1"}}}`), "e1", ""},
		{"json index", "json:0.id", delivery(hook, `[{"id":"e1"},{"id":"e2"}]`), "e1", ""},
		{"json index padded", "json:00.id", delivery(hook, `[{"id":"e1"}]`), "", ""},
		{"json index past the end", "json:1.id", delivery(hook, `[{"id":"e1"}]`), "", ""},
		{"json dotted name", `json:a\.b`, delivery(hook, `{"a":{"b":"no"},"a.b":"e1"}`), "e1", ""},
		{"json number as written", "json:id", delivery(hook, `{"id":12345678901234567890}`), "12345678901234567890",
			""},
		{"json boolean", "json:live", delivery(hook, `{"live":false}`), "false", ""},
		{"json null", "json:id", delivery(hook, `{"id":null}`), "", ""},
		{"json object", "json:id", delivery(hook, `{"id":{"id":1}}`), "", ""},
		{"json scalar on the way", "json:data.id", delivery(hook, `{"data":"id"}`), "", ""},
		{"json escapes", "json:id", delivery(hook, `{"\u0069d":"a\u00e4\ud83d\ude00\/\n"}`), "aä😀/\n", ""},
		{"json not JSON", "json:id", delivery(hook, `{"id":"e1"`), "", ""},
		{"json two documents", "json:id", delivery(hook, `{"id":"e1"}{"id":"e2"}`), "", ""},
		{"json empty", "json:id", delivery(hook, ``), "", ""},
		{"json odd names", `json:a\*\[0].\*`, delivery(hook, `{"a*[0]":{"*":"e1"}}`), "e1", ""},
		{"json index", "json:value.0.id", delivery(hook, `{"value":[{"id":"e1"}]}`), "e1", ""},
		{"json duplicate", "json:id", delivery(hook, `{"id":"e1","id":"e1"}`), "", verify.AmbiguousField},
		{"json duplicate under an escape", "json:id", delivery(hook, `{"id":"e1","i\u0064":"e2"}`), "",
			verify.AmbiguousField},
		{"json duplicate on the way", "json:d.id", delivery(hook, `{"d":{"id":"e1"},"d":{}}`), "",
			verify.AmbiguousField},
		{"json duplicate elsewhere", "json:id", delivery(hook, `{"x":1,"x":2,"id":"e1"}`), "e1", ""},
		{"json lone surrogate", "json:id", delivery(hook, `{"id":"\ud800"}`), "", verify.EventMalformed},
		{"json not UTF-8", "json:id", delivery(hook, "{\"id\":\"\xff\"}"), "", verify.EventMalformed},
		{"json too deep", "json:id", delivery(hook, `{"id":"e1","x":`+deep+`}`), "", verify.EventMalformed},
		{"json brackets in strings do not nest", "json:id",
			delivery(hook, `{"x":"`+strings.Repeat("[", 300)+`\"[","id":"e1"}`), "e1", ""},
		{"json escaped backslash does not end a string", "json:id",
			delivery(hook, `{"x":"[\\\\","y":"\\\\\"]","z":"\\\"","id":"e1"}`), "e1", ""},
		{"json unterminated string", "json:id", delivery(hook, `{"id":"e1","x":"\"}`), "", ""},
		{"json a million arrays", "json:id", delivery(hook, strings.Repeat("[", 1e6)+strings.Repeat("]", 1e6)), "",
			verify.EventMalformed},
		{"json long number", "json:id", delivery(hook, `{"id":`+strings.Repeat("9", 5000)+`}`), "",
			verify.EventMalformed},
		{"json long string", "json:id", delivery(hook, `{"id":"`+strings.Repeat("x", 5000)+`"}`), "",
			verify.EventMalformed},
		{"link", "link:self", delivery(hook, "", "Link",
			`<https://h.example/>; rel="hub", <https://e.example/a,b>; rel="up Self"`), "https://e.example/a,b", ""},
		{"link unquoted, own line", "link:self", delivery(hook, "", "Link", `<h>;rel=hub`, "Link",
			`<t>;title="a;b,c" ; rel=self`), "t", ""},
		{"link twice the same", "link:self", delivery(hook, "", "Link", `<t>; rel=self, <t>; rel=self`), "t", ""},
		{"link two targets", "link:self", delivery(hook, "", "Link", `<t>; rel=self, <u>; rel=self`), "",
			verify.AmbiguousField},
		{"link malformed", "link:self", delivery(hook, "", "Link", `t; rel=self`), "", verify.EventMalformed},
		{"link second rel does not count", "link:self", delivery(hook, "", "Link", `<t>; rel=hub; rel=self`), "", ""},
		{"digest", "digest:body", delivery(hook, ""),
			"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", ""},
		{"const", "const:order", delivery(hook, ""), "order", ""},
		{"first", "header:X-Id | json:id", delivery(hook, `{"id":"e1"}`), "e1", ""},
		{"first keeps an error", "header:X-Id | json:id", delivery(hook, `{"id":"e1"}`, "X-Id", "a", "X-Id", "b"), "",
			verify.AmbiguousField},
		{"join", "json:a + json:b", delivery(hook, `{"a":"1","b":"2:3"}`), "1:2:3", ""},
		{"join escapes", "json:a + json:b", delivery(hook, `{"a":"1:2%","b":"3"}`), "1%3A2%25:3", ""},
		{"join with a missing part", "json:a + json:b", delivery(hook, `{"a":"1"}`), "", ""},
		{"list of joins", "json:a + json:b | json:a", delivery(hook, `{"a":"1"}`), "1", ""},
		{"key field by its usual name", "header:idempotency-key", delivery(hook, "", "Idempotency-Key", `"k1"`), "k1",
			""},
		{"key field by another name", "idempotency-key:X-Request-Id", delivery(hook, "", "X-Request-Id", `"k1";v=1`),
			"k1", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x, err := ParseExtractor(c.extractor)
			if err != nil {
				t.Fatal(err)
			}
			got, err := x.Extract(c.d)
			if got != c.want || verify.CodeOf(err) != c.code || (err == nil) != (c.code == "") {
				t.Errorf("%s: got %q, %v; want %q, %q", c.extractor, got, err, c.want, c.code)
			}
		})
	}
}

func TestExtractorSyntaxRoundTrips(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"header:X-Id", "idempotency-key", "idempotency-key:PayPal-Request-Id", "query:x", "json:a.b", `json:a\.b`,
		"form:x",
		"jwt:jti", "link:self", "digest:body", "const:x", "cloudevent:id", "cloudevent:type",
		"json:a + json:b | digest:body",
	} {
		x, err := ParseExtractor(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if x.String() != s {
			t.Errorf("%s is written as %s", s, x)
		}
	}
}

func TestInvalidExtractorsAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"json:value.*.id", "json:*", "json:data.** | json:id", "jwt:roles.*", "json:$.id", "json:items[0].id",
		"json:items[*].id", "json:items.#.id", "json:/data/id",
		"", "header", "header:", "header:X Id", "body:id", "json:", "json:a..b", "json:.a", "digest:header",
		"cloudevent:time", "json:a + ", " | json:a",
		"idempotency-key:X:Y", "json:" + strings.Repeat("a.", 20) + "a",
	} {
		if x, err := ParseExtractor(s); err == nil {
			t.Errorf("%q became %s", s, x)
		}
	}
}

func TestConsumesListsEveryPart(t *testing.T) {
	t.Parallel()
	x, err := ParseExtractor("header:X-Id + link:self | idempotency-key | query:q | form:a | json:a | digest:body " +
		"| const:a | jwt:a")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(x.Consumes(), " ")
	if got != "x-id link idempotency-key @query content-type @body @body @body" {
		t.Errorf("consumes %q", got)
	}
}

func TestJoinedValuesNeverCollide(t *testing.T) {
	t.Parallel()
	seen := map[string][2]string{}
	parts := []string{"a", "b", "a:b", ":", "%", "%3A", "a%3Ab", "", "b:c", "a:", ":a", "%25", "%2", "5"}
	for _, a := range parts {
		for _, b := range parts {
			id := JoinID(a, b)
			if old, ok := seen[id]; ok {
				t.Errorf("%q and %q both join to %q", old, [2]string{a, b}, id)
			}
			seen[id] = [2]string{a, b}
		}
	}
	if id := JoinID(strings.Repeat("a", 2000), "b"); !strings.HasPrefix(id, "sha256:") {
		t.Errorf("a long join stays long: %d characters", len(id))
	}
}

func TestClaimsAreReadFromTheVerifiedTokenOnly(t *testing.T) {
	t.Parallel()
	d := delivery(hook, `{"jti":"body"}`)
	if v, err := JWT("jti").Extract(d); v != "" || err != nil {
		t.Errorf("got %q, %v without a verified token", v, err)
	}
	d.Identity.Claims = []byte(`{"jti":"claim"}`)
	if v, err := JWT("jti").Extract(d); v != "claim" || err != nil {
		t.Errorf("got %q, %v", v, err)
	}
}

// FuzzJSON compares the extractor with encoding/json: where both find one string, they agree.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"id":"e1"}`, `{"a":{"id":1}}`, `{"id":"\ud83d\ude00"}`, `[[[{"id":[]}]]]`, `{"id":"e1","id":2}`, `{"id":"`,
		"{\"id\":\"\xff\"}",
		`{"a":[{},{"b":"x\"]}"}],"id":true}`, `{"":{"id":-0.5e-7}}`, "\ufeff{}", strings.Repeat("[", 1000),
	} {
		f.Add(s, "id")
		f.Add(s, "a.id")
		f.Add(s, "a.1.b")
	}
	f.Fuzz(func(t *testing.T, body, path string) {
		v, err := JSON(path).Extract(delivery(hook, body))
		if err != nil && verify.CodeOf(err) == "" {
			t.Fatalf("untyped error %v", err)
		}
		if want, ok := reference(body, splitPath(path)); ok && err == nil && v != want {
			t.Fatalf("%q at %q: got %q, want %q", body, path, v, want)
		}
		if len(v) > maxValue {
			t.Fatalf("a value of %d bytes", len(v))
		}
	})
}

// FuzzFields checks the extractors of fields, queries and forms: a value within the limits, or
// a typed error.
func FuzzFields(f *testing.F) {
	for _, s := range []string{`<t>; rel=self`, `<t>;rel="up self", <u>`, "id=1&id=2", "%69d=%zz", `<`, "a=1;id=2",
		"<>;rel=self,,", "id"} {
		f.Add(s, "id")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		d := delivery(hook, text, "Content-Type", "application/x-www-form-urlencoded")
		d.Request.Header["Link"] = []string{text}
		d.Request.URL.RawQuery = text
		for _, x := range []Extractor{Link(name), Query(name), Form(name)} {
			v, err := x.Extract(d)
			if err != nil && (v != "" || verify.CodeOf(err) == "") || len(v) > maxValue {
				t.Fatalf("%s of %q: %q, %v", x, text, v, err)
			}
		}
	})
}
