package producer_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestEveryChangeOfARecordedDeliveryIsRefusedOrWithoutEffect flips a bit of each byte of body
// and fields of the first signed delivery in each file of cases. A change is accepted only if
// it leaves the signed content as it was: an unsigned field, or the case of a hexadecimal
// digit. Where identifier and type are signed too, it leaves them as they were.
func TestEveryChangeOfARecordedDeliveryIsRefusedOrWithoutEffect(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "testdata", "vectors", "producers", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range validCases(t, name) {
				if p, want, ok := signedCase(t, &c); ok {
					refuseChanges(t, &c, p, want)
					return
				}
			}
			if signsItsItems[name] {
				t.Fatal("no content is signed")
			}
			t.Skip("no content is signed as a whole: a shared credential, a bearer token, or eight members of the body")
		})
	}
}

// signsItsItems lists the presets with signed identifiers and types, besides those of an HMAC.
var signsItsItems = map[string]bool{"aws-sns": true, "paypal": true, "yandex-pay": true, "openbanking-uk": true}

// signedCase reports whether the signature of a case covers its body.
func signedCase(t *testing.T, c *vectorCase) (producer.Producer, outcome, bool) {
	t.Helper()
	var fetched []string
	p := c.producer(t, &fetched)
	if p.Scheme == nil {
		return p, outcome{}, false
	}
	want, err := receiveCase(p, c.request(t), c.body(t), c)
	return p, want, err == nil && want.id.Signed != nil && len(c.body(t)) > 0
}

func refuseChanges(t *testing.T, c *vectorCase, p producer.Producer, want outcome) {
	t.Helper()
	r, body := c.request(t), c.body(t)
	refused, secrets := 0, secretsOf(c)
	for _, m := range changes(r, body) {
		got, err := receiveCase(p, m.r, m.body, c)
		switch {
		case err == nil && (string(got.id.Signed) != string(want.id.Signed) ||
			signsItsItems[c.Producer] && (got.item.ID != want.item.ID || got.item.Type != want.item.Type)):
			t.Errorf("%s: accepted as %+v", m.what, got.item)
		case err != nil && verify.CodeOf(err) == "":
			t.Errorf("%s: untyped error %v", m.what, err)
		case err != nil:
			refused++
		}
		for _, secret := range secrets {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Fatalf("%s: the error shows a secret or a signature: %v", m.what, err)
			}
		}
	}
	if refused < len(body)/2 {
		t.Errorf("only %d changes were refused", refused)
	}
}

// TestNoPresetOpensWithoutCredentials opens every preset.
func TestNoPresetOpensWithoutCredentials(t *testing.T) {
	t.Parallel()
	for _, p := range preset.All() {
		made := p.Open(preset.Settings{})
		if len(made.Check()) == 0 {
			t.Errorf("%s opens without a secret", p.Name)
		}
		if !strings.HasPrefix(p.Docs, "https://") || p.Window() < producer.DefaultWindow && made.Series == nil {
			t.Errorf("%s: documentation at %q, window %v", p.Name, p.Docs, p.Window())
		}
	}
}
