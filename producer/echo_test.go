package producer

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/verify"
)

// echoing returns the producer of the handshake, with its defaults.
func echoing(e Echo, methods ...string) Producer {
	return Producer{
		Name: "x", Scheme: verify.BearerToken("kettle"), Key: BodyDigest(), Echo: &e, Methods: methods,
	}.WithDefaults()
}

// handshake returns the answer to a request as the receiver gives it, in short: the body and, after
// "#", the media type and a field X-Hook-Secret; the code of a refusal; or "" for none.
func handshake(t *testing.T, p Producer, signed bool, method, query, body string, field ...string) string {
	t.Helper()
	r := httptest.NewRequest(method, hook+query, nil)
	r.Header["X-Hook-Secret"] = field
	var resp *dedup.Response
	var err error
	switch {
	case method == http.MethodGet && len(p.Methods) == 1:
		resp, err = p.Challenge(r)
	case signed && p.Handshake != nil:
		resp, err = p.Handshake(context.Background(), &Delivery{Request: r, Body: []byte(body)})
	case !signed && p.UnsignedChallenge != nil:
		resp = p.UnsignedChallenge(r, []byte(body))
	}
	if err != nil {
		return string(verify.CodeOf(err))
	} else if resp == nil {
		return ""
	}
	if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s %s %.40s: %v", method, query, body, resp.Header)
	}
	return string(resp.Body) + "#" + resp.Header.Get("Content-Type") + resp.Header.Get("X-Hook-Secret")
}

