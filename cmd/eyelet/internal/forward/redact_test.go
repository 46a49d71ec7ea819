package forward

import (
	"strings"
	"testing"
	"time"
)

func TestURLsAreRedactedToSchemeAndHost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://127.0.0.1:9000":                  "http://127.0.0.1:9000",
		"http://127.0.0.1:9000/":                 "http://127.0.0.1:9000/",
		"http://[::1]:9000/":                     "http://[::1]:9000/",
		"https://hooks.example/services/T0/s3cr": "https://hooks.example/<secret>",
		"https://hooks.example/%2e":              "https://hooks.example/<secret>",
		"https://hooks.example//":                "https://hooks.example/<secret>",
		"https://hooks.example?key=s3cr":         "https://hooks.example/<secret>",
		"https://hooks.example/?s3cr":            "https://hooks.example/<secret>",
		"https://hooks.example/#s3cr":            "https://hooks.example/<secret>",
		"https://u:s3cr@hooks.example/":          "https://<secret>@hooks.example/",
		"https://s3cr@hooks.example/s3cr?a=s3cr": "https://<secret>@hooks.example/<secret>",
		"hooks.example/s3cr":                     "<secret>",
		"mailto:s3cr":                            "<secret>",
		"https://h%zz/s3cr":                      "<secret>",
		"":                                       "<secret>",
	} {
		if got := RedactURL(text); got != want {
			t.Errorf("%q is redacted to %q, want %q", text, got, want)
		}
	}
}

// TestNoErrorHoldsTheTargetsURL: the error of an attempt is stored and shown with a dead letter.
func TestNoErrorHoldsTheTargetsURL(t *testing.T) {
	t.Parallel()
	cut, _ := raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", false)
	reset, _ := raw(t, "", true)
	noise, _ := raw(t, "s3cr\r\n\r\n", false)
	echo, _ := raw(t, "HTTP/1.1 200 OK\r\nPOST /s3cr\r\n\r\n", false)
	coded, _ := raw(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: s3cr\r\n\r\n", false)
	for name, base := range map[string]string{
		"refuses":            plain(t, says(404)).URL,
		"is gone":            plain(t, says(410)).URL,
		"fails":              plain(t, says(500, "Retry-After", "10000000")).URL,
		"moved, unreadable":  plain(t, says(308, "Location", "/s3cr%zz")).URL,
		"moved to elsewhere": plain(t, says(308, "Location", "https://other.example/s3cr")).URL,
		"goes round":         plain(t, says(307, "Location", "/s3cr")).URL,
		"switches":           plain(t, says(101)).URL,
		"is not there":       "http://127.0.0.1:1",
		"has no name":        "http://nobody.invalid",
		"is cut":             cut, "is reset": reset, "makes noise": noise, "echoes": echo, "makes up a coding": coded,
		"speaks no TLS": strings.Replace(cut, "http:", "https:", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := to(t, strings.TrimSuffix(base, "/")+"/s3cr/hook?key=s3cr", func(c *Config) {
				c.Timeout = 10 * time.Second
			})
			for _, id := range []string{"a", "b"} {
				r := deliver(t, target, id)
				if r.Err == nil || strings.Contains(r.Err.Error(), "s3cr") {
					t.Errorf("the error is %v", r.Err)
				}
			}
			if reason := target.cfg.State.get("shop").Reason; strings.Contains(reason, "s3cr") {
				t.Errorf("the reason is %s", reason)
			}
		})
	}
}
