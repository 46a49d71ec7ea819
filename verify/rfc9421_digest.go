package verify

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// The causes that a digest_missing or digest_mismatch refusal may wrap, for receivers that answer each in its own
// way.
var (
	// ErrDigestSyntax says that Content-Digest is no Dictionary of byte sequences.
	ErrDigestSyntax = errors.New("the field is no dictionary of byte sequences")
	// ErrDigestUnsupported says that Content-Digest names neither sha-256 nor sha-512. The older algorithms
	// do not count (RFC 9530 section 5).
	ErrDigestUnsupported = errors.New("neither sha-256 nor sha-512 is named")
	// ErrDigestLength says that a digest has not the length of its algorithm.
	ErrDigestLength = errors.New("the digest has not the length of its algorithm")
)

// DigestError is the cause of a refusal of a Content-Digest that names algorithms. Err is one of the errors above.
type DigestError struct {
	// Algorithms are the keys of the dictionary that are at fault, as the request spells them; at most 16.
	Algorithms []string
	Err        error
}

// Error implements error. It quotes nothing of the request.
func (e *DigestError) Error() string { return e.Err.Error() }

// Unwrap returns which of the errors it is.
func (e *DigestError) Unwrap() error { return e.Err }

// Names of the digests that count (RFC 9530 section 5).
const (
	digestSHA256 = "sha-256"
	digestSHA512 = "sha-512"
)

// maxDigests bounds the members of Content-Digest.
const maxDigests = 16

func isDigestName(s string) bool { return s == digestSHA256 || s == digestSHA512 }

// contentDigest is what a Content-Digest field says; nil where it says nothing of that algorithm.
type contentDigest struct{ sha256, sha512 []byte }

// parseContentDigest reads the field (RFC 9530 section 2). Algorithms that we do not know are skipped; at least one
// that we know must be there.
func parseContentDigest(lines []string) (contentDigest, *Error) {
	var d contentDigest
	if len(lines) == 0 {
		return d, digestError(DigestMissing, nil)
	}
	members, ok := parseDictionary(joinLines(lines), maxDigests)
	if !ok {
		return d, digestError(DigestMissing, ErrDigestSyntax)
	}
	var others []string
	for _, m := range members {
		if !isDigestName(m.key) {
			others = append(others, m.key)
			continue
		}
		if m.list || m.item.kind != sfBytes {
			return d, digestError(DigestMissing, ErrDigestSyntax)
		}
		raw, err := base64.StdEncoding.DecodeString(strings.Trim(m.item.text, ":"))
		if err != nil {
			return d, digestError(DigestMissing, ErrDigestSyntax)
		}
		size := sha256.Size
		if m.key == digestSHA512 {
			size, d.sha512 = sha512.Size, raw
		} else {
			d.sha256 = raw
		}
		if len(raw) != size {
			return d, digestError(DigestMismatch, &DigestError{[]string{m.key}, ErrDigestLength})
		}
	}
	if d.sha256 == nil && d.sha512 == nil {
		return d, digestError(DigestMissing, &DigestError{others, ErrDigestUnsupported})
	}
	return d, nil
}

// check compares the body with every digest (RFC 9530 section 6.6: one that is wrong makes all wrong).
func (d contentDigest) check(body []byte) *Error {
	if d.sha256 != nil {
		if sum := sha256.Sum256(body); !bytes.Equal(sum[:], d.sha256) {
			return digestError(DigestMismatch, nil)
		}
	}
	if d.sha512 != nil {
		if sum := sha512.Sum512(body); !bytes.Equal(sum[:], d.sha512) {
			return digestError(DigestMismatch, nil)
		}
	}
	return nil
}

// CheckContentDigest reports whether a Content-Digest field is true of a body (RFC 9530 section 2): nil where every digest of a
// supported algorithm matches and there is at least one, else an error with the code digest_missing or digest_mismatch.
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

// ContentDigest returns the value of the Content-Digest field for a body (RFC 9530 section 2) with the algorithms
// "sha-256", "sha-512" or both; sha-256 when none is named.
func ContentDigest(body []byte, algorithms ...string) (string, error) {
	if len(algorithms) == 0 {
		algorithms = []string{digestSHA256}
	}
	var parts []string
	for _, a := range algorithms {
		var sum []byte
		switch a {
		case digestSHA256:
			s := sha256.Sum256(body)
			sum = s[:]
		case digestSHA512:
			s := sha512.Sum512(body)
			sum = s[:]
		default:
			return "", fmt.Errorf("digest algorithm %q: sha-256 and sha-512 are supported", a)
		}
		parts = append(parts, a+"=:"+base64.StdEncoding.EncodeToString(sum)+":")
	}
	return strings.Join(parts, ", "), nil
}
