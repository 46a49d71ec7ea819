package redact

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// rules returns rules, which must be good.
func rules(t *testing.T, words ...string) *Rules {
	t.Helper()
	r := &Rules{}
	for _, word := range words {
		if err := r.Add(word); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestRulesThatNameNothingAreErrors(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"", "header", "header:", "query:", "json:", "json:a.", "json:.a", "body:x", "x"} {
		if (&Rules{}).Add(rule) == nil {
			t.Errorf("%q is taken", rule)
		}
	}
}

func TestCredentialsInTargetsAreHidden(t *testing.T) {
	t.Parallel()
	m := rules(t, "query:token", "query:hub.verify").Mask(nil)
	for target, want := range map[string]string{
		"/a?x=1":                        "/a?x=1",
		"/a?token=secret&x=1":           "/a?token=REDACTED(6)&x=1",
		"/a?x=1&TOKEN=secret":           "/a?x=1&TOKEN=REDACTED(6)",
		"/a?x=1;token=se;cret&y=2":      "/a?x=1;token=REDACTED(7)&y=2",
		"/a?%74oken=secret":             "/a?%74oken=REDACTED(6)",
		"/a?%zz=1&token=":               "/a?%zz=1&token=REDACTED(0)",
		"/a?token":                      "/a?token",
		"/a?":                           "/a?",
		"/a?&&token=s&&":                "/a?&&token=REDACTED(1)&&",
		"/a?hub.verify=v=w?x&z":         "/a?hub.verify=REDACTED(5)&z",
		"http://u:pw@h/a?token=x":       "http://REDACTED(4)@h/a?token=REDACTED(1)",
		"http://u:pw@h":                 "http://REDACTED(4)@h",
		"http://u:pw@h?token=a@b://c@d": "http://REDACTED(4)@h?token=REDACTED(9)",
		"*":                             "*",
		"":                              "",
	} {
		if got := m.Target(target); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

func TestCredentialsInFieldsAndTheirCopiesAreHidden(t *testing.T) {
	t.Parallel()
	h := http.Header{
		"Authorization": {"Bearer top-secret-1"}, "X-Token": {"top-secret-2", "short"}, "Cookie": {""},
		"X-Original-Url": {"https://h/a?k=top-secret-3&b=top-secret-1"}, "X-Other": {"short top%2Dsecret-3"},
	}
	m := rules(t, "header:x-token", "query:k").Mask(h, "/a?k=top%2Dsecret-3")
	shown := m.Header(h)
	for name, want := range map[string]string{
		"Authorization": "REDACTED(19)", "X-Token": "REDACTED(12) REDACTED(5)", "Cookie": "REDACTED(0)",
		"X-Original-Url": "https://h/a?k=REDACTED(12)&b=REDACTED(12)", "X-Other": "short REDACTED(14)",
	} {
		if got := strings.Join(shown[name], " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if h.Get("Authorization") != "Bearer top-secret-1" {
		t.Error("the request was changed")
	}
	body, ok := m.Body([]byte(`{"a":"top-secret-2"}`))
	if !ok || string(body) != `{"a":"REDACTED(12)"}` {
		t.Errorf("%s, %t", body, ok)
	}
}

func TestMembersAreHidden(t *testing.T) {
	t.Parallel()
	m := rules(t, "json:card.number", "json:pin").Mask(nil)
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	for body, want := range map[string]string{
		`{"pin":1234,"x": [1] }`:          `{"pin":"REDACTED(4)","x": [1] }`,
		`{"PIN" : {"a":1} , "pin":"x"}`:   `{"PIN" : "REDACTED(7)" , "pin":"REDACTED(3)"}`,
		`{"\u0070in":"x"}`:                `{"\u0070in":"REDACTED(3)"}`,
		`[{"card":[{"number":"4111"}]}]`:  `[{"card":[{"number":"REDACTED(6)"}]}]`,
		`{"card":"4111","number":"4111"}`: `{"card":"4111","number":"4111"}`,
		`"4111"`:                          `"4111"`,
		``:                                ``,
	} {
		got, ok := m.Body([]byte(body))
		if !ok || string(got) != want {
			t.Errorf("%s: %s (%t), want %s", body, got, ok, want)
		}
	}
	// Text that cannot be read is not shown.
	for _, body := range []string{`{"pin":12`, `pin=12`, `{"pin":1}{"pin":2}`, "\xef\xbb\xbf{\"pin\":1}", deep} {
		if got, ok := m.Body([]byte(body)); ok || got != nil {
			t.Errorf("%.40q: %q", body, got)
		}
	}
}

// TestTheCostIsBounded: the text is of a client, and has as many credentials as it wants.
func TestTheCostIsBounded(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	for i := range 100 {
		h.Add("Cookie", strings.Repeat("a", 8000+i)+"b")
	}
	body := []byte(strings.Repeat("a", 1<<20))
	began := time.Now()
	m := rules(t).Mask(h)
	if _, ok := m.Body(body); !ok || len(m.copies) != maxCopies {
		t.Error(ok, len(m.copies), "copies")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Error("took", took)
	}
	deep := []byte(strings.Repeat("[", 500_000))
	if _, ok := rules(t, "json:a").Mask(nil).Body(deep); ok {
		t.Error("500,000 levels were read")
	}
}
