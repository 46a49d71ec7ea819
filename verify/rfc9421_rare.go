package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rsa"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// checkedBy returns the key with another primitive, for signatures that name the algorithm.
func (k Key) checkedBy(alg Alg, check primitive) Key {
	return Key{ID: k.ID, Alg: alg, material: &material{alg: alg, public: k.Public(), check: check}}
}

// otherPrimitives tries a key of the scheme with other hashes.
func otherPrimitives(k Key, in *signatureInput, use func(Mistake, string, Key)) {
	alg := k.Alg
	if in.hasAlg {
		alg = Alg(in.alg) // which may be none of the registry
	}
	for _, h := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA1} {
		for _, other := range hashedWith(k, h) {
			detail := fmt.Sprintf("%s with %s, and key %q is for %s", other.name, h, truncate(k.ID), k.Alg)
			use(other.mistake, detail, k.checkedBy(alg, other.check))
		}
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
	switch public := k.Public().(type) {
	case *rsa.PublicKey:
		pss := otherPrimitive{HashDiffers, "RSA-PSS", newPSSPrimitive(public, h)}
		pkcs1 := otherPrimitive{HashDiffers, "RSA PKCS #1", newPKCS1Primitive(public, h)}
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
		return []otherPrimitive{{HashDiffers, "ECDSA", newECDSAPrimitive(public, h)}}
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

// baseEdit makes what a sender may sign in place of a signature base.
type baseEdit struct {
	mistake Mistake
	detail  string
	edit    func(base string) string
}

func baseEdits(scheme string) []baseEdit {
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	// RFC 9421 section 2.2.3 leaves the default port out.
	authority := inLine("@authority", func(v string) string { return v + port })
	target := inLine("@target-uri", func(v string) string {
		before, rest, _ := strings.Cut(v, "://")
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			rest = rest[:i] + port + rest[i:]
		}
		return before + "://" + rest
	})
	query := func(v string) string { text, _ := url.QueryUnescape(v); return text }
	path := func(v string) string { text, _ := url.PathUnescape(v); return text }
	unmarked := func(v string) string { return strings.TrimPrefix(v, "?") }
	return []baseEdit{
		{ContentDiffers, "the signature base ends with a newline",
			func(base string) string { return base + "\n" }},
		{ContentDiffers, "the lines of the signature base end with CRLF",
			func(base string) string { return strings.ReplaceAll(base, "\n", "\r\n") }},
		{PortDiffers, "the default port in @authority", authority},
		{PortDiffers, "the default port in @target-uri", target},
		{PortDiffers, "the default port in @authority and @target-uri",
			func(base string) string { return target(authority(base)) }},
		{QueryDiffers, "@query without its question mark", inLine("@query", unmarked)},
		{QueryDiffers, "@query decoded", inLine("@query", query)},
		{QueryDiffers, "@query decoded, without its question mark",
			inLine("@query", func(v string) string { return unmarked(query(v)) })},
		{QueryDiffers, "@query empty", inLine("@query", func(string) string { return "" })},
		{EscapesDiffer, "@path decoded", inLine("@path", path)},
		{EscapesDiffer, "@target-uri decoded", inLine("@target-uri", path)},
	}
}

// inLine returns an edit of the value of a derived component.
func inLine(component string, f func(value string) string) func(string) string {
	begin := "\n" + strconv.Quote(component) + ": "
	return func(base string) string {
		head, rest, found := strings.Cut("\n"+base, begin)
		if !found {
			return base
		}
		value, rest, _ := strings.Cut(rest, "\n")
		return (head + begin + f(value) + "\n" + rest)[1:]
	}
}

const maxEveryOrder = 5 // components whose every order is tried

// orders are bases with the lines of their components in another order.
func orders(base string) (edits []baseEdit) {
	lines := strings.SplitAfter(base, "\n")
	n := len(lines) - 1 // that of the parameters is the last one
	kept := make([]int, n)
	for i := range kept {
		kept[i] = i
	}
	try := func(order []int) {
		names, text := "the components in the order", ""
		for _, i := range order {
			name, _, _ := strings.Cut(lines[i], ": ")
			names, text = names+" "+name, text+lines[i]
		}
		text += lines[n]
		edits = append(edits, baseEdit{ContentDiffers, names, func(other string) string {
			if other != base {
				return other // that of another signature
			}
			return text
		}})
	}
	if n <= maxEveryOrder {
		permute(kept, 0, try)
		return edits
	}
	slices.Reverse(kept)
	try(kept)
	slices.SortFunc(kept, func(a, b int) int { return strings.Compare(lines[a], lines[b]) })
	try(kept)
	slices.Sort(kept)
	for i := 1; i < n; i++ {
		kept[i-1], kept[i] = i, i-1
		try(kept)
		kept[i-1], kept[i] = i-1, i
	}
	return edits
}
