package forward

import (
	"context"
	"net/http"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// TestUnverifiedEventsHaveNoCredentialsAndNoEffectOnTheTarget forwards events that verified ones
// follow.
func TestUnverifiedEventsHaveNoCredentialsAndNoEffectOnTheTarget(t *testing.T) {
	t.Parallel()
	f := plain(t, says(404), says(404), says(410), says(308, "Location", "/moved"), says(401), says(200))
	address := "http://user:password@" + f.Listener.Addr().String() + "/hook"
	target := to(t, address, func(c *Config) {
		c.TerminalLimit = 2
		c.Credentials = func(context.Context, bool) (Credentials, error) {
			key := &verify.Signer{KeyID: "k1", Secret: []byte("0123456789abcdef0123")}
			return Credentials{Signer: key, Authorization: "Bearer token"}, nil
		}
	})
	if err := CheckFields([]string{"Eyelet-Verified"}); err == nil {
		t.Error("the field of a client may be forwarded")
	}
	for i, outcome := range []Outcome{Terminal, Terminal, Terminal, Transient, Terminal} {
		ev := event(string(rune('a' + i)))
		ev.Unverified = true
		ev.Header["Eyelet-Verified"] = []string{"yes"}
		ev.Signed = []string{"eyelet-verified"}
		if r := target.Deliver(t.Context(), ev); r.Outcome != outcome {
			t.Errorf("event %d: %v, %v", i, r.Outcome, r.Err)
		}
	}
	want(t, deliver(t, target, "real"), Accepted, http.StatusOK)
	all := f.requests()
	for i, r := range all {
		last := i == len(all)-1
		secret := r.header.Get("Authorization") != "" && r.header.Get("Signature") != ""
		if verified := r.header.Get("Eyelet-Verified"); r.path != "/hook" || last != secret ||
			!last && (verified != "no" || r.header.Get("Authorization")+r.header.Get("Signature") != "") ||
			last && verified != "" {
			t.Errorf("request %d to %s: %v", i, r.path, r.header)
		}
	}
	if len(all) != 6 {
		t.Errorf("%d requests", len(all))
	}
}
