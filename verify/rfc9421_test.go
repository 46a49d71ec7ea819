package verify

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var testNow = time.Unix(1_700_000_000, 0)

// testPair is a key with its signer.
type testPair struct {
	key    Key
	signer Signer
}

func newPair(t testing.TB, id string, alg Alg) testPair {
	t.Helper()
	if alg == HMACSHA256 {
		secret := GenerateSecret()
		key, err := NewHMACKey(id, secret)
		if err != nil {
			t.Fatal(err)
		}
		return testPair{key, Signer{KeyID: id, Secret: secret}}
	}
	generate := func() (crypto.Signer, error) { return GenerateKey(alg) }
	if alg == RSAPSSSHA512 || alg == RSAv15SHA256 {
		generate = rsaKey
	}
	private, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	key, err := NewPublicKey(id, alg, private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return testPair{key, Signer{KeyID: id, Alg: alg, Private: private}}
}

// rsaKey is the key of all RSA pairs, because it takes long to find one.
var rsaKey = sync.OnceValues(func() (crypto.Signer, error) { return GenerateKey(RSAPSSSHA512) })

const testBody = `{"type":"order.created","n":1}`

// newDelivery returns an unsigned request as a receiver sees it.
func newDelivery(t testing.TB, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
		"https://hooks.example/webhooks/shop?a=%7e&b", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.RequestURI = r.URL.RequestURI()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", `"k-1"`)
	return r
}

func (p testPair) sign(t testing.TB, r *http.Request, body string) {
	t.Helper()
	if err := p.signer.Sign(r, []byte(body), testNow); err != nil {
		t.Fatal(err)
	}
}

func bodyOf(s string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(s), nil }
}

// wantCode fails unless err is a refusal with one of the codes.
func wantCode(t testing.TB, err error, codes ...Code) {
	t.Helper()
	got := CodeOf(err)
	for _, c := range codes {
		if got == c && err != nil {
			return
		}
	}
	t.Errorf("got code %q (%v), want one of %q", got, err, codes)
}

func TestEveryAlgorithmMakesTheRoundTrip(t *testing.T) {
	t.Parallel()
	for _, alg := range []Alg{HMACSHA256, Ed25519, ECDSAP256SHA256, ECDSAP384SHA384, RSAPSSSHA512, RSAv15SHA256} {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "k", alg)
			p.key.Principal = "shop"
			p.signer.NameAlg, p.signer.Nonce, p.signer.Expires = true, "n-1", time.Minute
			r := newDelivery(t, testBody)
			p.sign(t, r, testBody)
			scheme := &RFC9421{Keys: StaticKeys(p.key)}
			if alg == RSAv15SHA256 {
				_, err := scheme.Verify(r, bodyOf(testBody))
				wantCode(t, err, AlgorithmNotAllowed)
				scheme = &RFC9421{Keys: StaticKeys(p.key), Algs: []Alg{RSAv15SHA256}}
			}
			id, err := scheme.Verify(r, bodyOf(testBody))
			if err != nil {
				t.Fatal(err)
			}
			if len(id.Signed) != 32 {
				t.Errorf("Signed has %d bytes", len(id.Signed))
			}
			id.Signed = nil
			want := Identity{
				KeyID: "k", Principal: "shop", Label: "sig1", Nonce: "n-1",
				SignedAt: testNow, Expires: testNow.Add(time.Minute),
				Covered: []string{"@method", "@target-uri", "content-digest", "idempotency-key", "content-type",
					"@scheme", "@authority", "@path", "@query", "@body"},
			}
			if d := cmp.Diff(want, id); d != "" {
				t.Error(d)
			}
		})
	}
}

// scene is a signed delivery that verifies until the test changes it.
type scene struct {
	pair   testPair
	scheme *RFC9421
	r      *http.Request
	body   string
}

func newScene(t testing.TB) *scene {
	t.Helper()
	p := newPair(t, "k", HMACSHA256)
	return &scene{pair: p, scheme: &RFC9421{Keys: StaticKeys(p.key)}, r: newDelivery(t, testBody), body: testBody}
}

func (s *scene) verify() (Identity, error) { return s.scheme.Verify(s.r, bodyOf(s.body)) }

// resign signs again with these components.
func (s *scene) resign(t testing.TB, components ...string) {
	t.Helper()
	s.pair.signer.Components = components
	s.r.Header.Del("Signature")
	s.r.Header.Del("Signature-Input")
	s.pair.sign(t, s.r, s.body)
}

