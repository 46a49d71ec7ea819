package verify

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// FuzzSignatureInput verifies arbitrary Signature-Inputs with genuine signatures. An accepted
// one covers what the profile requires, and no other request passes with the same signature; a
// refused one has a reason.
func FuzzSignatureInput(f *testing.F) {
	const params = `;created=1700000000;keyid="k"`
	for _, c := range inputRefusals {
		if strings.HasPrefix(c.list, "(") {
			f.Add("sig1="+c.list+params, "", false)
		} else {
			f.Add(c.list, "", true)
		}
	}
	whole := `("@method" "@target-uri" "content-digest" "content-type" "idempotency-key")` + params
	f.Add("sig1="+whole, "", false)
	f.Add("a=("+`"@method"`+")"+params+", b="+whole+`;alg="hmac-sha256";tag="t"`, "x: y", false)
	f.Add(`sig1=("@method" "@authority" "@path" "@query" "ce-id";sf "content-digest";key="sha-256")`+params,
		"ce-id: a;b=1", false)
	f.Add(`sig1=("@query-param";name="a" "@scheme" "x";bs "@method" "@target-uri")`+params+
		`;expires=1700000009;nonce="n"`, "x: 1", true)
	f.Fuzz(func(t *testing.T, input, line string, anyCoverage bool) {
		if len(input)+len(line) > 4096 {
			return
		}
		r, body := inputRequest(t, input)
		if name, value, ok := strings.Cut(line, ":"); ok {
			r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
		signByHand(t, r, input)
		key, err := NewHMACKey("k", inputSecret)
		if err != nil {
			t.Fatal(err)
		}
		s := &RFC9421{Keys: StaticKeys(key)}
		if anyCoverage {
			s = withoutProfile(s)
		}
		id, err := s.Verify(r.Clone(t.Context()), bodyOf(body))
		if err != nil {
			if CodeOf(err) == "" || id.Covered != nil {
				t.Fatalf("%q: %v, %+v", input, err, id)
			}
			return
		}
		checkAccepted(t, s, r, body, id, anyCoverage)
	})
}

// checkAccepted checks what an acceptance implies.
func checkAccepted(t *testing.T, s *RFC9421, r *http.Request, body string, id Identity, anyCoverage bool) {
	t.Helper()
	input := r.Header.Get("Signature-Input")
	if id.KeyID != "k" || id.SignedAt.IsZero() || len(id.Covered) == 0 {
		t.Fatalf("%q: %+v", input, id)
	}
	refused := func(what string, change func(r *http.Request), body string) {
		t.Helper()
		other := r.Clone(t.Context())
		change(other)
		again, err := s.Verify(other, bodyOf(body))
		if anyCoverage && !slices.Equal(again.Covered, id.Covered) {
			return // another of its signatures may cover other components
		}
		if err == nil {
			t.Fatalf("%q: accepted with %s", input, what)
		}
	}
	flip := func(r *http.Request) {
		parts := strings.Split(r.Header.Get("Signature"), ", ")
		for i, p := range parts {
			label, value, _ := strings.Cut(p, "=")
			if raw, err := base64.StdEncoding.DecodeString(strings.Trim(value, ":")); err == nil && len(raw) > 0 {
				raw[0] ^= 1
				parts[i] = label + "=:" + base64.StdEncoding.EncodeToString(raw) + ":"
			}
		}
		r.Header.Set("Signature", strings.Join(parts, ", "))
	}
	refused("another signature", flip, body)
	if slices.Contains(id.Covered, "@method") {
		refused("another method", func(r *http.Request) { r.Method = "PUT" }, body)
	}
	if anyCoverage {
		return
	}
	refused("another path", func(r *http.Request) { r.URL.Path = "/other"; r.URL.RawPath = "" }, body)
	refused("another host", func(r *http.Request) { r.URL.Host = "other.example" }, body)
	refused("another body", func(*http.Request) {}, body+" ")
	for _, name := range []string{"Content-Type", "Idempotency-Key", "Ce-Type"} {
		refused("another "+name, func(r *http.Request) { r.Header.Set(name, "other") }, body)
	}
}
