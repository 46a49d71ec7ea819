package producer

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// TestEchoesAreBoundedAndInert: a value of an unauthenticated client comes back only where no
// browser runs it.
func TestEchoesAreBoundedAndInert(t *testing.T) {
	t.Parallel()
	e := &Echo{Member: "challenge"}
	for body, want := range map[string]string{
		`{"challenge":"tea-17"}`:                                         `{"challenge":"tea-17"}`,
		` {"challenge":"a\"\u003c/script>"} `:                            `{"challenge":"a\"\u003c/script\u003e"}`,
		`{"challenge":"tea","challenge":"coffee"}`:                       "",
		`{"challenge":"tea 17"}`:                                         "",
		`{"challenge":""}`:                                               "",
		`{"challenge":"tea","type":"x"}`:                                 "",
		`["challenge"]`:                                                  "",
		`{"challenge":"` + strings.Repeat("a", 1025) + `"}`:              "",
		`{"challenge":"a"` + strings.Repeat(" ", MaxChallengeBody) + "}": "",
	} {
		got := ""
		if resp := e.answerMember([]byte(body)); resp != nil {
			got = string(resp.Body)
			if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%.40s: %v", body, resp.Header)
			}
		}
		if got != want {
			t.Errorf("%.40s: %q, want %q", body, got, want)
		}
	}
	field := &Echo{Field: "X-Hook-Secret"}
	r := httptest.NewRequest(http.MethodPost, hook, nil)
	r.Header["X-Hook-Secret"] = []string{"a", "b"}
	if resp := field.answerField(r); resp != nil {
		t.Errorf("a repeated field: %v", resp.Header)
	}
}

func TestEchoMistakes(t *testing.T) {
	t.Parallel()
	base := func(e Echo) Producer {
		return Producer{Name: "x", Scheme: verify.BearerToken("kettle"), Key: BodyDigest(), Echo: &e}
	}
	own := base(Echo{Query: "a"})
	own.Challenge = (&Echo{Query: "b"}).answerQuery
	gets := base(Echo{Query: "a"})
	gets.Methods = []string{http.MethodGet}
	for want, p := range map[string]Producer{
		"exactly one":            base(Echo{}),
		"set exactly one":        base(Echo{Query: "a", Field: "b"}),
		"the header field":       base(Echo{Field: "a b"}),
		"as JSON or as text":     base(Echo{Query: "a", Text: true}),
		"GET is a method":        gets,
		"a handshake of its own": own,
	} {
		errs := p.Check()
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%v, want %q", errs, want)
		}
	}
	good := base(Echo{Query: "a"})
	if errs := good.Check(); len(errs) > 0 {
		t.Error(errs)
	}
}
