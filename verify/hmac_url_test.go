package verify

import (
	"net/http"
	"strings"
	"testing"
)

func TestHMACTriesTheOtherURL(t *testing.T) {
	t.Parallel()
	decoded := strings.NewReplacer("%27", "'", "%3F", "?", "%0A", "\n").Replace
	for _, row := range []struct {
		name, content, pinned, signed, seen string
		code                                Code
	}{
		{"as called", "{url}\n{body}", "", "a%27", "a%27", ""},
		{"the other", "{url}\n{body}", "", "a'", "a%27", ""},
		{"not the reverse", "{url}\n{body}", "", "a%27", "a'", SignatureMismatch},
		{"neither", "{url}\n{body}", "", "b", "a%27", SignatureMismatch},
		{"the boundary in the other", "{url}\n{body}", "", "a\n", "a%0A", SignatureMismatch},
		{"no boundary", "{url}{body}", "", "a'", "a%27", ""},
		{"no boundary, and a query in the other", "{url}{body}", "", "a?b", "a%3Fb", SignatureMismatch},
		{"pinned", "{url}{body}", "a?b%27", "a?b'", "a?b%27", ""},
		{"the other is pinned", "{url}{body}", "a?b'", "a?b'", "a?b%27", SignatureMismatch},
		{"no URL", "{body}", "", "", "a%27", ""},
	} {
		const host = "https://hooks.example/"
		h := boundaryScheme(row.content)
		h.Malleable, h.OtherURL = true, decoded
		if row.pinned != "" {
			h.URL = host + row.pinned
		}
		r, err := http.NewRequest(http.MethodPost, host+row.seen, nil)
		if err != nil {
			t.Fatal(err)
		}
		signed := strings.NewReplacer("{url}", host+row.signed, "{body}", "x").Replace(row.content)
		r.Header.Set(h.Headers[0], hexTag(signed))
		for _, scheme := range []*HMAC{h, h.WithSecrets(h.Secrets)} { // itself, and as package explain tries it
			if _, err := scheme.Verify(r, bodyOf("x")); CodeOf(err) != row.code {
				t.Errorf("%s: %v, want %q", row.name, err, row.code)
			}
		}
	}
}
