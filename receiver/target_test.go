package receiver

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

func TestTargetIsParsedOctetForOctet(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]target{
		"/a":                        {path: "/a"},
		"/a?":                       {path: "/a", query: "?"},
		"/a?b?c":                    {path: "/a", query: "?b?c"},
		"//a/%2e%2e/b":              {path: "//a/%2e%2e/b"},
		"/a#b":                      {path: "/a#b"},
		"http://h/a?b":              {path: "/a", query: "?b"},
		"https://u@h:1//a":          {path: "//a"},
		"http://h":                  {path: "/"},
		"http://h?b":                {path: "/", query: "?b"},
		"HTTP://h/a":                {path: "/a"},
		"/x?u=http://h/webhooks/hi": {path: "/x", query: "?u=http://h/webhooks/hi"},
	} {
		if got, ok := parseTarget(raw); !ok || got != want {
			t.Errorf("%s: %+v, %v", raw, got, ok)
		}
	}
	for _, raw := range []string{"", "*", "h:80", "ftp://h/a", "a/b", "://h/a", "?a"} {
		if got, ok := parseTarget(raw); ok {
			t.Errorf("%q: %+v", raw, got)
		}
	}
}

func TestPublicURLIsBaseAndTarget(t *testing.T) {
	t.Parallel()
	rows := []struct{ base, own, target, want string }{
		{"https://hooks.example", "", "/webhooks/shop?a=%7e", "https://hooks.example/webhooks/shop?a=%7e"},
		{"https://hooks.example/pre", "", "/webhooks/shop", "https://hooks.example/pre/webhooks/shop"},
		{"https://hooks.example", "", "//evil.example/x", "https://hooks.example//evil.example/x"},
		{"https://hooks.example", "", "/@evil.example/x#y", "https://hooks.example/@evil.example/x%23y"},
		{"https://hooks.example", "", "http://evil.example/webhooks/shop?b", "https://hooks.example/webhooks/shop?b"},
		{"https://hooks.example", "", "/a%2Fb?", "https://hooks.example/a%2Fb?"},
		{"", "https://own.example/in/shop", "/webhooks/shop?c=1", "https://own.example/in/shop?c=1"},
		{"https://hooks.example", "https://own.example/in/shop?tenant=1", "/x?tenant=1",
			"https://own.example/in/shop?tenant=1"},
		{"", "", "/webhooks/shop", "http://peer.example/webhooks/shop"},
	}
	for _, row := range rows {
		rx := &Receiver{cfg: Config{URL: row.base}}
		ep := newEndpoint(rx, producer.Producer{Name: "shop", URL: row.own}.WithDefaults())
		at, ok := parseTarget(row.target)
		if !ok {
			t.Fatal(row.target)
		}
		u, err := ep.publicURL(&http.Request{Host: "peer.example", RemoteAddr: "127.0.0.1:1", Header: http.Header{
			"X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"evil.example"}, "Forwarded": {"host=evil.example"},
		}}, at)
		if err != nil || u.String() != row.want {
			t.Errorf("%s: %v, %v, want %s", row.target, &u, err, row.want)
		}
	}
}

