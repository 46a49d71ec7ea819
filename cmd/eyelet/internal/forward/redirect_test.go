package forward

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestA308ChangesTheStoredTarget is row R173: the next attempt uses the new URL, in this process
// and after a restart, and the configured URL is not changed.
func TestA308ChangesTheStoredTarget(t *testing.T) {
	t.Parallel()
	f := plain(t, says(308, "Location", "/new?a=b#part"), says(200))
	file := stateFileOf(t)
	target := opened(t, f.URL+"/old", file, nil)
	want(t, deliver(t, target, "1"), Transient, 308)
	want(t, deliver(t, target, "1"), Accepted, 200)
	want(t, deliver(t, opened(t, f.URL+"/old", file, nil), "2"), Accepted, 200)
	// another configured URL drops the redirect
	want(t, deliver(t, opened(t, f.URL+"/other", file, nil), "3"), Accepted, 200)
	want(t, deliver(t, opened(t, f.URL+"/old", file, nil), "4"), Accepted, 200)
	if got := f.paths(); got != "/old /new?a=b /new?a=b /other /new?a=b" {
		t.Errorf("requests went to %s", got)
	}
	if r := f.requests(); r[0].key != r[1].key || r[0].body != r[1].body || r[1].method != http.MethodPost {
		t.Errorf("requests are %+v", r[:2])
	}
}

// TestA307IsNeverStored is row R173: it is followed for one attempt, with method, body and key.
func TestA307IsNeverStored(t *testing.T) {
	t.Parallel()
	f := plain(t, says(307, "Location", "/now"), says(200), says(307, "Location", "/now"),
		says(308, "Location", "/for-good"), says(200), says(200))
	file := stateFileOf(t)
	target := opened(t, f.URL+"/old", file, nil)
	want(t, deliver(t, target, "1"), Accepted, 200)
	want(t, deliver(t, target, "2"), Accepted, 200) // a 308 after a 307 is not about our target
	want(t, deliver(t, target, "3"), Accepted, 200)
	if got := f.paths(); got != "/old /now /old /now /for-good /old" {
		t.Errorf("requests went to %s", got)
	}
	for _, r := range f.requests()[:2] {
		if r.method != http.MethodPost || r.body != `{"id":"1"}` || r.key != `"1"` {
			t.Errorf("request is %+v", r)
		}
	}
	if target.cfg.State.get("shop").Moved != "" {
		t.Error("a 307 is stored")
	}
}

func TestALoopOf307Ends(t *testing.T) {
	t.Parallel()
	f := plain(t, says(307, "Location", "/a"), says(307, "Location", "/b"), says(307, "Location", "/a"),
		says(307, "Location", "/b"), says(200))
	want(t, deliver(t, to(t, f.URL+"/b", nil), "1"), Terminal, 307)
	if n := len(f.requests()); n != 1+maxRedirects {
		t.Errorf("%d requests", n)
	}
}

// TestOtherRedirectsAreNotFollowed is row R173.
func TestOtherRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{300, 301, 302, 303, 304, 305, 306, 309} {
		f := plain(t, says(status, "Location", "/new"), says(200))
		want(t, deliver(t, to(t, f.URL+"/old", nil), "1"), Terminal, status)
		if got := f.paths(); got != "/old" {
			t.Errorf("%d: requests went to %s", status, got)
		}
	}
}

// TestARedirectStaysOnItsHostUnlessAllowed is row R173, for both kinds.
func TestARedirectStaysOnItsHostUnlessAllowed(t *testing.T) {
	t.Parallel()
	other := plain(t, says(200))
	host := strings.TrimPrefix(other.URL, "http://")
	for _, status := range []int{307, 308} {
		f := plain(t, says(status, "Location", other.URL+"/there"))
		want(t, deliver(t, to(t, f.URL, nil), "1"), Terminal, status)
		if n := len(other.requests()); n != 0 {
			t.Fatalf("%d: %d requests went to another port", status, n)
		}
	}
	f := plain(t, says(308, "Location", other.URL+"/there"))
	file := stateFileOf(t)
	allow := func(c *Config) { c.AllowHosts = []string{host} }
	target := opened(t, f.URL, file, allow)
	want(t, deliver(t, target, "1"), Transient, 308)
	want(t, deliver(t, target, "1"), Accepted, 200)
	// Removing the host from AllowHosts removes the redirect.
	want(t, deliver(t, opened(t, f.URL, file, nil), "2"), Terminal, 308)
	if got := other.paths(); got != "/there" {
		t.Errorf("requests went to %s", got)
	}
}

func TestAllowedRedirects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from, location, want string
		allow                []string
	}{
		{"http://h/a", "/b", "http://h/b", nil},
		{"http://h/a", "b?c", "http://h/b?c", nil},
		{"http://h/a", "http://H:80/b#x", "http://H:80/b", nil},
		{"http://h/a", "https://h/a", "https://h/a", nil},
		{"https://h/a", "http://h/b", "", nil},
		{"https://h/a", "http://h/b", "", []string{"h"}},
		{"https://h/a", "https://h:8443/b", "", nil},
		{"https://h/a", "https://h:8443/b", "https://h:8443/b", []string{"h:8443"}},
		{"https://h/a", "https://x/b", "https://x/b", []string{"x"}},
		{"https://h/a", "https://x:8443/b", "https://x:8443/b", []string{"X"}},
		{"https://h/a", "https://x/b", "", []string{"x:8443"}},
		{"https://h/a", "https://[::1]/b", "https://[::1]/b", []string{"[::1]"}},
		{"http://h:8080/a", "https://h/a", "", nil},
		{"https://h/a", "https://user:pw@h/b", "", nil},
		{"https://h/a", "//h/b", "https://h/b", nil},
		{"https://h/a", "//evil/b", "", nil},
		{"https://h/a", "https://h.evil/b", "", nil},
		{"https://h/a", "ftp://h/b", "", nil},
		{"https://h/a", "javascript:alert(1)", "", nil},
		{"https://h/a", "https://h/a", "", nil},
		{"https://h/a", "", "", nil},
		{"https://h/a", "https://h/%zz", "", nil},
		{"https://h/a", "/" + strings.Repeat("x", maxLocation), "", nil},
	} {
		from, err := url.Parse(tt.from)
		check(t, err)
		target := &Target{cfg: Config{AllowHosts: tt.allow}}
		got, err := target.redirectTarget(from, http.Header{"Location": {tt.location}})
		if tt.want == "" {
			if err == nil {
				t.Errorf("%s to %s (%v) is %v", tt.from, tt.location, tt.allow, got)
			}
			continue
		}
		if err != nil || got.String() != tt.want {
			t.Errorf("%s to %s (%v) is %v (%v)", tt.from, tt.location, tt.allow, got, err)
		}
	}
	if _, err := (&Target{}).redirectTarget(&url.URL{Scheme: "http", Host: "h"},
		http.Header{"Location": {"/a", "/b"}}); err == nil {
		t.Error("one of two Location fields is chosen")
	}
}
