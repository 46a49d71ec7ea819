package verify

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
)

// maxECDSA is the length of the longest signature with P-256: the DER of two integers of 33 bytes.
const maxECDSA = 72

// matchPublic reports whether one of the public keys made one of the signatures.
func matchPublic(p *hmacPlan, sigs []signature, content segments) bool {
	var joined, digest []byte
	tried, most := 0, maxPublicChecks*(len(p.publicKeys)+len(p.ecdsaKeys))
	for i := range sigs {
		x := &sigs[i]
		switch {
		case x.hash != "" || x.length > maxECDSA:
			continue
		case x.ecdsa:
			if digest == nil {
				digest = digestOf(content)
			}
			for _, k := range p.ecdsaKeys {
				if tried++; tried > most {
					return false
				}
				if ecdsa.VerifyASN1(k, digest, bytes.Clone(x.bytes[:x.length])) {
					return true
				}
			}
			continue
		case x.length != ed25519.SignatureSize:
			continue
		case joined == nil:
			joined = bytes.Join(content, nil)
		}
		for _, k := range p.publicKeys {
			if tried++; tried > most {
				return false
			}
			if ed25519.Verify(k, joined, bytes.Clone(x.bytes[:x.length])) { // the copy keeps sigs off the heap
				return true
			}
		}
	}
	return false
}