// allComponents is what the default profile requires of the request.
var allComponents = []string{"@method", "@target-uri", "content-digest", "content-type", "idempotency-key"}

// refusals change one thing at a time, as an attacker or a faulty producer may.
var refusals = []struct {
	name   string
	before func(t *testing.T, s *scene) // signs; by default all required components
	after  func(t *testing.T, s *scene)
	code   Code // "" accepts
}{
	{"valid", nil, nil, ""},
	{"unsigned", nil, func(_ *testing.T, s *scene) {
		s.r.Header.Del("Signature")
		s.r.Header.Del("Signature-Input")
	}, SignatureMissing},
	{"signed in trailers", nil, func(_ *testing.T, s *scene) {
		s.r.Trailer = http.Header{"Signature": s.r.Header["Signature"],
			"Signature-Input": s.r.Header["Signature-Input"]}
		s.r.Header.Del("Signature")
		s.r.Header.Del("Signature-Input")
	}, SignatureMissing},
	{"digests on two lines", func(t *testing.T, s *scene) {
		sum := sha512.Sum512([]byte(s.body))
		s.r.Header.Add("Content-Digest", "sha-512=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
		s.resign(t, allComponents...)
	}, nil, ""},
	{"a wrong digest on the second line", func(t *testing.T, s *scene) {
		s.r.Header.Add("Content-Digest", "sha-512=:"+strings.Repeat("A", 86)+"==:")
		s.resign(t, allComponents...)
	}, nil, DigestMismatch},
	{"another method", nil, func(_ *testing.T, s *scene) { s.r.Method = "PUT" }, SignatureMismatch},
	{"the method in other letters", nil, func(_ *testing.T, s *scene) { s.r.Method = "pOST" }, SignatureMismatch},
	{"another host", nil, func(_ *testing.T, s *scene) { s.r.URL.Host = "other.example" }, SignatureMismatch},
	{"the host in capitals with its port", nil,
		func(_ *testing.T, s *scene) { s.r.URL.Host = "HOOKS.example:443" }, ""},
	{"another port", nil, func(_ *testing.T, s *scene) { s.r.URL.Host = "hooks.example:80" }, SignatureMismatch},
	{"another path", nil, func(_ *testing.T, s *scene) { s.r.URL.Path = "/webhooks/other" }, SignatureMismatch},
	{"the path written differently", nil, func(_ *testing.T, s *scene) {
		s.r.URL.Path, s.r.URL.RawPath = "/webhooks/shop", "/webhooks/%73hop"
	}, SignatureMismatch},
	{"not a path of a URI", nil, func(_ *testing.T, s *scene) {
		s.r.URL.Path, s.r.URL.RawPath = `/a|b`, `/a|b`
	}, SignatureMalformed},
	{"another query", nil, func(_ *testing.T, s *scene) { s.r.URL.RawQuery = "a=~&b" }, SignatureMismatch},
	{"absolute form", nil, func(_ *testing.T, s *scene) { s.r.RequestURI = "https://hooks.example/webhooks/shop" },
		SignatureMalformed},
	{"asterisk form", nil, func(_ *testing.T, s *scene) { s.r.RequestURI = "*" }, SignatureMalformed},
	{"an impossible Host", nil, func(_ *testing.T, s *scene) { s.r.URL.Host = "a b" }, SignatureMalformed},
	{"another body", nil, func(_ *testing.T, s *scene) { s.body = "{}" }, DigestMismatch},
	{"another content type", nil, func(_ *testing.T, s *scene) { s.r.Header.Set("Content-Type", "text/plain") },
		SignatureMismatch},
	{"a content encoding added", nil, func(_ *testing.T, s *scene) { s.r.Header.Set("Content-Encoding", "gzip") },
		InsufficientCoverage},
	{"a CloudEvents attribute added", nil,
		func(_ *testing.T, s *scene) { s.r.Header.Set("Ce-Id", "1") }, InsufficientCoverage},
	{"the key on two lines", nil, func(_ *testing.T, s *scene) { s.r.Header.Add("Idempotency-Key", `"k-2"`) },
		AmbiguousField},
	{"the key gone", nil, func(_ *testing.T, s *scene) { s.r.Header.Del("Idempotency-Key") }, SignatureMismatch},
	{"the label renamed", nil, func(_ *testing.T, s *scene) { relabel(s.r, "foo") }, ""},
	{"no key of this id",
		func(t *testing.T, s *scene) { s.pair.signer.KeyID = "unknown"; s.resign(t, allComponents...) }, nil,
		KeyUnknown},
	{"no time", nil, func(_ *testing.T, s *scene) {
		s.r.Header.Set("Signature-Input", strings.Replace(s.r.Header.Get("Signature-Input"),
			";created=1700000000", "", 1))
	}, TimestampMissing},
	{"an empty key id", nil, func(_ *testing.T, s *scene) {
		s.r.Header.Set("Signature-Input", strings.Replace(s.r.Header.Get("Signature-Input"),
			`keyid="k"`, `keyid=""`, 1))
	}, KeyUnknown},
	{"no key id", func(t *testing.T, s *scene) { s.pair.signer.KeyID = ""; s.resign(t, allComponents...) }, nil,
		InsufficientCoverage},
	{"a bound key", func(t *testing.T, s *scene) {
		s.scheme.BoundKey, s.pair.signer.KeyID = "k", ""
		s.resign(t, allComponents...)
	}, nil, ""},
	{"another algorithm named", nil, func(_ *testing.T, s *scene) {
		s.r.Header.Set("Signature-Input", s.r.Header.Get("Signature-Input")+`;alg="ed25519"`)
	}, AlgorithmMismatch},
	{"an algorithm that is off",
		func(t *testing.T, s *scene) { s.scheme.Algs = []Alg{Ed25519}; s.resign(t, allComponents...) }, nil,
		AlgorithmNotAllowed},
	{"the wrong tag", func(t *testing.T, s *scene) {
		s.scheme.Tag, s.pair.signer.Tag = "shop", "other"
		s.resign(t, allComponents...)
	}, nil, InsufficientCoverage},
	{"the right tag", func(t *testing.T, s *scene) {
		s.scheme.Tag, s.pair.signer.Tag = "shop", "shop"
		s.resign(t, allComponents...)
	}, nil, ""},
	{"another label than the configured one",
		func(t *testing.T, s *scene) { s.scheme.Label = "sig2"; s.resign(t, allComponents...) }, nil, SignatureMissing},
	{"@method left out", func(t *testing.T, s *scene) { s.resign(t, allComponents[1:]...) }, nil, InsufficientCoverage},
	{"the target left out", func(t *testing.T, s *scene) {
		s.resign(t, "@method", "content-digest", "content-type", "idempotency-key")
	}, nil, InsufficientCoverage},
	{"the target in parts", func(t *testing.T, s *scene) {
		s.resign(t, "@method", "@authority", "@path", "@query", "content-digest", "content-type", "idempotency-key")
	}, nil, ""},
	{"the query of the parts left out", func(t *testing.T, s *scene) {
		s.resign(t, "@method", "@authority", "@path", "content-digest", "content-type", "idempotency-key")
	}, nil, InsufficientCoverage},
	{"the digest left out",
		func(t *testing.T, s *scene) { s.resign(t, "@method", "@target-uri", "content-type", "idempotency-key") },
		nil, InsufficientCoverage},
	{"the digest left out of a chunked request", func(t *testing.T, s *scene) {
		s.r.ContentLength = -1
		s.resign(t, "@method", "@target-uri", "content-type", "idempotency-key")
	}, nil, InsufficientCoverage},
	{"no digest at all", func(t *testing.T, s *scene) {
		s.resign(t, "@method", "@target-uri", "content-type", "idempotency-key")
	}, func(_ *testing.T, s *scene) { s.r.Header.Del("Content-Digest") }, DigestMissing},
	{"one member of the digest", func(t *testing.T, s *scene) {
		s.resign(t, "@method", "@target-uri", `content-digest;key="sha-256"`, "content-type", "idempotency-key")
	}, nil, ""},
	{"an absent member of the digest", func(t *testing.T, s *scene) {
		s.resign(t, "@method", "@target-uri", `content-digest;key="sha-256"`, "content-type", "idempotency-key")
	}, func(_ *testing.T, s *scene) { s.r.Header.Set("Content-Digest", "crc32c=:AAAAAA==:") }, SignatureMismatch},
	{"the content type left out", func(t *testing.T, s *scene) {
		s.resign(t, "@method", "@target-uri", "content-digest", "idempotency-key")
	}, nil, InsufficientCoverage},
	{"the key left out", func(t *testing.T, s *scene) { s.resign(t, allComponents[:4]...) }, nil, InsufficientCoverage},
	{"a field in canonical form only", func(t *testing.T, s *scene) {
		s.scheme.Coverage.Consumed = []string{"x-shop"}
		s.r.Header.Set("X-Shop", "k")
		s.resign(t, append(allComponents[:5:5], "x-shop;sf")...)
	}, nil, InsufficientCoverage},
	{"the key as bytes",
		func(t *testing.T, s *scene) { s.resign(t, append(allComponents[:4:4], "idempotency-key;bs")...) }, nil, ""},
	{"an absent covered field", nil, func(_ *testing.T, s *scene) {
		s.r.Header.Set("Signature-Input", strings.Replace(s.r.Header.Get("Signature-Input"), `("`, `("x-gone" "`, 1))
	}, SignatureMismatch},
	{"an octet above ASCII", func(t *testing.T, s *scene) {
		s.r.Header.Set("X-Name", "ae")
		s.resign(t, append(allComponents[:5:5], "x-name")...)
	}, func(_ *testing.T, s *scene) { s.r.Header.Set("X-Name", "\xe4") }, SignatureMalformed},
	{"an octet above ASCII as bytes", func(t *testing.T, s *scene) {
		s.r.Header.Set("X-Name", "\xe4")
		s.resign(t, append(allComponents[:5:5], "x-name;bs")...)
	}, nil, ""},
	{"lines in another order", func(t *testing.T, s *scene) {
		s.r.Header["X-Tag"] = []string{"a", "b"}
		s.resign(t, append(allComponents[:5:5], "x-tag")...)
	}, func(_ *testing.T, s *scene) { s.r.Header["X-Tag"] = []string{"b", "a"} }, SignatureMismatch},
	{"lines in one line, as bytes", func(t *testing.T, s *scene) {
		s.r.Header["X-Tag"] = []string{"a, b", "c"}
		s.resign(t, append(allComponents[:5:5], "x-tag;bs")...)
	}, func(_ *testing.T, s *scene) { s.r.Header["X-Tag"] = []string{"a", "b, c"} }, SignatureMismatch},
	{"lines joined", func(t *testing.T, s *scene) {
		s.r.Header["X-Tag"] = []string{"a", "b"}
		s.resign(t, append(allComponents[:5:5], "x-tag")...)
	}, func(_ *testing.T, s *scene) { s.r.Header["X-Tag"] = []string{"a, b"} }, ""},
	{"sf of a field that is not a dictionary", func(t *testing.T, s *scene) {
		s.r.Header.Set("X-Dict", "a=1,  b=2")
		s.resign(t, append(allComponents[:5:5], "x-dict;sf")...)
	}, func(_ *testing.T, s *scene) { s.r.Header.Set("X-Dict", `"text"`) }, ComponentUnsupported},
	{"sf of a field written differently", func(t *testing.T, s *scene) {
		s.r.Header.Set("X-Dict", "a=1,  b=2")
		s.resign(t, append(allComponents[:5:5], "x-dict;sf")...)
	}, func(_ *testing.T, s *scene) { s.r.Header.Set("X-Dict", `a=1,b=2`) }, ""},
	{"a parameter of the query",
		func(t *testing.T, s *scene) { s.resign(t, append(allComponents[:5:5], `@query-param;name="a"`)...) }, nil, ""},
	{"a parameter of the query twice", func(t *testing.T, s *scene) {
		s.resign(t, "@method", "@target-uri", "content-digest",
			"content-type", "idempotency-key", `@query-param;name="a"`)
	}, func(_ *testing.T, s *scene) { s.r.URL.RawQuery = "a=1&a=2" }, AmbiguousField},
	{"a coding on two lines", func(t *testing.T, s *scene) {
		s.r.Header["Content-Encoding"] = []string{"identity", "gzip"}
		s.resign(t, "@method", "@target-uri", "content-digest", "content-type", "idempotency-key", "content-encoding")
	}, nil, AmbiguousField},
	{"a required key is absent", func(t *testing.T, s *scene) {
		s.scheme.KeyRequired = true
		s.r.Header.Del("Idempotency-Key")
		s.resign(t, allComponents[:4]...)
	}, nil, IDMissing},
	{"a consumed field left out", func(t *testing.T, s *scene) {
		s.scheme.Coverage.Consumed = []string{"x-shop-*", "x-type"}
		s.r.Header.Set("X-Shop-Id", "1")
		s.resign(t, allComponents...)
	}, nil, InsufficientCoverage},
	{"a required component left out", func(t *testing.T, s *scene) {
		s.scheme.Coverage.Required = []string{"@scheme"}
		s.resign(t, allComponents...)
	}, nil, InsufficientCoverage},
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			if c.before != nil {
				c.before(t, s)
			} else {
				s.resign(t, allComponents...)
			}
			if c.after != nil {
				c.after(t, s)
			}
			if _, err := s.verify(); c.code == "" && err != nil {
				t.Error(err)
			} else if c.code != "" {
				wantCode(t, err, c.code)
			}
		})
	}
}

