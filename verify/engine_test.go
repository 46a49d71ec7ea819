package verify

import (
	"errors"
	"net/http"
	"testing"
)

// brokenEngine meets what it cannot handle.
type brokenEngine struct{}

func (brokenEngine) verify(string, *http.Request) error { return errBroken }

func TestWhatTheEngineCannotHandleIsMalformed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	s.scheme = &RFC9421{Keys: StaticKeys(Key{ID: "k", Alg: HMACSHA256, material: &material{
		alg: HMACSHA256, holds: func(_, _ []byte) bool { return true }, verifier: brokenEngine{},
	}})}
	_, err := s.verify()
	wantCode(t, err, SignatureMalformed)
	if err := (httpsignEngine{}).verify("x", &http.Request{}); !errors.Is(err, errBroken) { // panics inside
		t.Errorf("got %v", err)
	}
}

// FuzzEngine holds our signature base against the engine's: for whatever passes the gate they are the same, so Signed names
// what was verified.
func FuzzEngine(f *testing.F) {
	f.Add(`("@method" "@target-uri" "x")`, "/a%2Fb", "a=1&b=%20", "one", "two")
	f.Add(`("@path" "@query" "x";bs "y";sf "@query-param";name="a")`, "/", "a=1", "a, b", "k=1;x")
	f.Add(`("x";key="a" "y";key="b" "@authority" "@scheme" "host")`, "/p", "", "a=(1 2)", "b")
	f.Fuzz(func(t *testing.T, list, path, query, x, y string) {
		r := newDelivery(t, "")
		u, err := r.URL.Parse(path)
		if err != nil || u.Host != "hooks.example" || u.Scheme != "https" {
			return
		}
		u.RawQuery = query
		r.URL, r.RequestURI = u, ""
		r.Header["X"], r.Header["Y"] = []string{x}, []string{y, x}
		in := &signatureInput{label: "sig", member: list + `;created=1;keyid="k"`, signature: ":AAAA:"}
		if members, ok := parseDictionary("sig="+in.member, 1); !ok || !members[0].list || in.parse() != nil {
			return
		}
		m, err := newMessage(r)
		if err != nil {
			return
		}
		ours, refusal := m.base(nil, in)
		if refusal != nil {
			return
		}
		theirs, err := engineBase("sig", m.trimmed(in), nil, nil)
		if err == nil && theirs != string(ours) {
			t.Fatalf("ours:\n%s\ntheirs:\n%s", ours, theirs)
		}
	})
}
