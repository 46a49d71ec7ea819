package verify

import "testing"

func TestAuthorityIsNormalized(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"https", "EXAMPLE.com:443", "example.com"}, {"http", "example.com:80", "example.com"},
		{"https", "example.com", "example.com"},
		{"https", "example.com:80", "example.com:80"}, {"http", "example.com:443", "example.com:443"},
		{"https", "example.com:", "example.com"}, {"https", "[::1]:443", "[::1]"}, {"http", "[::1]:8080", "[::1]:8080"},
	} {
		if got := authority(c[0], c[1]); got != c[2] {
			t.Errorf("%s://%s gives %q, want %q", c[0], c[1], got, c[2])
		}
	}
	for s, ok := range map[string]bool{"example.com:8080": true, "[::1]": true,
		"": false, "a b": false, "a@b": false, "a/b": false, "ä": false} {
		if isAuthority(s) != ok {
			t.Errorf("%q: %v", s, !ok)
		}
	}
}
