package replay

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// TestAProxyDoesNotSendARecordingToItsOldHost: without TLS a proxy routes by Host, which names the
// original server of a recording.
func TestAProxyDoesNotSendARecordingToItsOldHost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		url, host string
		proxied   bool
	}{
		"recorded host":         {"http://staging.example", "hooks.example", false},
		"recorded host and TLS": {"https://staging.example", "hooks.example", true},
		"the same host":         {"http://hooks.example", "hooks.example", true},
		"no recorded host":      {"http://staging.example", "", true},
	} {
		asked := false
		proxy := proxyByAddress(func(*http.Request) (*url.URL, error) { asked = true; return nil, nil })
		req := httptest.NewRequest(http.MethodPost, tc.url+"/webhooks/shop", nil)
		req.Host = tc.host
		if _, err := proxy(req); err != nil || asked != tc.proxied {
			t.Errorf("%s: the proxy is asked: %t, want %t; %v", name, asked, tc.proxied, err)
		}
	}
}
