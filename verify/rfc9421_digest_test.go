package verify

import (
	"errors"
	"strings"
	"testing"
)

func TestContentDigestIsChecked(t *testing.T) {
	t.Parallel()
	both, err := ContentDigest([]byte(testBody), "sha-256", "sha-512")
	if err != nil {
		t.Fatal(err)
	}
	good256, good512, _ := strings.Cut(both, ", ")
	unpadded := strings.TrimSuffix(strings.NewReplacer("==:,", ":,", "=:,", ":,").Replace(both+","), ",")
	other, err := ContentDigest([]byte("other"), "sha-256", "sha-512")
	if err != nil {
		t.Fatal(err)
	}
	bad256, bad512, _ := strings.Cut(other, ", ")
	short := "sha-512" + strings.TrimPrefix(good256, "sha-256")
	for _, c := range []struct {
		name  string
		lines []string
		code  Code
		cause error
	}{
		{"sha-256", []string{good256}, "", nil},
		{"sha-512", []string{good512}, "", nil},
		{"both", []string{both}, "", nil},
		{"both without padding", []string{unpadded}, "", nil},
		{"both on two lines", []string{good256, good512}, "", nil},
		{"with an older one", []string{"md5=:AAAA:, " + good256}, "", nil},
		{"with an unknown one of another type", []string{"id-x=1;a, " + good256}, "", nil},
		{"a wrong sha-256", []string{bad256}, DigestMismatch, nil},
		{"a wrong sha-512", []string{bad512}, DigestMismatch, nil},
		{"one of two wrong", []string{good256 + ", " + bad512}, DigestMismatch, nil},
		{"the other of two wrong", []string{bad256 + ", " + good512}, DigestMismatch, nil},
		{"a wrong one first, on two lines", []string{bad256, good256}, DigestMissing, ErrDigestSyntax},
		{"the length of another", []string{short}, DigestMismatch, ErrDigestLength},
		{"empty", []string{"sha-256=::"}, DigestMismatch, ErrDigestLength},
		{"older ones only", []string{"md5=:AAAA:, sha=:AAAA:, unixsum=:AAAA:, adler=:AAAA:, crc32c=:AAAA:"},
			DigestMissing, ErrDigestUnsupported},
		{"capitals", []string{"SHA-256" + strings.TrimPrefix(good256, "sha-256")}, DigestMissing, ErrDigestSyntax},
		{"no field", nil, DigestMissing, nil},
		{"an empty field", []string{""}, DigestMissing, ErrDigestUnsupported},
		{"a string", []string{`sha-256="abc"`}, DigestMissing, ErrDigestSyntax},
		{"a list", []string{`sha-256=(:AAAA:)`}, DigestMissing, ErrDigestSyntax},
		{"a flag", []string{`sha-256`}, DigestMissing, ErrDigestSyntax},
		{"a broken dictionary", []string{good256 + ","}, DigestMissing, ErrDigestSyntax},
		{"the form of RFC 3230", []string{"SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="}, DigestMissing,
			ErrDigestSyntax},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, refusal := parseContentDigest(c.lines)
			if refusal == nil {
				refusal = d.check([]byte(testBody))
			}
			switch {
			case c.code == "" && refusal != nil:
				t.Error(refusal)
			case c.code != "":
				wantCode(t, asError(refusal), c.code)
				if c.cause != nil && !errors.Is(asError(refusal), c.cause) {
					t.Errorf("got %v, want %v", refusal, c.cause)
				}
			}
		})
	}
	if _, err := ContentDigest(nil, "md5"); err == nil {
		t.Error("md5 is written")
	}
}

// FuzzContentDigest looks for panics and for fields that parse without a digest.
func FuzzContentDigest(f *testing.F) {
	f.Add("sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:", "x")
	f.Add("sha-512=:AAAA:, md5=:AAAA:", "")
	f.Fuzz(func(t *testing.T, field, body string) {
		d, refusal := parseContentDigest([]string{field})
		if refusal != nil {
			return
		}
		want, err := ContentDigest([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if d.check([]byte(body)) == nil &&
			!strings.Contains(field, strings.TrimPrefix(want, "sha-256")) && !d.hasSHA512 {
			t.Fatalf("%q passes for the digest of %q", field, body)
		}
	})
}
