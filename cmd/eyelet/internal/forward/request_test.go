package forward

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/verify"
)

// TestTheKeyIsForwardedOctetForOctet is row R167.
func TestTheKeyIsForwardedOctetForOctet(t *testing.T) {
	t.Parallel()
	for _, key := range []string{`"k"`, "k", `"k\"1";a=b`, `"a  b"`, "8e03978e-40d5-43dd-bc93-6894a57f9324", "\xe4"} {
		f := plain(t, says(200))
		ev := event("1")
		ev.Key = Key(key, "of another event")
		ev.Header.Set("Idempotency-Key", "of the delivery")
		want(t, to(t, f.URL, nil).Deliver(context.Background(), ev), Accepted, 200)
		if got := f.requests()[0].key; got != key {
			t.Errorf("%q was forwarded as %q", key, got)
		}
	}
}

func TestAnEventWithoutAKeyIsNotSent(t *testing.T) {
	t.Parallel()
	f := plain(t, says(200))
	target := to(t, f.URL, func(c *Config) { c.TerminalLimit = 1 })
	ev := event("1")
	ev.Key = ""
	if r := target.Deliver(context.Background(), ev); r.Outcome != Terminal || r.Err == nil || len(f.requests()) != 0 {
		t.Errorf("%v %v after %d requests", r.Outcome, r.Err, len(f.requests()))
	}
	want(t, deliver(t, target, "2"), Accepted, 200) // the target is not at fault
}

func TestKeysOfEventsWithoutAField(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{"a": `"a"`, `a"\`: `"a\"\\"`} {
		if got := Key("", id); got != want {
			t.Errorf("%q is sent as %s, want %s", id, got, want)
		}
	}
	for _, id := range []string{"ü", "a\nb", "\x7f"} {
		if got := Key("", id); !strings.HasPrefix(got, `"sha-256:`) || len(got) != 74 || got != Key("", id) {
			t.Errorf("%q is sent as %s", id, got)
		}
	}
	if got := Key("bare", "other"); got != "bare" {
		t.Errorf("a field is sent as %s", got)
	}
}

// TestFieldsOfOneHopAreNotForwarded: not even if the producer signed them or the preset names
// them.
func TestFieldsOfOneHopAreNotForwarded(t *testing.T) {
	t.Parallel()
	f := plain(t, says(200))
	ev := event("1")
	ev.Header = http.Header{
		"Content-Type": {"application/json"}, "Content-Language": {"de"}, "X-Github-Event": {"push"},
		"X-Github-Other": {"1"}, "Ce-Type": {"evil"},
		"X-Signed": {"a", "b"}, "X-Unsigned": {"1"}, "X-Named": {"1"},
		"Connection":   {"close, X-Github-Hop", "x-too"},
		"X-Github-Hop": {"1"}, "X-Too": {"1"}, "Early-Data": {"1"},
		"X-Forwarded-For": {"1"}, "X-Forwarded-User": {"root"}, "x-forwarded-email": {"root"}, "User-Agent": {"curl"},
	}
	ev.Signed = []string{"x-signed", "x-too", "early-data", "x-forwarded-for", "x-forwarded-email"}
	for _, name := range neverSent {
		ev.Signed = append(ev.Signed, strings.ToLower(name))
		if ev.Header.Get(name) == "" {
			ev.Header.Set(name, "s3cret")
		}
	}
	target := to(t, f.URL, func(c *Config) { c.Fields = []string{"x-named", "X-GitHub-*"} })
	want(t, target.Deliver(context.Background(), ev), Accepted, 200)
	expected := http.Header{
		"Content-Type": {"application/json"}, "Content-Language": {"de"}, "X-Github-Event": {"push"},
		"X-Github-Other": {"1"},
		"X-Signed":       {"a", "b"}, "X-Named": {"1"}, "Idempotency-Key": {`"1"`}, "User-Agent": {"eyelet"},
		"Content-Length": {"10"}, "Via": {"s3cret, 1.1 eyelet"},
	}
	if diff := cmp.Diff(expected, f.requests()[0].header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	if ev.Header.Get("Cookie") != "s3cret" {
		t.Error("the caller's header was changed")
	}
}

// TestAMethodIsOverriddenOnlyWhereThatIsSigned: not where a prefix of the target has the field.
func TestAMethodIsOverriddenOnlyWhereThatIsSigned(t *testing.T) {
	t.Parallel()
	f := plain(t, says(200))
	target := to(t, f.URL, func(c *Config) { c.Fields = []string{"X-Http-*", "X-Method-*"} })
	for i, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		ev := event("1")
		ev.Header = http.Header{name: {"DELETE"}, "X-Http-Note": {"1"}}
		for j, signed := range [][]string{nil, {strings.ToLower(name)}} {
			ev.Signed = signed
			want(t, target.Deliver(context.Background(), ev), Accepted, 200)
			h := f.requests()[2*i+j].header
			if (h.Get(name) != "") != (signed != nil) || h.Get("X-Http-Note") != "1" {
				t.Errorf("%s, signed %v: %v", name, signed, h)
			}
		}
	}
}

