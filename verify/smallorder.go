package verify

import (
	"crypto/ed25519"
	"encoding/hex"
)

// smallOrderPoints are the y-coordinates of the Ed25519 points whose order divides 8, as a key holds them (RFC 8032
// section 5.1.2), each in every spelling that a verifier takes. Signatures that hold for such a key can be made without
// a private key.
var smallOrderPoints = [][ed25519.PublicKeySize]byte{
	point("0000000000000000000000000000000000000000000000000000000000000000"), // order 4
	point("0100000000000000000000000000000000000000000000000000000000000000"), // order 1
	point("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), // order 8
	point("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), // order 8
	point("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"), // order 2
	point("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"), // order 4, y = p
	point("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"), // order 1, y = p + 1
}

func point(digits string) (y [ed25519.PublicKeySize]byte) {
	_, _ = hex.Decode(y[:], []byte(digits)) // a constant
	return y
}

// smallOrder reports whether a key of the right length is a point of small order, with either sign of x.
func smallOrder(key ed25519.PublicKey) bool {
	y := [ed25519.PublicKeySize]byte(key)
	y[len(y)-1] &= 0x7f
	for _, p := range smallOrderPoints {
		if y == p {
			return true
		}
	}
	return false
}
