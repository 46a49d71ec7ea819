package preset

import (
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
)

// TestOwnFieldsAreThoseOfTheVendor: every row of the table belongs to a preset that sets it, the fields of a scheme and of the
// key are found by themselves, and no row is so wide that it lets the fields of others through.
func TestOwnFieldsAreThoseOfTheVendor(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, p := range All() {
		known[p.Name] = true
		made := p.Open(Settings{Name: p.Name, Secrets: []string{"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"}})
		if !slices.Equal(made.Fields, vendorFields[p.Name]) {
			t.Errorf("%s has the fields %q, want %q", p.Name, made.Fields, vendorFields[p.Name])
		}
	}
	for name, fields := range vendorFields {
		if !known[name] {
			t.Errorf("there is no preset %s", name)
		}
		for _, f := range fields {
			if prefix, many := strings.CutSuffix(f, "*"); many && (strings.EqualFold(prefix, "X-") || !strings.HasSuffix(prefix, "-")) {
				t.Errorf("%s: %s is too wide", name, f)
			}
		}
	}
	github := GitHub("0123456789abcdef")
	stripe := Stripe("whsec_0123456789abcdef")
	for _, tt := range []struct {
		p    *producer.Producer
		want string
	}{{&github, "X-Hub-Signature-256"}, {&github, "x-github-delivery"}, {&stripe, "Stripe-Signature"}} {
		if got := tt.p.OwnFields(); !slices.Contains(got, tt.want) {
			t.Errorf("%s: %s is not among %q", tt.p.Name, tt.want, got)
		}
	}
}