// TestHandshakesOfVendorsAreDescribed: what is known of their checks, as data.
func TestHandshakesOfVendorsAreDescribed(t *testing.T) {
	t.Parallel()
	const asText, asJSON = "#text/plain", "#application/json"
	lark := `{"challenge":"ajls384","token":"xxx","type":"url_verification"}`
	graph := "?validationToken=" + url.QueryEscape("Validation: Testing client 17+1")
	for _, row := range []struct {
		name                string
		echo                Echo
		signed              bool
		method, query, body string
		want                string
	}{
		{"Dropbox", Echo{Query: "challenge"}, false, "GET", "?challenge=tea-17", "", "tea-17" + asText},
		{"a plus", Echo{Query: "challenge"}, false, "GET", "?challenge=a+b%20c%2Bd", "", "a b c+d" + asText},
		{"Strava", Echo{Query: "hub.challenge"}, false, "GET", "?hub.mode=subscribe&hub.challenge=15f7", "",
			`{"hub.challenge":"15f7"}` + asJSON},
		{"a hub", Echo{Query: "hub.challenge", Reply: "text"}, false, "GET", "?hub.challenge=15f7", "",
			"15f7" + asText},
		{"Adobe", Echo{Query: "challenge", Reply: "json"}, false, "GET", "?challenge=a", "",
			`{"challenge":"a"}` + asJSON},
		{"Graph", Echo{Query: "validationToken", Methods: []string{"POST"}}, false, "POST", graph, "",
			"Validation: Testing client 17+1" + asText},
		{"signed Graph", Echo{Query: "validationToken", Methods: []string{"POST"}}, true, "POST", graph, "",
			"Validation: Testing client 17+1" + asText},
		{"an event with the parameter", Echo{Query: "validationToken", Methods: []string{"POST"}}, true, "POST", graph,
			"{}", ""},
		{"another method", Echo{Query: "a", Methods: []string{"POST"}}, false, "GET", "?a=1", "", ""},
		{"none", Echo{Query: "a"}, false, "GET", "?b=1", "", ""},
		{"markup", Echo{Query: "a"}, false, "GET", "?a=<b>", "", "<b>" + asText},
		{"twice", Echo{Query: "a"}, false, "GET", "?a=1&a=1", "", "ambiguous_field"},
		{"a line feed", Echo{Query: "a"}, false, "GET", "?a=1%0A", "", "challenge_unexpected"},
		{"too long", Echo{Query: "a"}, false, "GET", "?a=" + strings.Repeat("a", maxEcho+1), "",
			"challenge_unexpected"},
		{"monday.com", Echo{Member: "challenge"}, false, "POST", "", `{"challenge":"tea"}`,
			`{"challenge":"tea"}` + asJSON},
		{"signed", Echo{Member: "challenge"}, true, "POST", "", `{"challenge":"tea"}`, `{"challenge":"tea"}` + asJSON},
		{"Lark", Echo{Member: "challenge"}, false, "POST", "", lark, `{"challenge":"ajls384"}` + asJSON},
		{"signed by Lark", Echo{Member: "challenge", Members: []string{"token", "type"}}, true, "POST", "", lark,
			`{"challenge":"ajls384"}` + asJSON},
		{"a signed event", Echo{Member: "challenge", Members: []string{"token"}}, true, "POST", "", lark, ""},
		{"an event", Echo{Member: "challenge"}, false, "POST", "", `{"challenge":"tea","order":{}}`, ""},
		{"as text", Echo{Member: "challenge", Reply: "text"}, false, "POST", "", lark, "ajls384" + asText},
		{"Smartsheet", Echo{Member: "challenge", As: "smartsheetHookResponse"}, false, "POST", "",
			`{"challenge":"a b","webhookId":17}`, `{"smartsheetHookResponse":"a b"}` + asJSON},
		{"JSON markup", Echo{Member: "challenge"}, false, "POST", "", ` {"challenge":"a\"\u003c/script>"} `,
			`{"challenge":"a\"\u003c/script\u003e"}` + asJSON},
		{"twice in JSON", Echo{Member: "challenge"}, false, "POST", "", `{"challenge":"a","challenge":"a"}`, ""},
		{"empty", Echo{Member: "challenge"}, false, "POST", "", `{"challenge":""}`, ""},
		{"an array", Echo{Member: "challenge"}, false, "POST", "", `["challenge"]`, ""},
		{"a number", Echo{Member: "challenge"}, false, "POST", "", `{"challenge":17}`, ""},
		{"long JSON", Echo{Member: "challenge"}, false, "POST", "",
			`{"challenge":"a"` + strings.Repeat(" ", MaxChallengeBody) + "}", ""},
		{"Asana", Echo{Field: "X-Hook-Secret"}, false, "POST", "", "{}", asText + "tea-17"},
		{"signed with the field", Echo{Field: "X-Hook-Secret"}, true, "POST", "", "{}", ""},
		{"GET with a field", Echo{Field: "X-Hook-Secret", Methods: []string{"GET"}, Reply: "json", As: "verification"},
			false, "GET", "", "", `{"verification":"tea-17"}` + asJSON},
	} {
		p := echoing(row.echo)
		if got := handshake(t, p, row.signed, row.method, row.query, row.body, "tea-17"); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
	if got := handshake(t, echoing(Echo{Field: "X-Hook-Secret"}), false, "POST", "", "", "a", "b"); got != "" {
		t.Errorf("a repeated field: %q", got)
	}
	both := echoing(Echo{Query: "a"}, "POST", "GET")
	if got := handshake(t, both, false, "GET", "?a=1", ""); got != "1"+asText {
		t.Errorf("where GET is a method of deliveries: %q", got)
	}
	if got := handshake(t, both, false, "POST", "?a=1", ""); got != "" {
		t.Errorf("a POST where only GET is one of challenges: %q", got)
	}
}

func TestEchoMistakes(t *testing.T) {
	t.Parallel()
	base := func(e Echo) Producer {
		return Producer{Name: "x", Scheme: verify.BearerToken("kettle"), Key: BodyDigest(), Echo: &e}
	}
	own := base(Echo{Query: "a"})
	own.Challenge = func(*http.Request) (*dedup.Response, error) { return nil, nil }
	for want, p := range map[string]Producer{
		"exactly one":            base(Echo{}),
		"set exactly one":        base(Echo{Query: "a", Field: "b"}),
		"the header field":       base(Echo{Field: "a b"}),
		"not one":                base(Echo{Query: "a b", Reply: "header"}),
		"want text, json":        base(Echo{Query: "a", Reply: "xml"}),
		"further members":        base(Echo{Query: "a", Members: []string{"b"}}),
		"methods are for":        base(Echo{Member: "a", Methods: []string{"POST"}}),
		`"DELETE" is not`:        base(Echo{Query: "a", Methods: []string{"DELETE"}}),
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
