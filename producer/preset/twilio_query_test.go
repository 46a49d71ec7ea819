package preset

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// The first four rows are those of the vendor's Node.js library (spec/unit/webhooks).
func TestTwilioTriesEncodingsOfTheQuery(t *testing.T) {
	t.Parallel()
	scheme := newTwilioScheme(testSecret)
	for _, row := range []struct {
		signed, seen string
		code         verify.Code
	}{
		{"?a=it's", "?a=it's", ""},
		{"?a=it's", "?a=it%27s", ""},
		{"?a=it%27s", "?a=it's", ""},
		{"?a=it%27s", "?a=it%27s", ""},
		{"?a=it's", ":443?a=it%27s", ""},
		{":443?a=it%27s", "?a=it's", ""},
		{"?a=%20%7E&b=", "?a=%20%7E&b=", ""},
		{"?a=%20~&b=%E2%82%AC", "?%61=+%7e&&b=%e2%82%ac", ""},
		{"?a=", "?a", ""},
		{"?a=1%26b=2", "?a=1&b=2", verify.SignatureMismatch},
		{"?a=1&b=2", "?b=2&a=1", verify.SignatureMismatch},
		{"?a=%2B", "?a=+", verify.SignatureMismatch},
		{"?a=%27&b=%zz", "?a='&b=%zz", verify.SignatureMismatch}, // not a form
		{"?a=%3B", "?a=;", verify.SignatureMismatch},             // not a form
		{"?a='%27", "?a=%27'", verify.SignatureMismatch},         // signed in none of the forms
	} {
		r := twilioRequest(t, "https://a.example/in", formMedia, "A=1")
		r.URL = mustParse(t, "https://a.example"+row.signed)
		if err := scheme.Sign(r, []byte("A=1"), testNow); err != nil {
			t.Fatal(err)
		}
		r.URL = mustParse(t, "https://a.example"+row.seen)
		if _, err := scheme.Verify(r, body("A=1")); verify.CodeOf(err) != row.code {
			t.Errorf("signed %s, seen %s: %v, want %q", row.signed, row.seen, err, row.code)
		}
	}
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// All variants are in one scope of identifiers, and decode to the same names and values.
func TestVariantsOfAQueryMeanTheSame(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][]string{
		"":               nil,
		"a=1&b=2":        nil,
		"a=it's":         {"a=it%27s"},
		"a=it%27s":       {"a=it's"},
		"a='%27":         {"a=''", "a=%27%27"},
		"a=+%7e'":        {"a=%20~'", "a=+%7e%27"},
		"a&&%62=€":       {"a=&b=%E2%82%AC"},
		"a=';b='":        nil,
		"a='&b=%zz":      nil,
		"(a)=*!-._%5B%c": nil,
		"(a)=*!-._%5B":   nil,
	} {
		var got []string
		for _, q := range queryVariants(query) {
			got = append(got, string(q))
			if one, scope := twilioScope(string(q)), twilioScope(query); one != scope {
				t.Errorf("%s and its variant %s: scopes %q and %q", query, q, scope, one)
			}
			values, err := url.ParseQuery(string(q))
			if sent, err2 := url.ParseQuery(query); values.Encode() != sent.Encode() || (err == nil) != (err2 == nil) {
				t.Errorf("%s and its variant %s differ", query, q)
			}
		}
		if !slices.Equal(got, append([]string{query}, want...)) {
			t.Errorf("%s: got %s", query, strings.Join(got, " "))
		}
	}
}
