package verify

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// agreeingEngine agrees with everything.
type agreeingEngine struct{}

func (agreeingEngine) agrees(string, *http.Request, []byte) error { return nil }

// TestAllocationsOfAVerification bounds what a verification allocates: with an engine that does
// nothing, and with httpsign, which allocates most.
func TestAllocationsOfAVerification(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector empties sync.Pools")
	}
	body := []byte(strings.Repeat("x", 1024))
	read := func() ([]byte, error) { return body, nil }
	for _, alg := range []Alg{Ed25519, HMACSHA256} {
		p := newPair(t, "k", alg)
		r := newDelivery(t, string(body))
		p.sign(t, r, string(body))
		for _, c := range []struct {
			engine engine
			most   float64
		}{{agreeingEngine{}, 4}, {nil, 92}} {
			scheme := &RFC9421{Keys: StaticKeys(p.key), engine: c.engine}
			got := testing.AllocsPerRun(100, func() {
				if _, err := scheme.Verify(r, read); err != nil {
					t.Fatal(err)
				}
			})
			if got > c.most {
				t.Errorf("%s, engine %T: %v allocations, want at most %v", alg, c.engine, got, c.most)
			}
		}
	}
}

// TestAllocationsOfAnHMAC bounds what the verification of an HMAC allocates: the digests, and the
// timestamp and identifier as bytes.
func TestAllocationsOfAnHMAC(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector empties sync.Pools")
	}
	body := []byte(strings.Repeat("x", 1024))
	read := func() ([]byte, error) { return body, nil }
	for name, c := range map[string]struct {
		scheme *HMAC
		most   float64
	}{
		"the body":          {bodyScheme(), 1},
		"a time":            {timedScheme(), 2},
		"a time and an id":  {idScheme(), 4},
		"a named algorithm": {algScheme(), 1},
	} {
		r := request()
		r.Header.Set("New-Id", "e1")
		if err := c.scheme.Sign(r, body, testNow); err != nil {
			t.Fatal(err)
		}
		got := testing.AllocsPerRun(100, func() {
			if _, err := c.scheme.Verify(r, read); err != nil {
				t.Fatal(err)
			}
		})
		if got > c.most {
			t.Errorf("%s: %v allocations, want at most %v", name, got, c.most)
		}
	}
}

// TestBuffersReferToNoRequest verifies requests, valid and not, and looks at what stays in memory.
func TestBuffersReferToNoRequest(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *http.Request){
		"valid":            func(*http.Request) {},
		"an unknown key":   func(r *http.Request) { replace(r, "Signature-Input", `keyid="k"`, `keyid="x"`) },
		"another method":   func(r *http.Request) { r.Method = http.MethodPut },
		"a malformed part": func(r *http.Request) { replace(r, "Signature-Input", `"@method"`, `"@foo"`) },
		"no dictionary":    func(r *http.Request) { r.Header.Set("Signature", "(") },
		"a relative URL":   func(r *http.Request) { r.URL.Host = "" },
	} {
		s := newScene(t)
		s.r.Header.Set("Ce-Id", "1")
		s.pair.signer.Components = append([]string{"ce-id"}, allComponents...)
		s.pair.sign(t, s.r, s.body)
		change(s.r)
		if err := s.scheme.Check(); err != nil {
			t.Fatal(err)
		}
		v := &verification{scheme: s.scheme, rules: s.scheme.rules, body: bodyOf(s.body)}
		if _, err := v.run(s.r); (err == nil) != (name == "valid") {
			t.Errorf("%s: %v", name, err)
		}
		if !v.reset() {
			t.Errorf("%s: the buffers are large", name)
		}
		inputs, components := v.fields.inputs, v.fields.components
		left := *v
		left.buffers = buffers{}
		if !reflect.ValueOf(left).IsZero() || !reflect.ValueOf(v.coverRequest.request).IsZero() ||
			len(v.coverRequest.header)+len(inputs)+len(components)+len(v.prefixed) > 0 {
			t.Errorf("%s: %+v", name, v)
		}
		for _, in := range inputs[:cap(inputs)] {
			if !reflect.ValueOf(in).IsZero() {
				t.Errorf("%s: %+v", name, in)
			}
		}
		for _, c := range components[:cap(components)] {
			if !reflect.ValueOf(c).IsZero() {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
}

func replace(r *http.Request, field, from, to string) {
	r.Header.Set(field, strings.Replace(r.Header.Get(field), from, to, 1))
}

// TestFieldsAreFoundUnderTheirCanonicalNames compares the look-up with net/http.
func TestFieldsAreFoundUnderTheirCanonicalNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching("[a-z0-9!#$%&'*+.^_`|~-]{1,70}").Draw(t, "name")
		m := message{request: &http.Request{Header: http.Header{http.CanonicalHeaderKey(name): {"x"}}}}
		if len(m.field(name)) != 1 {
			t.Fatalf("%s is not found as %s", http.CanonicalHeaderKey(name), name)
		}
	})
}
