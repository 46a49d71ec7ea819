package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rsa"
	"fmt"
	"net/http"
	"strings"
)

// checkedBy returns the key with another primitive, for signatures that name the algorithm.
func (k Key) checkedBy(alg Alg, check primitive) Key {
	return Key{ID: k.ID, Alg: alg, material: &material{alg: alg, public: k.Public(), check: check}}
}

// otherPrimitives tries a key of the scheme with other hashes, and over other signature bases.
func otherPrimitives(k Key, r *http.Request, with func(Alternative, Key)) {
	alg := k.Alg // or the one that the signature names, which may be none of the registry
	for _, sent := range SentSignatures(r.Header) {
		if sent.in.keyID == k.ID && sent.in.hasAlg {
			alg = Alg(sent.in.alg)
		}
	}
	for _, h := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA1} {
		for _, other := range hashedWith(k, h) {
			detail := fmt.Sprintf("%s with %s, and key %q is for %s", other.name, h, truncate(k.ID), k.Alg)
			with(Alternative{Mistake: other.mistake, Detail: detail, Rare: true}, k.checkedBy(alg, other.check))
		}
	}
	for _, other := range otherBases(r) {
		check := func(base, signature []byte) bool {
			changed := other.edit(base)
			return len(changed) != len(base) && k.material.check(changed, signature)
		}
		with(Alternative{Mistake: other.mistake, Detail: other.detail, Rare: true}, k.checkedBy(alg, check))
	}
}

// otherPrimitive is a way to sign with a key.
type otherPrimitive struct {
	mistake Mistake
	name    string
	check   primitive
}

// hashedWith returns the ways to sign with a key and a hash that its algorithm does not have.
func hashedWith(k Key, h crypto.Hash) []otherPrimitive {
	sum := func(base []byte) []byte {
		d := h.New()
		d.Write(base)
		return d.Sum(nil)
	}
	switch public := k.Public().(type) {
	case *rsa.PublicKey:
		pss := otherPrimitive{HashDiffers, "RSA-PSS", func(base, sig []byte) bool {
			return rsa.VerifyPSS(public, h, sum(base), sig, nil) == nil
		}}
		pkcs1 := otherPrimitive{HashDiffers, "RSA PKCS #1", func(base, sig []byte) bool {
			return rsa.VerifyPKCS1v15(public, h, sum(base), sig) == nil
		}}
		if k.Alg == RSAv15SHA256 {
			pss.mistake = AlgorithmDiffers
		} else {
			pkcs1.mistake = AlgorithmDiffers
		}
		switch h {
		case crypto.SHA256: // PKCS #1 with it and PSS with SHA-512 are algorithms, which are tried before
			return []otherPrimitive{pss}
		case crypto.SHA512:
			return []otherPrimitive{pkcs1}
		}
		return []otherPrimitive{pss, pkcs1}
	case *ecdsa.PublicKey:
		return []otherPrimitive{{HashDiffers, "ECDSA", func(base, sig []byte) bool {
			return checkECDSA(public, sum(base), sig)
		}}}
	}
	if k.material.secret == nil {
		return nil
	}
	return []otherPrimitive{{HashDiffers, "HMAC", func(base, sig []byte) bool {
		mac := hmac.New(h.New, []byte(k.material.secret()))
		mac.Write(base)
		return hmac.Equal(mac.Sum(nil), sig)
	}}}
}

// otherBase is a signature base as a sender may make it.
type otherBase struct {
	mistake Mistake
	detail  string
	edit    func(base []byte) []byte
}

func otherBases(r *http.Request) []otherBase {
	port := ":443"
	if r.URL.Scheme == "http" {
		port = ":80"
	}
	// RFC 9421 section 2.2.3 leaves the default port out.
	authority := func(base []byte) []byte { return withPort(base, `"@authority": `, "", port) }
	target := func(base []byte) []byte { return withPort(base, `"@target-uri": `, "://", port) }
	both := func(base []byte) []byte { return target(authority(base)) }
	return []otherBase{
		{ContentDiffers, "the signature base ends with a newline",
			func(base []byte) []byte { return append(bytes.Clone(base), '\n') }},
		{ContentDiffers, "the lines of the signature base end with CRLF",
			func(base []byte) []byte { return bytes.ReplaceAll(base, []byte("\n"), []byte("\r\n")) }},
		{PortDiffers, "the default port in @authority", authority},
		{PortDiffers, "the default port in @target-uri", target},
		{PortDiffers, "the default port in @authority and @target-uri", both},
	}
}

// withPort puts a port after the host in the line of a component. The host begins after a text.
func withPort(base []byte, component, before, port string) []byte {
	head, line, found := strings.Cut("\n"+string(base), "\n"+component)
	if !found {
		return base
	}
	if i := strings.Index(line, before); i >= 0 {
		i += len(before)
		if end := strings.IndexAny(line[i:], "/?\n"); end >= 0 {
			line = line[:i+end] + port + line[i+end:]
		}
	}
	return []byte((head + "\n" + component + line)[1:])
}