// relabel changes the label of the only signature.
func relabel(r *http.Request, label string) {
	for _, field := range []string{"Signature", "Signature-Input"} {
		_, value, _ := strings.Cut(r.Header.Get(field), "=")
		r.Header.Set(field, label+"="+value)
	}
}

func TestOneGoodSignatureIsEnough(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	other := newPair(t, "other", Ed25519)
	other.signer.Label = "a"
	other.sign(t, s.r, s.body)
	_, err := s.verify()
	wantCode(t, err, KeyUnknown)
	s.r.Header.Set("Signature-Input", s.r.Header.Get("Signature-Input")+`, b=("@method" "@foo");created=1;keyid="k"`)
	s.r.Header.Set("Signature", s.r.Header.Get("Signature")+`, b=:AAAA:`)
	_, err = s.verify()
	wantCode(t, err, KeyUnknown) // further than the malformed one
	s.pair.signer.Label = "z"
	s.pair.sign(t, s.r, s.body)
	id, err := s.verify()
	if err != nil || id.Label != "z" {
		t.Errorf("%+v, %v", id, err)
	}
}

func TestAtMost2SignaturesOf8AreVerified(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	input, signature := s.r.Header.Get("Signature-Input"), s.r.Header.Get("Signature")
	for _, c := range []struct {
		bad, unknown, short int
		want                Code
	}{
		{1, 0, 0, ""}, {2, 0, 0, SignatureMismatch}, {1, 6, 0, ""}, {0, 7, 0, ""},
		{0, 8, 0, KeyUnknown}, {0, 0, 8, InsufficientCoverage},
		{1, 3, 3, ""}, {1, 3, 4, SignatureMismatch},
	} {
		var inputs, signatures []string
		for i := range c.bad + c.unknown + c.short {
			label := string(rune('a' + i))
			other := strings.Replace(input, "sig1", label, 1)
			switch {
			case i < c.unknown:
				other = strings.Replace(other, `keyid="k"`, `keyid="x"`, 1)
			case i < c.unknown+c.short:
				other = label + `=("@method");created=1;keyid="k"`
			}
			inputs = append(inputs, other)
			signatures = append(signatures, label+"=:"+strings.Repeat("AAAA", 4)+":")
		}
		s.r.Header.Set("Signature-Input", strings.Join(append(inputs, input), ", "))
		s.r.Header.Set("Signature", strings.Join(append(signatures, signature), ", "))
		if _, err := s.verify(); CodeOf(err) != c.want {
			t.Errorf("%+v before the good one: %v", c, err)
		}
	}
	labels := make([]string, 200)
	for i := range labels {
		labels[i] = "l" + strings.Repeat("x", i%10) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)
	}
	s.r.Header.Set("Signature-Input", strings.Join(labels, `=("@method"), `)+`=("@method")`)
	s.r.Header.Set("Signature", strings.Join(labels, `=:AAAA:, `)+`=:AAAA:`)
	_, err := s.verify()
	wantCode(t, err, SignatureMalformed)
}

