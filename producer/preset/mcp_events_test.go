package preset

import (
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// TestASubscriptionCannotSendForAnother: the secret of one subscription does not verify a delivery
// that names another, and an unlisted subscription is refused.
func TestASubscriptionCannotSendForAnother(t *testing.T) {
	t.Parallel()
	p, _ := Find("mcp-events")
	const second = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	s := Settings{Keys: map[string]string{"sub_17": testWhsec, "sub_18": second}}
	made := p.Open(s)
	for sub, want := range map[string]verify.Code{
		"sub_17": "", "sub_18": verify.SignatureMismatch, "sub_19": verify.KeyUnknown, "": verify.KeyUnknown,
	} {
		r, body, err := p.Sample(s, testHook, "", "evt-17", testNow)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(mcpSubscription, sub)
		_, id, err := receive(made, r, body, testNow)
		if verify.CodeOf(err) != want {
			t.Errorf("as %q: got %v, want %q", sub, err, want)
		}
		if err == nil && id.Principal != sub {
			t.Errorf("the principal is %q", id.Principal)
		}
	}
	s.Keys["sub_20"], s.Keys["sub_16"] = second, testWhsec+"="
	made = p.Open(s)
	for _, sub := range []string{"sub_16", "sub_17", "sub_18"} {
		r, body, err := p.Sample(s, testHook, "", "evt-17", testNow)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(mcpSubscription, sub)
		if err := made.Scheme.(bySubscription).Sign(r, body, testNow); err != nil {
			t.Fatal(err)
		}
		if _, id, err := receive(made, r, body, testNow); err != nil || id.Principal != "" {
			t.Errorf("%s, which shares its secret: the principal is %q, %v", sub, id.Principal, err)
		}
	}
	for name, s := range map[string]Settings{
		"both":              {Keys: s.Keys, Secrets: []string{second}},
		"another form":      {Keys: map[string]string{"sub_17": "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}},
		"a public key":      {Secrets: []string{"whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}},
		"an empty one":      {Keys: map[string]string{"sub_17": ""}},
		"neither, as given": {},
	} {
		if made := p.Open(s); made.Err == nil {
			t.Errorf("%s: opens", name)
		}
	}
}
