package producer_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestAnEmbeddedSignatureWithAKeyPair is over a field and a member, with its time in milliseconds.
func TestAnEmbeddedSignatureWithAKeyPair(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	scheme := &producer.Embedded{
		Signature: producer.Header("X-Sig"), Timestamp: producer.JSON("at"), Content: "v1:{timestamp}:{json:order.id}",
		HMAC: &verify.HMAC{Entries: []string{"{ed25519}"}, Encoding: verify.Hex, TimestampUnit: verify.Milliseconds,
			PublicKeys: []ed25519.PublicKey{public}},
	}
	const body = `{"at":1795000000123,"order":{"id":"o-1"},"note":"not signed"}`
	attempt := func(body, content string) (verify.Identity, error) {
		r := httptest.NewRequest(http.MethodPost, "https://hooks.example/x", nil)
		if content != "" {
			r.Header.Set("X-Sig", hex.EncodeToString(ed25519.Sign(private, []byte(content))))
		}
		return scheme.Verify(r, func() ([]byte, error) { return []byte(body), nil })
	}
	const content = "v1:1795000000123:o-1"
	id, err := attempt(body, content)
	if err != nil || !id.SignedAt.Equal(time.UnixMilli(1795000000123)) || len(id.Covered) != 0 || id.Signed != nil ||
		len(id.Nonce) != 64 {
		t.Fatalf("%+v, %v", id, err)
	}
	other, err := attempt(strings.Replace(body, "not signed", "changed", 1), content)
	if err != nil || other.Nonce != id.Nonce {
		t.Errorf("the same signature in another body has another nonce: %+v, %v", other, err)
	}
	for name, tt := range map[string]struct {
		body, content string
		want          verify.Code
		component     string
	}{
		"no signature":  {body, "", verify.SignatureMissing, "header:X-Sig"},
		"another value": {strings.Replace(body, "o-1", "o-2", 1), content, verify.SignatureMismatch, "header:X-Sig"},
		"no value":      {strings.Replace(body, `"o-1"`, "{}", 1), content, verify.SignatureMismatch, "header:X-Sig"},
		"no time":       {`{"order":{"id":"o-1"}}`, content, verify.TimestampMissing, "json:at"},
		"in seconds":    {strings.Replace(body, "123,", ",", 1), content, verify.TimestampMalformed, "json:at"},
		"not a time": {strings.Replace(body, "1795000000123", `"1795000000abc"`, 1), content,
			verify.TimestampMalformed, "json:at"},
		"a member twice": {`{"at":1,"at":2}`, content, verify.AmbiguousField, "at"},
	} {
		_, err := attempt(tt.body, tt.content)
		var refusal *verify.Error
		if !errors.As(err, &refusal) || refusal.Code != tt.want || refusal.Component != tt.component {
			t.Errorf("%s: %v, want %s of %s", name, err, tt.want, tt.component)
		}
	}
	_, err = scheme.Verify(nil, func() ([]byte, error) { return nil, http.ErrBodyReadAfterClose })
	if !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("a body that did not arrive: %v", err)
	}
}

func TestAnEmbeddedSchemeRevealsNoSecret(t *testing.T) {
	t.Parallel()
	scheme := &producer.Embedded{
		Signature: producer.Form("s"), Timestamp: producer.Form("t"), Content: "{timestamp}{form:n}",
		HMAC: &verify.HMAC{Encoding: verify.Hex, Secrets: verify.Secrets("the-kettle-is-on-17")},
	}
	if err := scheme.Check(); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v", scheme, scheme, scheme); strings.Contains(text, "kettle") {
		t.Error(text)
	}
}