// countingEngine refuses every signature and counts.
type countingEngine struct{ calls int }

func (e *countingEngine) agrees(string, *http.Request, []byte) error {
	e.calls++
	return errDisagrees
}

// TestUnknownKeysCostAsMuchAsKnownOnes counts what invalid signatures make the receiver
// compute, for every mix of known and unknown keys.
func TestUnknownKeysCostAsMuchAsKnownOnes(t *testing.T) {
	t.Parallel()
	for _, ids := range []string{"k", "x", "kk", "kx", "xk", "xx",
		"kkkkkkkk", "xxxxxxxx", "xxxxxxxk", "kxxxxxxx", "xkxkxkxk"} {
		s := newScene(t)
		s.pair.sign(t, s.r, s.body)
		input := s.r.Header.Get("Signature-Input")
		var inputs, signatures []string
		for i, id := range strings.Split(ids, "") {
			label := string(rune('a' + i))
			inputs = append(inputs, strings.NewReplacer("sig1", label, `keyid="k"`, `keyid="`+id+`"`).Replace(input))
			signatures = append(signatures, label+"=:AAAA:")
		}
		s.r.Header.Set("Signature-Input", strings.Join(inputs, ", "))
		s.r.Header.Set("Signature", strings.Join(signatures, ", "))
		checks, bytes, engine := 0, 0, &countingEngine{}
		s.scheme = &RFC9421{engine: engine, Keys: StaticKeys(Key{ID: "k", Alg: HMACSHA256, material: &material{
			alg:   HMACSHA256,
			check: func(base, _ []byte) bool { checks++; bytes += len(base); return false },
		}})}
		_, err := s.verify()
		wantCode(t, err, SignatureMismatch, KeyUnknown)
		if want := min(2, len(ids)); checks != want || engine.calls != 0 || bytes != want*len(mustBase(t, s.r)) {
			t.Errorf("keys %s: %d checks of %d bytes, %d calls of the engine; want %d checks",
				ids, checks, bytes, engine.calls, want)
		}
	}
}

