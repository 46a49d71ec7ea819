package verify

import (
	"crypto/ecdsa"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"slices"
	"strings"
	"testing"
)

// reencode replaces the octets of the signature.
func (s *scene) reencode(change func(octets []byte) string) {
	text := strings.TrimSuffix(strings.TrimPrefix(s.r.Header.Get("Signature"), "sig1=:"), ":")
	octets, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	s.r.Header.Set("Signature", "sig1=:"+change(octets)+":")
}

// TestEncodingsOfSignaturesAreNotGuessed: each configuration reads its own, padded or not.
func TestEncodingsOfSignaturesAreNotGuessed(t *testing.T) {
	t.Parallel()
	forms := map[string]func([]byte) string{
		"base64":             base64.StdEncoding.EncodeToString,
		"base64 unpadded":    base64.RawStdEncoding.EncodeToString,
		"base64url":          base64.URLEncoding.EncodeToString,
		"base64url unpadded": base64.RawURLEncoding.EncodeToString,
		"padded too much":    func(b []byte) string { return base64.StdEncoding.EncodeToString(b) + "====" },
		"both alphabets":     mixedAlphabets,
		"stray bits":         func(b []byte) string { return strayBits(base64.RawStdEncoding.EncodeToString(b)) },
		"stray bits URL":     func(b []byte) string { return strayBits(base64.RawURLEncoding.EncodeToString(b)) },
		"a line break": func(b []byte) string {
			text := base64.StdEncoding.EncodeToString(b)
			return text[:4] + "\n" + text[4:]
		},
	}
	accepted := map[Encoding][]string{
		"": {"base64", "base64 unpadded"}, Base64: {"base64", "base64 unpadded"},
		Base64URL: {"base64url", "base64url unpadded"},
	}
	for encoding, good := range accepted {
		for form, encode := range forms {
			for _, label := range []string{"", "sig1"} {
				s := sceneWithBothAlphabets(t)
				s.scheme.Encoding, s.scheme.Label = encoding, label
				s.reencode(encode)
				if _, err := s.verify(); (err == nil) != slices.Contains(good, form) {
					t.Errorf("%q, label %q: %s: %v", encoding, label, form, err)
				} else if err != nil && CodeOf(err) != SignatureMalformed {
					t.Errorf("%q: %s: %v", encoding, form, err)
				}
			}
		}
	}
}

// sceneWithBothAlphabets is signed so that base64 and base64url differ, and have padding.
func sceneWithBothAlphabets(t *testing.T) *scene {
	t.Helper()
	for i := range 1_000 {
		s := newScene(t)
		s.pair.signer.Nonce = strings.Repeat("x", i)
		s.pair.sign(t, s.r, s.body)
		if text := s.r.Header.Get("Signature"); strings.Contains(text, "+") && strings.Contains(text, "/") {
			return s
		}
	}
	panic("no such signature")
}

func mixedAlphabets(b []byte) string {
	return strings.Replace(base64.StdEncoding.EncodeToString(b), "+", "-", 1)
}

// strayBits changes bits of the last digit that encode nothing.
func strayBits(text string) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	last := strings.IndexByte(digits, text[len(text)-1])
	return text[:len(text)-1] + digits[last+1:last+2]
}

// TestTheEncodingHoldsForTheLabelOnly: other signatures are as RFC 9421 writes them.
func TestTheEncodingHoldsForTheLabelOnly(t *testing.T) {
	t.Parallel()
	for other, want := range map[string]Code{"": "", ", b=:-_-_:": SignatureMalformed, ", b=:+/+/:": ""} {
		s := sceneWithBothAlphabets(t)
		s.scheme.Encoding, s.scheme.Label = Base64URL, "sig1"
		s.reencode(base64.RawURLEncoding.EncodeToString)
		s.r.Header.Set("Signature", s.r.Header.Get("Signature")+other)
		_, err := s.verify()
		if CodeOf(err) != want {
			t.Errorf("%q: %v", other, err)
		}
	}
}

