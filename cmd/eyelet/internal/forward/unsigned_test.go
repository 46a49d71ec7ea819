package forward

import (
	"context"
	"testing"
)

// TestUnsignedFieldsAreNotForwarded: any client can add them to a captured delivery, and targets
// take orders and identities from them.
func TestUnsignedFieldsAreNotForwarded(t *testing.T) {
	t.Parallel()
	f := plain(t, says(200))
	ev := event("1")
	names := []string{
		"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL",
		"X-Original-Host", "X-Host",
		"True-Client-IP", "CF-Connecting-IP", "Fastly-Client-IP", "X-Client-IP", "X-Cluster-Client-IP",
		"X-Amzn-Oidc-Data",
		"X-Amzn-Oidc-Identity", "X-Auth-Request-User", "X-Auth-Request-Email", "X-User", "Remote-User", "X-Remote-User",
		"X-WebAuth-User",
		"X-Goog-Authenticated-User-Email", "X-Ms-Client-Principal", "X-Accel-Redirect", "X-Sendfile", "X-Debug",
		"X-Api-Key", "Range", "If-Match",
	}
	for _, name := range names {
		ev.Header.Set(name, "root")
	}
	want(t, to(t, f.URL, nil).Deliver(context.Background(), ev), Accepted, 200)
	for _, name := range names {
		if got := f.requests()[0].header.Get(name); got != "" {
			t.Errorf("%s was forwarded as %q", name, got)
		}
	}
}