// mustInput returns the first signature.
func mustInput(t testing.TB, r *http.Request) *signatureInput {
	t.Helper()
	in, err := readFields(r.Header)
	if err != nil || in[0].refusal != nil {
		t.Fatal(err)
	}
	return &in[0]
}

// mustBase returns the base of the first signature.
func mustBase(t testing.TB, r *http.Request) []byte {
	t.Helper()
	m, err := newMessage(r)
	if err != nil {
		t.Fatal(err)
	}
	base, refusal := m.base(nil, mustInput(t, r))
	if refusal != nil {
		t.Fatal(refusal)
	}
	return base
}

// TestTheEngineMustAgree has a signature that our own check accepts and the engine does not.
func TestTheEngineMustAgree(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	engine := &countingEngine{}
	s.scheme = &RFC9421{engine: engine, Keys: StaticKeys(s.pair.key)}
	_, err := s.verify()
	wantCode(t, err, SignatureMismatch)
	if engine.calls != 1 {
		t.Errorf("the engine was called %d times", engine.calls)
	}
}

// TestBasesOfARequestShareOneLimit has two signatures over fields that fit in one base but not
// in two.
func TestBasesOfARequestShareOneLimit(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]Code{20 << 10: "", 40 << 10: SignatureMalformed} {
		s := newScene(t)
		s.r.Header.Set("X-A", strings.Repeat("x", size))
		s.pair.signer.Components = append([]string{"x-a"}, allComponents...)
		s.pair.sign(t, s.r, s.body)
		input, signature := s.r.Header.Get("Signature-Input"), s.r.Header.Get("Signature")
		if _, err := s.verify(); err != nil {
			t.Errorf("%d bytes, one signature: %v", size, err)
		}
		s.r.Header.Set("Signature-Input", strings.Replace(input, "sig1", "a", 1)+", "+input)
		s.r.Header.Set("Signature", "a=:AAAA:, "+signature)
		_, err := s.verify()
		if want == "" && err != nil || want != "" && err == nil {
			t.Errorf("%d bytes, two signatures: %v", size, err)
		}
	}
}

