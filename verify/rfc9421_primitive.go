package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"math/big"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// primitive reports whether one key made the signature over these octets (RFC 9421 section
// 3.3). It is the only cryptography that an unauthenticated client can make us compute: the
// engine runs only for signatures that it verified.
type primitive func(base, signature []byte) bool

// newHMACPrimitive pools keyed MACs, because keying costs two blocks of hashing.
func newHMACPrimitive(secret []byte) primitive {
	key := newHMACKey("", secret, []Hash{SHA256})
	return func(base, signature []byte) bool {
		var sum [sha256.Size]byte
		return hmac.Equal(key.sum(sum[:0], SHA256, segments{base}), signature)
	}
}

// algHash has the hash of every algorithm; Ed25519 signs the octets themselves.
var algHash = map[Alg]crypto.Hash{
	HMACSHA256: crypto.SHA256, Ed25519: 0, ECDSAP256SHA256: crypto.SHA256, ECDSAP384SHA384: crypto.SHA384,
	RSAPSSSHA512: crypto.SHA512, RSAv15SHA256: crypto.SHA256,
}

// hashed returns the hash of octets; without a hash, the octets.
func hashed(h crypto.Hash, octets []byte) []byte {
	if h == 0 {
		return octets
	}
	d := h.New()
	d.Write(octets)
	return d.Sum(nil)
}

// newPublicPrimitive returns nil for a key that has no algorithm.
func newPublicPrimitive(alg Alg, public crypto.PublicKey) primitive {
	switch k := public.(type) {
	case ed25519.PublicKey:
		return func(base, signature []byte) bool { return ed25519.Verify(k, base, signature) }
	case *ecdsa.PublicKey:
		return newECDSAPrimitive(k, algHash[alg])
	case *rsa.PublicKey:
		if alg == RSAv15SHA256 {
			return newPKCS1Primitive(k, algHash[alg])
		}
		return newPSSPrimitive(k, algHash[alg])
	}
	return nil
}

func newPKCS1Primitive(k *rsa.PublicKey, h crypto.Hash) primitive {
	return func(base, signature []byte) bool { return rsa.VerifyPKCS1v15(k, h, hashed(h, base), signature) == nil }
}

func newPSSPrimitive(k *rsa.PublicKey, h crypto.Hash) primitive {
	return func(base, signature []byte) bool { return rsa.VerifyPSS(k, h, hashed(h, base), signature, nil) == nil }
}

// newECDSAPrimitive reads a signature as the integers r and s, each as long as the order of the
// curve (RFC 9421 sections 3.3.4 and 3.3.5).
func newECDSAPrimitive(k *ecdsa.PublicKey, h crypto.Hash) primitive {
	size := (k.Params().N.BitLen() + 7) / 8
	return func(base, signature []byte) bool {
		sum := hashed(h, base)
		if len(signature) != 2*size {
			return false
		}
		r, s := new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])
		return ecdsa.Verify(k, sum, r, s)
	}
}

// sideBySide returns an ECDSA signature that is the DER of r and s (RFC 3279 section 2.2.3) as RFC
// 9421 section 3.3.4 writes it. It is nil if the octets are anything else: other encodings of the
// integers, something after them, or an r or s that is not in [1, n-1].
func sideBySide(public *ecdsa.PublicKey, octets []byte) []byte {
	var pair cryptobyte.String
	var r, s big.Int
	der, n := cryptobyte.String(octets), public.Params().N
	if !der.ReadASN1(&pair, asn1.SEQUENCE) || !der.Empty() ||
		!pair.ReadASN1Integer(&r) || !pair.ReadASN1Integer(&s) || !pair.Empty() {
		return nil
	}
	size := (n.BitLen() + 7) / 8
	flat := make([]byte, 2*size)
	for i, v := range []*big.Int{&r, &s} {
		if v.Sign() <= 0 || v.Cmp(n) >= 0 {
			return nil
		}
		v.FillBytes(flat[i*size : (i+1)*size])
	}
	return flat
}