func TestScopeHoldsOnlyWhatIsSigned(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		query   bool // QueryScope
		covered []string
		target  string
		want    string
	}{
		{"nothing covered", true, nil, "/webhooks/shop?t=a", "shop"},
		{"body covered", true, []string{"@body"}, "/elsewhere?t=a", "shop"},
		{"no part of the scope", false, []string{"@target-uri"}, "/webhooks/shop?t=a", "shop"},
		{"target", true, []string{"@target-uri"}, "/webhooks/shop?t=a", "shop?t=a"},
		{"query", true, []string{"@query"}, "/elsewhere?t=a&u=%7e", "shop?t=a&u=%7e"},
		{"path", true, []string{"@path"}, "/elsewhere?t=a", "shop/elsewhere"},
		{"both", true, []string{"@target-uri"}, "/elsewhere?t=a", "shop/elsewhere?t=a"},
		{"ignored", true, []string{"@query"}, "/webhooks/shop?key=s&t=a&attempt=3&%6bey=x", "shop?t=a"},
		{"only ignored", true, []string{"@query"}, "/webhooks/shop?key=s", "shop"},
		{"empty", true, []string{"@query"}, "/webhooks/shop?", "shop"},
	}
	for _, row := range rows {
		p := producer.Producer{Name: "shop", QueryScope: row.query,
			ScopeIgnores: []string{"attempt", "key"}}.WithDefaults()
		at, _ := parseTarget(row.target)
		d := &delivery{
			Delivery: producer.Delivery{Identity: verify.Identity{Covered: row.covered}},
			ep:       newEndpoint(&Receiver{}, p), target: at,
		}
		if got := d.scope(); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

func TestScopeHasTheQueryInOneForm(t *testing.T) {
	t.Parallel()
	p := producer.Producer{Name: "shop", QueryScope: true, ScopeIgnores: []string{"key"}, ScopeQuery: strings.ToLower}
	for query, want := range map[string]string{"": "shop", "?key=S": "shop", "?T=A&key=S&u": "shop?t=a&u"} {
		at, _ := parseTarget("/webhooks/shop" + query)
		d := &delivery{
			Delivery: producer.Delivery{Identity: verify.Identity{Covered: []string{"@query"}}},
			ep:       newEndpoint(&Receiver{}, p), target: at,
		}
		if got := d.scope(); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

func TestSecretsOfTheQueryAreNotStored(t *testing.T) {
	t.Parallel()
	at, _ := parseTarget("/a?x=1&secret=s&%73ecret=t&secret&y")
	if got := at.redacted([]string{"secret"}); got != "/a?x=1&secret=REDACTED&%73ecret=REDACTED&secret=REDACTED&y" {
		t.Error(got)
	}
}

func TestStoredHeaderHoldsNoCredentialAndIsBounded(t *testing.T) {
	t.Parallel()
	h := http.Header{
		"Authorization": {"a"}, "Cookie": {"b"}, "Proxy-Authorization": {"c"}, "X-Api-Key": {"d"},
		"Signature": {"e"}, "Content-Type": {"f", "g"},
	}
	ep := newEndpoint(&Receiver{}, producer.Producer{Name: "shop", SecretHeaders: []string{"x-api-key"}})
	kept := storedHeader(h, ep.secretHeaders)
	if diff := cmp.Diff(http.Header{"Signature": {"e"}, "Content-Type": {"f", "g"}}, kept); diff != "" {
		t.Error(diff)
	}
	kept["Content-Type"][0] = "changed"
	if h["Content-Type"][0] != "f" {
		t.Error("the stored header shares memory with the request")
	}
	h = http.Header{"A": {strings.Repeat("x", maxHeader-1)}, "B": {"y"}}
	if kept := storedHeader(h, nil); len(kept) != 1 {
		t.Errorf("%d fields", len(kept))
	}
}

func FuzzTarget(f *testing.F) {
	for _, seed := range []string{
		"/", "/webhooks/shop", "/webhooks/shop/", "//webhooks/shop", "/webhooks/%73hop?a=b",
		"http://evil/webhooks/shop?x",
		"*", "https://a@b:1?c", "/a#b?c", "/\x00", "/%zz", "/webhooks/shop?key=%zz&&=&key",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		at, ok := parseTarget(raw)
		if !ok {
			return
		}
		if !strings.HasPrefix(at.path, "/") || strings.Contains(at.path, "?") || at.query != "" && at.query[0] != '?' {
			t.Fatalf("%+v", at)
		}
		if !strings.HasSuffix(raw, at.path+at.query) && at.path != "/" {
			t.Fatalf("%q: %+v differs from the target", raw, at)
		}
		if got := at.redacted([]string{"key"}); !strings.HasPrefix(got, at.path) {
			t.Fatalf("redacted %q", got)
		}
		for pair := range strings.SplitSeq(at.without([]string{"key"}), "&") {
			if name, err := url.QueryUnescape(strings.SplitN(pair, "=", 2)[0]); err == nil && name == "key" {
				t.Fatalf("%q is left", pair)
			}
		}
		u, err := at.withBase("https://hooks.example")
		if err != nil {
			return
		}
		if u.Scheme != "https" || u.Host != "hooks.example" || u.User != nil || u.Fragment != "" {
			t.Fatalf("%q became %q", raw, &u)
		}
	})
}

// TestThePublicURLIsTheParsedOne: a plain target is not parsed, with the same result.
func TestThePublicURLIsTheParsedOne(t *testing.T) {
	t.Parallel()
	hosts := []string{
		"h.example", "h.example:8080", "192.0.2.1:80", "[::1]:80", "h", "H.Example", "h:", "h:x", "h:1:2", "h_x", "h/x",
		"u@h", "h%41", "h?x", "h#x", "",
	}
	for _, base := range []string{"", "https://h.example", "HTTPS://h.example", "https://h.example/pre",
		"https://u@h.example"} {
		ep := newEndpoint(&Receiver{cfg: Config{URL: base}}, producer.Producer{Name: "shop"}.WithDefaults())
		for _, host := range hosts {
			for _, raw := range []string{
				"/webhooks/shop", "/", "//x/y", "/a%2Fb", "/a b", "/a?", "/a?b=c", "/a?\x01", "/\u00e9", "/a:b", "/@x",
				"/a*", "/a~b_c-d.e", "/\x7f", "/#x", "/..//.",
			} {
				at, _ := parseTarget(raw)
				got, err := ep.publicURL(&http.Request{Host: host}, at)
				origin := base
				if base == "" {
					origin = "http://" + host
				}
				want, wantErr := url.ParseRequestURI(origin + at.path + at.query)
				if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(&got, want) {
					t.Errorf("%q at %q of %q: %#v, %v, want %#v, %v", raw, host, base, got, err, want, wantErr)
				}
			}
		}
	}
}

// A router that removes a prefix shows the rest in the URL, which must have the octets received.
func TestAReceiverServesBelowAPrefix(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	s.srv.Config.Handler = http.StripPrefix("/api", s.rx.Handler())
	for _, row := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/api/webhooks/shop", 202},
		{"POST", "/api/webhooks/shop?x=1", 202},
		{"GET", "/api/policy", 200},
		{"POST", "/webhooks/shop", 404},
		{"POST", "/api/webhooks//shop", 404},
		{"POST", "/api//webhooks/shop", 404},
		{"POST", "/api/webhooks/sho%70", 404},
		{"POST", "/api/webhooks%2Fshop", 404},
		{"POST", "/%61pi/webhooks/shop", 404},
		{"POST", "/api/x/../webhooks/shop", 404},
		{"POST", "/api/webhooks/shop/", 404},
		{"POST", "/api", 404},
	} {
		if g := s.send(req{method: row.method, path: row.path, id: "k1", body: "1"}); g.status != row.status {
			t.Errorf("%s %s: %d, want %d: %s", row.method, row.path, g.status, row.status, g.body)
		}
	}
}

// The URL of a request may have been rewritten to anything.
func TestOnlyTheEndOfTheReceivedPathIsServedBelowAPrefix(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/webhooks/shop": "/webhooks/shop", "/shop": "/shop", "/webhooks/other": "", "/webhooks/sho%70": "",
		"/api/webhooks/shop": "/api/webhooks/shop", "": "",
	} {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := (target{path: "/api/webhooks/shop"}).below(u); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	u := url.URL{Path: "/webhooks/shop", RawPath: "/api/webhooks/sho%70"} // a prefix removed from Path alone
	if got := (target{path: "/api/webhooks/sho%70"}).below(&u); got != "" {
		t.Errorf("%q", got)
	}
}

func TestA404BelowAPrefixExplainsHowToMount(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	for path, want := range map[string]string{
		"/api/v1/webhooks/shop": `http.StripPrefix(\"/api/v1\", rx.Handler())`,
		"/api/policy":           `http.StripPrefix(\"/api\", rx.Handler())`,
		"/api/webhooks/other":   "",
		"/a<b>/webhooks/shop":   "",
		"/other":                "",
	} {
		g := s.send(req{path: path, id: "k1"})
		wantProblem(t, g, 404, codeNotFound)
		if !strings.Contains(g.body, want) || strings.Contains(g.body, "StripPrefix") != (want != "") {
			t.Errorf("%s: %s", path, g.body)
		}
	}
}
