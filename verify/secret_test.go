package verify

import (
	"net/http"
	"testing"
	"time"
)

// TestIdentityNamesTheSecretByPosition signs with each of two secrets, and with no secret.
func TestIdentityNamesTheSecretByPosition(t *testing.T) {
	t.Parallel()
	type signer interface {
		Scheme
		Sign(r *http.Request, body []byte, now time.Time) error
	}
	hmacOf := func(secrets ...string) *HMAC {
		return &HMAC{Headers: []string{"X-Sig"}, Encoding: Hex, Secrets: Secrets(secrets...)}
	}
	for name, of := range map[string]func(secrets ...string) signer{
		"hmac":   func(secrets ...string) signer { return hmacOf(secrets...) },
		"header": func(secrets ...string) signer { return HeaderValue("X-Api-Key", secrets...) },
		"both": func(secrets ...string) signer {
			return All{HeaderValue("X-Api-Key", "another"), hmacOf(secrets...)}
		},
		"either": func(secrets ...string) signer {
			return Any{hmacOf(secrets...), HeaderValue("X-Api-Key", "another")}
		},
	} {
		scheme, body := of("old-secret", "new-secret"), []byte("{}")
		for secret, want := range map[string]int{"old-secret": 1, "new-secret": 2, "other-secret": 0} {
			r := request()
			if err := of(secret).Sign(r, body, time.Now()); err != nil {
				t.Fatal(err)
			}
			id, err := scheme.Verify(r, func() ([]byte, error) { return body, nil })
			if id.Secret != want || (err == nil) != (want > 0) {
				t.Errorf("%s with %q: secret %d, %v; want %d", name, secret, id.Secret, err, want)
			}
		}
	}
}
