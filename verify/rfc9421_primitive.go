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

// newPublicPrimitive returns nil for an algorithm that does not fit the key.
func newPublicPrimitive(alg Alg, public crypto.PublicKey) primitive {
	switch k := public.(type) {
	case ed25519.PublicKey:
		return func(base, signature []byte) bool { return ed25519.Verify(k, base, signature) }
	case *ecdsa.PublicKey:
		return newECDSAPrimitive(alg, k)
	case *rsa.PublicKey:
		if alg == RSAv15SHA256 {
			return func(base, signature []byte) bool {
				sum := sha256.Sum256(base)
				return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
			}
		}
		return func(base, signature []byte) bool {
			sum := sha512.Sum512(base)
			return rsa.VerifyPSS(k, crypto.SHA512, sum[:], signature, nil) == nil
		}
	}
	return nil
}

func newECDSAPrimitive(alg Alg, public *ecdsa.PublicKey) primitive {
	return func(base, signature []byte) bool {
		var buf [sha512.Size384]byte
		sum := buf[:]
		if alg == ECDSAP256SHA256 {
			short := sha256.Sum256(base)
			sum = short[:]
		} else {
			buf = sha512.Sum384(base)
		}
		return checkECDSA(public, sum, signature)
	}
}

// checkECDSA reads a signature as the integers r and s, each as long as the order of the curve (RFC
// 9421 sections 3.3.4 and 3.3.5).
func checkECDSA(public *ecdsa.PublicKey, sum, signature []byte) bool {
	size := (public.Params().N.BitLen() + 7) / 8
	if len(signature) != 2*size {
		return false
	}
	r, s := new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])
	return ecdsa.Verify(public, sum, r, s)
}

// sideBySide returns an ECDSA signature that is the DER of r and s (RFC 3279 section 2.2.3) as RFC
// 9421 section 3.3.4 writes it. It is nil if the octets are anything else: other encodings of the
// integers, something after them, or an r or s that is not in [1, n-1]. Signatures of other
// algorithms are returned as they are.
func sideBySide(k *Key, octets []byte) []byte {
	public, ok := k.Public().(*ecdsa.PublicKey)
	if !ok {
		return octets
	}
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
