package forward

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// FuzzRedirect: a redirect stays on its host or names an allowed one, never leaves TLS, and never
// has credentials of its own.
func FuzzRedirect(f *testing.F) {
	for _, seed := range []string{"", "/", "//x", "https://h/", "http://h/", "https://h:443/a?b#c", "https://h@x/",
		"https://h\\@x/", "https://x%2eh/", "?", "https:h", "https://h:99999/", "\thttps://h/"} {
		f.Add(seed)
	}
	target := &Target{cfg: Config{AllowHosts: []string{"allowed:444"}}}
	f.Fuzz(func(t *testing.T, location string) {
		from := &url.URL{Scheme: "https", Host: "h", Path: "/a"}
		to, err := target.redirectTarget(from, http.Header{"Location": {location}})
		if err != nil {
			return
		}
		host := strings.ToLower(to.Hostname()) + ":" + port(to)
		if to.Scheme != "https" || to.User != nil || to.Fragment != "" || host != "h:443" && host != "allowed:444" {
			t.Errorf("%q leads to %v", location, to)
		}
		again, err := url.Parse(to.String()) // as it is stored and parsed
		if err != nil || again.Host != to.Host || again.Scheme != to.Scheme || again.User != nil {
			t.Errorf("%q is stored as %q and parsed as %v (%v)", location, to, again, err)
		}
	})
}