func TestKeysOfOneIDAreAllTried(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	older, other := newPair(t, "k", HMACSHA256), newPair(t, "k", Ed25519)
	s.pair.sign(t, s.r, s.body)
	s.scheme = &RFC9421{Keys: StaticKeys(older.key, other.key, s.pair.key)}
	if _, err := s.verify(); err != nil {
		t.Error(err)
	}
	s.scheme = &RFC9421{Keys: StaticKeys(older.key, other.key)}
	_, err := s.verify()
	wantCode(t, err, SignatureMismatch)
}

// TestPublicKeyIsNotASecret signs with a public key as the secret of an HMAC.
func TestPublicKeyIsNotASecret(t *testing.T) {
	t.Parallel()
	p := newPair(t, "k", RSAPSSSHA512)
	text, err := MarshalPublicKey(p.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range [][]byte{text, []byte(strings.TrimSpace(string(text)))} {
		for _, name := range []bool{false, true} {
			r := newDelivery(t, testBody)
			forger := testPair{p.key, Signer{KeyID: "k", Secret: secret, NameAlg: name}}
			forger.sign(t, r, testBody)
			_, err := (&RFC9421{Keys: StaticKeys(p.key)}).Verify(r, bodyOf(testBody))
			wantCode(t, err, SignatureMismatch, AlgorithmMismatch)
		}
	}
}

func TestBodyIsReadOnlyAfterTheSignatureIsVerified(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	cut := errors.New("the connection is cut")
	if _, err := s.scheme.Verify(s.r, func() ([]byte, error) { return nil, cut }); !errors.Is(err, cut) ||
		CodeOf(err) != "" {
		t.Errorf("got %v, want the body's own error", err)
	}
	s.r.Method = "PUT"
	_, err := s.scheme.Verify(s.r, func() ([]byte, error) {
		t.Error("the body was read for a bad signature")
		return nil, cut
	})
	wantCode(t, err, SignatureMismatch)
}

func TestAnEmptyBodyNeedsNoDigest(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.r, s.body = newDelivery(t, ""), ""
	s.resign(t, "@method", "@target-uri", "content-type", "idempotency-key")
	id, err := s.verify()
	if err != nil || id.Signed == nil || id.Covers("@body") {
		t.Errorf("%+v, %v", id, err)
	}
}

func TestSignedIdentifiesTheMessage(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	first, err := s.verify()
	if err != nil {
		t.Fatal(err)
	}
	relabel(s.r, "other")
	s.r.Header.Set("X-Unsigned", "1")
	s.r.Header.Set("Signature-Input", strings.ReplaceAll(s.r.Header.Get("Signature-Input"), `" "`, `"  "`))
	again, err := s.verify()
	if err != nil || !bytes.Equal(first.Signed, again.Signed) {
		t.Errorf("the same message has another digest: %v", err)
	}
	s.r.Header.Set("Idempotency-Key", `"k-2"`)
	s.resign(t)
	other, err := s.verify()
	if err != nil || bytes.Equal(first.Signed, other.Signed) {
		t.Errorf("another message has the same digest: %v", err)
	}
	s.scheme = withoutProfile(&RFC9421{Keys: s.scheme.Keys, Coverage: Coverage{Required: []string{"@method"}}})
	s.resign(t, "@method")
	if id, err := s.verify(); err != nil || id.Signed != nil || id.Covers("@body") {
		t.Errorf("an unbound body has a digest: %+v, %v", id, err)
	}
}

// failingKeys is an unavailable set.
type failingKeys struct{}

func (failingKeys) Key(_ context.Context, id string) ([]Key, error) {
	return nil, &Error{Code: KeysUnavailable, KeyID: id, RetryAfter: time.Second}
}

func TestKeysUnavailableIsReportedFirst(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	s.scheme = &RFC9421{Keys: JoinKeys(StaticKeys(newPair(t, "other", Ed25519).key), failingKeys{})}
	_, err := s.verify()
	wantCode(t, err, KeysUnavailable)
	s.scheme = &RFC9421{Keys: JoinKeys(failingKeys{}, StaticKeys(s.pair.key))}
	if _, err := s.verify(); err != nil {
		t.Error(err)
	}
	_, err = (&RFC9421{}).Verify(s.r, bodyOf(s.body))
	wantCode(t, err, KeysUnavailable)
}

func TestRelativeURLIsAProgrammingError(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	s.r.URL.Host = ""
	if _, err := s.verify(); err == nil || CodeOf(err) != "" {
		t.Errorf("got %v, want an error without a code", err)
	}
}

func TestCheckReportsEveryError(t *testing.T) {
	t.Parallel()
	err := (&RFC9421{
		Label: "Sig 1", Tag: "t\n", Algs: []Alg{"none"},
		Coverage: Coverage{Required: []string{"@status"}, Consumed: []string{"X-Type"}},
	}).Check()
	for _, part := range []string{"no keys", "Sig 1", "t\\n", "none", "@status", "X-Type"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %q", err, part)
		}
	}
}