func TestADigestIsForwardedWhereItMatches(t *testing.T) {
	t.Parallel()
	ev := event("1")
	right, err := verify.ContentDigest(ev.Body)
	check(t, err)
	wrong, err := verify.ContentDigest([]byte("of the whole batch"))
	check(t, err)
	for digest, want := range map[string]string{right: right, wrong: "", "sha-256=:AAAA:": "", "md5=:AAAA:": "", right +
		"," + wrong: ""} {
		f := plain(t, says(200))
		ev.Header.Set("Content-Digest", digest)
		to(t, f.URL, nil).Deliver(context.Background(), ev)
		if got := f.requests()[0].header.Get("Content-Digest"); got != want {
			t.Errorf("%q was forwarded as %q", digest, got)
		}
	}
}

func TestFieldsThatCannotBeNamedAreRefused(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"", "*", "X-*", "x-*", "X-Shop*", "a b", "Host", "authorization", "Via",
		"X-HTTP-Method",
		"X-Forwarded-For", "X-Forwarded-*", "x-forwarded-user-*", "Transfer-Encoding", "Signature", "Idempotency-Key"} {
		if _, err := New(Config{Name: "x", URL: "http://h/", Fields: []string{field}}); err == nil {
			t.Errorf("%q is accepted", field)
		}
	}
	for _, via := range []string{"a b", "a,b", "ü", strings.Repeat("x", 65)} {
		if _, err := New(Config{Name: "x", URL: "http://h/", Via: via}); err == nil {
			t.Errorf("the name %q is accepted", via)
		}
	}
}

// TestEveryRequestCarriesVia: the hops so far, and our own name after them.
func TestEveryRequestCarriesVia(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		way  []string
		want string
	}{
		{nil, "1.1 eyelet-7"},
		{[]string{"1.1 edge"}, "1.1 edge, 1.1 eyelet-7"},
		{[]string{"1.0 fred, 1.1 p.example (Apache/1.1)", "2 edge"},
			"1.0 fred, 1.1 p.example (Apache/1.1), 2 edge, 1.1 eyelet-7"},
		{[]string{"1.1 \xe4"}, "1.1 eyelet-7"},
		{[]string{strings.Repeat("1.1 x,", 1000)}, "1.1 eyelet-7"},
	} {
		f := plain(t, says(307, "Location", "/next"), says(200))
		ev := event("1")
		ev.Header["Via"] = tt.way
		target := to(t, f.URL, func(c *Config) { c.Via = "eyelet-7" })
		want(t, target.Deliver(context.Background(), ev), Accepted, 200)
		for _, r := range f.requests() {
			if got := r.header["Via"]; len(got) != 1 || got[0] != tt.want {
				t.Errorf("%q was forwarded as %q, want %q", tt.way, got, tt.want)
			}
		}
	}
}

