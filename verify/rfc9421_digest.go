package verify

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// The causes of a digest_missing or digest_mismatch refusal. Receivers answer each differently.
var (
	// ErrDigestSyntax means that Content-Digest is not a Dictionary of byte sequences.
	ErrDigestSyntax = errors.New("the field is not a dictionary of byte sequences")
	// ErrDigestUnsupported means that Content-Digest has neither sha-256 nor sha-512. The older
	// algorithms do not count (RFC 9530 section 5).
	ErrDigestUnsupported = errors.New("neither sha-256 nor sha-512 is named")
	// ErrDigestLength means that a digest does not have the length of its algorithm.
	ErrDigestLength = errors.New("the digest does not have the length of its algorithm")
)

// DigestError is the cause of a refusal of a Content-Digest that names algorithms. Err is one
// of the errors above.
type DigestError struct {
	Algorithms []string // the keys of the dictionary at fault, as the request writes them; at most 16
	Err        error
}

// Error implements error. It quotes nothing of the request.
func (e *DigestError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *DigestError) Unwrap() error { return e.Err }

// The supported digests (RFC 9530 section 5).
const (
	digestSHA256 = "sha-256"
	digestSHA512 = "sha-512"
)

// maxDigests bounds the members of Content-Digest.
const maxDigests = 16

func isDigestName(s string) bool { return s == digestSHA256 || s == digestSHA512 }

// contentDigest holds the digests of a Content-Digest field.
type contentDigest struct {
	sha256               [sha256.Size]byte
	sha512               [sha512.Size]byte
	hasSHA256, hasSHA512 bool
}

// parseContentDigest reads the field (RFC 9530 section 2). Unknown algorithms are skipped; at
// least one must be supported.
func parseContentDigest(lines []string) (contentDigest, *Error) {
	var d contentDigest
	if len(lines) == 0 {
		return d, digestError(DigestMissing, nil)
	}
	var buffer [2]sfMember
	members, ok := readDictionary(buffer[:0], sfScanner{s: joinLines(lines), octets: unpadded}, maxDigests)
	if !ok {
		return d, digestError(DigestMissing, ErrDigestSyntax)
	}
	var others []string
	for i := range members {
		m := &members[i]
		if !isDigestName(m.key) {
			others = append(others, m.key)
			continue
		}
		if m.list || m.item.kind != sfBytes {
			return d, digestError(DigestMissing, ErrDigestSyntax)
		}
		if !d.set(m.key, strings.Trim(m.item.text, ":")) {
			return d, digestError(DigestMismatch, &DigestError{[]string{m.key}, ErrDigestLength})
		}
	}
	if !d.hasSHA256 && !d.hasSHA512 {
		return d, digestError(DigestMissing, &DigestError{others, ErrDigestUnsupported})
	}
	return d, nil
}

// set decodes a digest, whose text was checked by the scanner. It returns false if the digest
// does not have the length of its algorithm.
func (d *contentDigest) set(name, text string) bool {
	to, has := d.sha256[:], &d.hasSHA256
	if name == digestSHA512 {
		to, has = d.sha512[:], &d.hasSHA512
	}
	raw, _ := unpadded.AppendDecode(to[:0], []byte(strings.TrimRight(text, "=")))
	*has = copy(to, raw) == len(raw) && len(raw) == len(to)
	return *has
}

// check compares the body with every digest: one wrong digest refuses the body (RFC 9530
// section 6.6).
func (d *contentDigest) check(body []byte) *Error {
	if d.hasSHA256 && sha256.Sum256(body) != d.sha256 || d.hasSHA512 && sha512.Sum512(body) != d.sha512 {
		return digestError(DigestMismatch, nil)
	}
	return nil
}

// CheckContentDigest compares a body with its Content-Digest field (RFC 9530 section 2). It
// returns nil if there is a digest of a supported algorithm and every one matches, else an
// error with the code digest_missing or digest_mismatch.
func CheckContentDigest(lines []string, body []byte) error {
	d, refusal := parseContentDigest(lines)
	if refusal == nil {
		refusal = d.check(body)
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

func digestError(code Code, cause error) *Error {
	return &Error{Code: code, Component: "content-digest", Err: cause}
}

// ContentDigest returns the value of the Content-Digest field for a body (RFC 9530 section 2).
// Algorithms are "sha-256" and "sha-512"; the default is sha-256.
func ContentDigest(body []byte, algorithms ...string) (string, error) {
	var parts []string
	for _, a := range orDefault(algorithms, digestSHA256) {
		newSum := map[string]func() hash.Hash{digestSHA256: sha256.New, digestSHA512: sha512.New}[a]
		if newSum == nil {
			return "", fmt.Errorf("digest algorithm %q: sha-256 and sha-512 are supported", a)
		}
		h := newSum()
		h.Write(body)
		parts = append(parts, a+"=:"+base64.StdEncoding.EncodeToString(h.Sum(nil))+":")
	}
	return strings.Join(parts, ", "), nil
}