func TestAcceptSignatureNamesTheProfile(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]*RFC9421{
		`sig1=("@method" "@target-uri" "content-digest" "content-type");created`: {},
		`sig1=("@target-uri" "content-digest" "idempotency-key" "content-type");created`: {
			Coverage: Coverage{Consumed: []string{"idempotency-key"}, Pinned: Pinned{Method: "POST", Query: true}},
		},
		`s=("@method" "@target-uri" "content-digest" "content-type" "x-shop");created;keyid="k\"";tag="t"`: {
			Label: "s", Tag: "t", BoundKey: `k"`,
			Coverage: Coverage{Required: []string{"@method", "x-shop"}},
		},
	} {
		if got := s.AcceptSignature(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestAnyChangeOfCoveredBytesIsRefused flips one bit of anything that the signature covers.
func TestAnyChangeOfCoveredBytesIsRefused(t *testing.T) {
	t.Parallel()
	pairs := []testPair{newPair(t, "k", HMACSHA256), newPair(t, "k", Ed25519), newPair(t, "k", ECDSAP256SHA256)}
	rapid.Check(t, func(rt *rapid.T) {
		p := rapid.SampledFrom(pairs).Draw(rt, "pair")
		s := &scene{pair: p, scheme: &RFC9421{Keys: StaticKeys(p.key)}, r: newDelivery(t, testBody), body: testBody}
		s.pair.sign(t, s.r, s.body)
		flip := func(text string) string {
			b := []byte(text)
			i := rapid.IntRange(0, len(b)-1).Draw(rt, "byte")
			b[i] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
			return string(b)
		}
		where := rapid.SampledFrom([]string{
			"method", "host", "path", "query", "body", "Content-Type",
			"Content-Digest", "Idempotency-Key", "Signature", "Signature-Input",
		}).Draw(rt, "where")
		switch where {
		case "method":
			s.r.Method = flip(s.r.Method)
		case "host":
			if s.r.URL.Host = flip(s.r.URL.Host); strings.EqualFold(s.r.URL.Host, "hooks.example") {
				return // hosts are case-insensitive
			}
		case "path":
			s.r.URL.Path = flip(s.r.URL.Path)
		case "query":
			s.r.URL.RawQuery = flip(s.r.URL.RawQuery)
		case "body":
			s.body = flip(s.body)
		default:
			old := s.r.Header.Get(where)
			s.r.Header.Set(where, flip(old))
			if renamed, _, _ := strings.Cut(s.r.Header.Get(where), "="); where == "Signature" && renamed != "sig1" {
				return // a label that the other field lacks
			}
		}
		if _, err := s.verify(); err == nil || CodeOf(err) == "" {
			rt.Fatalf("%s changed: %v", where, err)
		}
	})
}

func TestVerifyMayBeCalledConcurrently(t *testing.T) {
	t.Parallel()
	for _, alg := range []Alg{HMACSHA256, Ed25519, ECDSAP256SHA256, RSAPSSSHA512} {
		p := newPair(t, "k", alg)
		scheme := &RFC9421{Keys: StaticKeys(p.key)}
		r := newDelivery(t, testBody)
		p.sign(t, r, testBody)
		before := r.Clone(t.Context())
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					if _, err := scheme.Verify(r, bodyOf(testBody)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if d := cmp.Diff(before.Header, r.Header); d != "" ||
			before.URL.String() != r.URL.String() || r.Host != before.Host {
			t.Errorf("the request was changed: %s", d)
		}
	}
}

// TestErrorsRevealNoSecret searches every kind of refusal for secrets.
func TestErrorsRevealNoSecret(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.body = `{"card":"4111-1111"}`
	s.r = newDelivery(t, s.body)
	s.pair.sign(t, s.r, s.body)
	signature := between(s.r.Header.Get("Signature"), ":", ":")
	digest := between(s.r.Header.Get("Content-Digest"), ":", ":")
	secrets := []string{string(s.pair.signer.Secret), signature, digest, "4111-1111"}
	for _, change := range []func(r *http.Request){
		func(r *http.Request) { r.Method = "PUT" },
		func(r *http.Request) { r.Header.Set("Signature", "sig1=:"+signature) },
		func(r *http.Request) { r.Header.Add("Signature", s.r.Header.Get("Signature")) },
		func(r *http.Request) { r.Header.Del("Signature-Input") },
		func(r *http.Request) { r.Header.Set("Ce-Id", "1") },
		func(r *http.Request) { r.Header.Add("Content-Digest", "sha-256=:"+digest+":") },
		func(r *http.Request) { r.Header.Set("Idempotency-Key", "\xff"+signature) },
		func(r *http.Request) { r.Body = nil },
	} {
		r := s.r.Clone(t.Context())
		change(r)
		_, err := s.scheme.Verify(r, bodyOf(s.body+" "))
		if err == nil {
			t.Fatal("accepted")
		}
		for _, secret := range secrets {
			for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
				if strings.Contains(text, secret) {
					t.Errorf("%s reveals %s", text, secret)
				}
			}
		}
	}
}
