package preset

import (
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
)

// TestOwnFieldsAreThoseOfTheVendor: a preset sets its vendor's fields, no prefix covers the
// fields of others, and the fields of scheme and key are added.
func TestOwnFieldsAreThoseOfTheVendor(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		made := p.Open(Settings{Name: p.Name, Secrets: []string{"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"}})
		if !slices.Equal(made.Fields, p.like.Fields) {
			t.Errorf("%s has the fields %q, want %q", p.Name, made.Fields, p.like.Fields)
		}
		for _, f := range p.like.Fields {
			if prefix, many := strings.CutSuffix(f, "*"); many &&
				(strings.EqualFold(prefix, "X-") || !strings.HasSuffix(prefix, "-")) {
				t.Errorf("%s: %s is too wide", p.Name, f)
			}
		}
	}
	github := GitHub("0123456789abcdef")
	stripe := Stripe("whsec_0123456789abcdef")
	events := Open("cloudevents", Settings{Secrets: []string{"0123456789abcdef"}})
	batches := Open("cloudevents", Settings{Secrets: []string{"0123456789abcdef"}, Batch: true})
	if slices.ContainsFunc(github.OwnFields(), func(field string) bool { return strings.HasPrefix(field, "ce-") }) {
		t.Error("GitHub sends no CloudEvents")
	}
	for _, tt := range []struct {
		p    *producer.Producer
		want string
	}{
		{&events, "ce-*"}, {&batches, "ce-*"}, {&github, "X-Hub-Signature-256"}, {&github, "x-github-delivery"},
		{&stripe, "Stripe-Signature"},
	} {
		if got := tt.p.OwnFields(); !slices.Contains(got, tt.want) {
			t.Errorf("%s: %s is not among %q", tt.p.Name, tt.want, got)
		}
	}
}