// TestEveryHopIsSignedAfresh: a verifier that knows the URL of the target accepts the request,
// also after a 307, and the signature of the previous hop is not forwarded (section 9.7).
func TestEveryHopIsSignedAfresh(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	check(t, err)
	key, err := verify.NewPublicKey("hop", verify.Ed25519, public)
	check(t, err)
	scheme := &verify.RFC9421{Keys: verify.StaticKeys(key), KeyRequired: true}
	var verified atomic.Int32
	check := func(status int, fields ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			r.URL.Scheme, r.URL.Host = "http", r.Host
			id, err := scheme.Verify(r, func() ([]byte, error) { return []byte(`{"id":"1"}`), nil })
			if err != nil || id.KeyID != "hop" || len(r.Header.Values("Signature")) != 1 ||
				strings.Contains(r.Header.Get("Signature-Input"), "before") {
				t.Errorf("%s: %v, %s", r.URL, err, r.Header.Get("Signature-Input"))
			} else {
				verified.Add(1)
			}
			says(status, fields...)(w, r)
		}
	}
	f := plain(t, check(307, "Location", "/now?x=%20"), check(200))
	target := to(t, f.URL+"/deploy?x=1", func(c *Config) {
		c.Credentials = func(context.Context, bool) (Credentials, error) {
			return Credentials{Signer: &verify.Signer{KeyID: "hop", Private: private}}, nil
		}
	})
	ev := event("1")
	ev.Header.Set("Signature", "before=:AAAA:")
	ev.Header.Set("Signature-Input", `before=("@method");created=1`)
	ev.Header.Set("Content-Digest", "sha-256=:AAAA:")
	want(t, target.Deliver(context.Background(), ev), Accepted, 200)
	if verified.Load() != 2 {
		t.Errorf("%d of 2 requests verified", verified.Load())
	}
}

func TestCredentialsInTheURLAreSentAndNotShown(t *testing.T) {
	t.Parallel()
	f := plain(t, says(200))
	address := strings.Replace(f.URL, "http://", "http://user:s3cret@", 1) + "/?token=s3cret"
	want(t, deliver(t, to(t, address, nil), "1"), Accepted, 200)
	if got := f.requests()[0].header.Get("Authorization"); got != "Basic dXNlcjpzM2NyZXQ=" {
		t.Errorf("Authorization is %q", got)
	}
	dead, _ := raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", false)
	for _, bad := range []string{strings.Replace(dead, "http://", "http://user:s3cret@", 1) + "?token=s3cret",
		"http://user:s3cret@127.0.0.1:1/?token=s3cret"} {
		if r := deliver(t, to(t, bad, nil), "1"); r.Err == nil || strings.Contains(r.Err.Error(), "s3cret") {
			t.Errorf("error is %v", r.Err)
		}
	}
}

func TestInvalidTargetsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"no name": {URL: "http://h/"}, "no URL": {Name: "x"}, "relative": {Name: "x", URL: "/a"},
		"scheme":  {Name: "x", URL: "ftp://h/"},
		"no host": {Name: "x", URL: "http:///a"}, "fragment": {Name: "x", URL: "http://h/#a"},
		"opaque":    {Name: "x", URL: "http:h"},
		"malformed": {Name: "x", URL: "http://user:s3cret@h:x/"}, "negative": {Name: "x", URL: "http://h/",
			Timeout: -1},
		"only a port": {Name: "x", URL: "http://:80/"}, "a URL as a host": {Name: "x", URL: "http://h/",
			AllowHosts: []string{"https://other"}},
		"a pattern as a host": {Name: "x", URL: "http://h/", AllowHosts: []string{"*.example"}},
		"not an allowed host": {Name: "x", URL: "http://h/", AllowHosts: []string{""}},
	} {
		if _, err := New(c); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestMaxConnsBoundsConnections(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int32
	f := plain(t, func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
	})
	target := to(t, f.URL, func(c *Config) { c.MaxConns = 2 })
	done := make(chan Result)
	for _, id := range ids("e", 12) {
		go func() { done <- target.Deliver(context.Background(), event(id)) }()
	}
	for range 12 {
		want(t, <-done, Accepted, 200)
	}
	if most.Load() > 2 {
		t.Errorf("%d requests at once", most.Load())
	}
}
