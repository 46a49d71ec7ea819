//go:build unix

package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// signedDelivery returns the verification of a delivery of 1 KiB, and the cryptography in it: a
// SHA-256 of the body and one verification of the signature base.
func signedDelivery(t testing.TB, alg Alg) (whole, bare func() bool) {
	t.Helper()
	body := []byte(strings.Repeat("x", 1024))
	p := newPair(t, "k", alg)
	r := newDelivery(t, string(body))
	p.sign(t, r, string(body))
	scheme := &RFC9421{Keys: StaticKeys(p.key), Algs: []Alg{alg}}
	read := func() ([]byte, error) { return body, nil }
	base, signature := mustBase(t, r), mustInput(t, r).octets(nil)
	whole = func() bool {
		_, err := scheme.Verify(r, read)
		return err == nil
	}
	bare = func() bool { return bareVerify(p, base, signature, body) }
	if !whole() || !bare() {
		t.Fatal("refused")
	}
	return whole, bare
}

// BenchmarkVerify shows the processor time of a verification, the median of its ratios to the
// bare cryptography in it in alternating rounds of one run, and the allocations.
func BenchmarkVerify(b *testing.B) {
	for _, alg := range []Alg{Ed25519, ECDSAP256SHA256, HMACSHA256, RSAPSSSHA512} {
		whole, bare := signedDelivery(b, alg)
		b.Run(string(alg), func(b *testing.B) {
			const round = 100 // calls, which is longer than a garbage collection
			var total, bareTotal time.Duration
			var ratios []float64
			for n := 0; n < b.N; n += round {
				wholeTime, bareTime := cpuOfRound(round, whole), cpuOfRound(round, bare)
				total, bareTotal = total+wholeTime, bareTotal+bareTime
				ratios = append(ratios, float64(wholeTime)/float64(bareTime))
			}
			slices.Sort(ratios)
			calls := float64(round * len(ratios))
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(total.Nanoseconds())/calls, "cpu-ns/op")
			b.ReportMetric(float64(bareTotal.Nanoseconds())/calls, "bare-cpu-ns/op")
			b.ReportMetric(ratios[len(ratios)/2], "x-bare")
			b.ReportMetric(testing.AllocsPerRun(round, func() { whole() }), "allocs")
			b.ReportMetric(testing.AllocsPerRun(round, func() { bare() }), "bare-allocs")
		})
	}
}

func cpuOfRound(calls int, f func() bool) time.Duration {
	start := cpuTime()
	for range calls {
		f()
	}
	return cpuTime() - start
}

// bareVerify is only the cryptography, with the digest.
func bareVerify(p testPair, base, signature, body []byte) bool {
	sha256.Sum256(body)
	switch k := p.key.Public().(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(k, base, signature)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(base)
		return ecdsa.Verify(k, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	case *rsa.PublicKey:
		sum := sha512.Sum512(base)
		return rsa.VerifyPSS(k, crypto.SHA512, sum[:], signature, nil) == nil
	}
	mac := hmac.New(sha256.New, p.signer.Secret)
	mac.Write(base)
	return hmac.Equal(mac.Sum(nil), signature)
}