// TestSignaturesInDERAreExactlyDER: one pair of numbers has one text, except for s and n-s, which
// are one event. Nothing falls back to the other form.
func TestSignaturesInDERAreExactlyDER(t *testing.T) {
	t.Parallel()
	for _, alg := range []Alg{ECDSAP256SHA256, ECDSAP384SHA384} {
		pair := newPair(t, "k", alg)
		order := ecdsaOrder(t, pair.key)
		sign := func(der bool, change func(r, s *big.Int) []byte) (Identity, error) {
			scheme := &RFC9421{Keys: StaticKeys(pair.key), DER: der}
			s := &scene{pair: pair, scheme: scheme, r: newDelivery(t, testBody), body: testBody}
			s.pair.sign(t, s.r, s.body)
			s.reencode(func(octets []byte) string {
				half := len(octets) / 2
				return base64.StdEncoding.EncodeToString(change(new(big.Int).SetBytes(octets[:half]),
					new(big.Int).SetBytes(octets[half:])))
			})
			return s.verify()
		}
		der := func(numbers ...*big.Int) []byte {
			text, err := asn1.Marshal(numbers)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		low, err := sign(true, func(r, s *big.Int) []byte { return der(r, s) })
		high, err2 := sign(true, func(r, s *big.Int) []byte { return der(r, s.Sub(order, s)) })
		if err != nil || err2 != nil || string(low.Signed) != string(high.Signed) || len(low.Signed) == 0 {
			t.Errorf("%s: %v, %v: one event is two: %x, %x", alg, err, err2, low.Signed, high.Signed)
		}
		for name, change := range map[string]func(r, s *big.Int) []byte{
			"side by side":    func(r, s *big.Int) []byte { return sized(order, r, s) },
			"something after": func(r, s *big.Int) []byte { return append(der(r, s), 0) },
			"a third number":  func(r, s *big.Int) []byte { return der(r, s, s) },
			"r beyond n":      func(r, s *big.Int) []byte { return der(r.Add(r, order), s) },
			"s beyond n":      func(r, s *big.Int) []byte { return der(r, s.Add(s, order)) },
			"s negative":      func(r, s *big.Int) []byte { return der(r, s.Sub(s, order)) },
			"s is 0":          func(r, _ *big.Int) []byte { return der(r, new(big.Int)) },
			"nothing":         func(_, _ *big.Int) []byte { return nil },
			"a long length": func(r, s *big.Int) []byte {
				text := der(r, s)
				return append([]byte{text[0], 0x81}, text[1:]...)
			},
			"a leading zero": func(r, s *big.Int) []byte {
				text := der(s) // a sequence of one integer, before which a zero byte comes
				inner := append([]byte{2, text[3] + 1, 0}, text[4:]...)
				first := der(r)[2:]
				return append([]byte{0x30, byte(len(first) + len(inner))}, append(first, inner...)...)
			},
		} {
			_, err := sign(true, change)
			if CodeOf(err) != SignatureMismatch {
				t.Errorf("%s: %s: %v", alg, name, err)
			}
		}
		_, err = sign(false, func(r, s *big.Int) []byte { return der(r, s) })
		wantCode(t, err, SignatureMismatch)
		_, err = sign(false, func(r, s *big.Int) []byte {
			return slices.Concat(sized(order, r), []byte{0}, sized(order, s))
		})
		wantCode(t, err, SignatureMismatch)
	}
}

func sized(order *big.Int, numbers ...*big.Int) (b []byte) {
	size := (order.BitLen() + 7) / 8
	for _, n := range numbers {
		b = append(b, n.FillBytes(make([]byte, size))...)
	}
	return b
}

func ecdsaOrder(t *testing.T, k Key) *big.Int {
	t.Helper()
	public, ok := k.Public().(*ecdsa.PublicKey)
	if !ok {
		t.Fatalf("%T", k.Public())
	}
	return public.Params().N
}
