package verify

import (
	"net/http"
	"net/url"
	"testing"
)

// TestRefusalsDoNotRevealWhichKeysExist sends invalid requests without a key, under the id of
// an existing key and under another. The three codes that depend on the key are one code
// outside.
func TestRefusalsDoNotRevealWhichKeysExist(t *testing.T) {
	t.Parallel()
	outside := func(c Code) Code {
		if c == KeyUnknown || c == AlgorithmMismatch {
			return SignatureMismatch
		}
		return c
	}
	known := map[Alg]Key{}
	for _, alg := range []Alg{HMACSHA256, Ed25519, ECDSAP256SHA256, RSAPSSSHA512} {
		known[alg] = newPair(t, "k", alg).key
	}
	set := func(name, value string) func(*scene) { return func(s *scene) { s.r.Header.Set(name, value) } }
	for name, c := range map[string]struct {
		components []string
		spoil      func(*scene)
	}{
		"everything covered":    {allComponents, nil},
		"insufficient coverage": {[]string{"@method"}, nil},
		"no digest": {[]string{"@method", "@target-uri", "content-type",
			"idempotency-key"}, func(s *scene) { s.r.Header.Del("Content-Digest") }},
		"another body":      {allComponents, func(s *scene) { s.body = "{}" }},
		"an invalid digest": {allComponents, set("Content-Digest", "x")},
		"the key on two lines": {allComponents,
			func(s *scene) { s.r.Header.Add("Idempotency-Key", "b") }},
		"a removed field":                        {allComponents, func(s *scene) { s.r.Header.Del("Content-Type") }},
		"an octet above ASCII":                   {allComponents, set("Content-Type", "\xe4")},
		"sf of a field that is not a dictionary": {append(allComponents[:5:5], "x-dict;sf"), set("X-Dict", `"text"`)},
		"a parameter of the query": {append(allComponents[:5:5], `@query-param;name="a"`),
			func(s *scene) { s.r.URL.RawQuery = "a=1&a=2" }},
		"an absent parameter": {append(allComponents[:5:5], `@query-param;name="a"`),
			func(s *scene) { s.r.URL.RawQuery = "b=1" }},
		"a query that cannot be parsed": {allComponents, func(s *scene) { s.r.URL.RawQuery = "a=%zz" }},
		"a signature of 3 bytes":        {allComponents, set("Signature", "sig1=:AAAA:")},
		"no signature at all":           {allComponents, set("Signature", "sig1=::")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var codes []Code
			for _, id := range []string{"k", "unknown"} {
				for _, alg := range []Alg{HMACSHA256, Ed25519, ECDSAP256SHA256, RSAPSSSHA512} {
					s := newScene(t)
					s.scheme = &RFC9421{Keys: StaticKeys(known[alg])}
					other := newPair(t, id, Ed25519)
					s.pair = testPair{s.pair.key, other.signer}
					s.pair.signer.NameAlg = alg == HMACSHA256
					s.r.Header.Set("X-Dict", "a=1")
					s.resign(t, c.components...)
					if c.spoil != nil {
						c.spoil(s)
					}
					_, err := s.verify()
					if err == nil {
						t.Fatal("an invalid signature is accepted")
					}
					codes = append(codes, outside(CodeOf(err)))
				}
			}
			for _, code := range codes {
				if code != codes[0] {
					t.Fatalf("codes %q: the first half are of keys that exist", codes)
				}
			}
		})
	}
}

func TestQueriesAreSignedAsTheyArrived(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][2]string{
		"https://hooks.example/h":        {"?", "https://hooks.example/h"},
		"https://hooks.example/h?":       {"?", "https://hooks.example/h?"},
		"https://hooks.example/h?a=%7e":  {"?a=%7e", "https://hooks.example/h?a=%7e"},
		"https://hooks.example/h?a=%7E&": {"?a=%7E&", "https://hooks.example/h?a=%7E&"},
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		m, err := newMessage(&http.Request{Method: http.MethodPost, URL: u})
		if err != nil {
			t.Fatal(err)
		}
		if string(m.appendQuery(nil)) != want[0] || string(m.appendTargetURI(nil)) != want[1] {
			t.Errorf("%s: %q, %q", raw, string(m.appendQuery(nil)), string(m.appendTargetURI(nil)))
		}
	}
}

func TestKeysVerifyNoOtherAlgorithm(t *testing.T) {
	t.Parallel()
	pss := newPair(t, "k", RSAPSSSHA512)
	for _, named := range []bool{false, true} {
		forged := Signer{KeyID: "k", Alg: RSAv15SHA256, Private: pss.signer.Private, NameAlg: named}
		r := newDelivery(t, testBody)
		if err := forged.Sign(r, []byte(testBody), testNow); err != nil {
			t.Fatal(err)
		}
		_, err := (&RFC9421{Keys: StaticKeys(pss.key), Algs: []Alg{RSAPSSSHA512, RSAv15SHA256}}).Verify(r,
			bodyOf(testBody))
		want := SignatureMismatch
		if named {
			want = AlgorithmMismatch
		}
		wantCode(t, err, want)
	}
}
