package preset

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// A body in which nothing looks like a signature is unsigned, and not a malformed event.
func TestABodyWithoutItsSignatureIsUnsigned(t *testing.T) {
	t.Parallel()
	missing := []verify.Code{verify.SignatureMissing, verify.CredentialsMissing, verify.TokenMissing}
	settings := sampleSettings(t)
	for _, one := range All() {
		p := one.Open(settings[one.Name])
		if p.Err != nil {
			t.Error(one.Name, p.Err)
		}
		if p.Scheme == nil {
			continue
		}
		for _, body := range []string{`{}`, ``, `[]`, `null`, `17`, `""`, `{"v":"1.0.2"}`, `[{"id":1}]`, `no JSON`, `{`,
			`a=1&b=2`, `{"notificationItems":[{"NotificationRequestItem":{"success":{}}}]}`} {
			r := httptest.NewRequest(http.MethodPost, "https://hooks.example/webhooks/x", http.NoBody)
			r.Header.Set("Content-Type", "application/json")
			_, err := p.Scheme.Verify(r, func() ([]byte, error) { return []byte(body), nil })
			if !slices.Contains(missing, verify.CodeOf(err)) {
				t.Errorf("%s, %q: %v", one.Name, body, err)
			}
		}
	}
}
