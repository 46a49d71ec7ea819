package publicnet

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func TestFetchConnectsToPublicAddressesOnly(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"8.8.8.8": true, "2606:4700:4700::1111": true, "127.0.0.1": false,
		"10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false,
		"169.254.169.254": false, "100.64.0.1": false, "0.0.0.0": false,
		"224.0.0.1": false, "255.255.255.255": false, "192.0.2.1": false,
		"198.18.0.1": false, "::1": false, "::": false, "fe80::1": false,
		"fc00::1": false, "ff02::1": false, "2001:db8::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "64:ff9b::a00:1": false, "2002:7f00:1::": false,
		"::7f00:1": false, "fec0::1": false,
	} {
		if got := isPublic(netip.MustParseAddr(address)); got != ok {
			t.Errorf("%s: public %v", address, got)
		}
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	if _, err := Fetch(t.Context(), server.URL); err == nil ||
		!strings.Contains(err.Error(), "inside a network") {
		t.Errorf("loopback: %v", err)
	}
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Fetch(t.Context(), "https://localhost:"+port+"/"); err == nil ||
		!strings.Contains(err.Error(), "inside a network") {
		t.Errorf("a name that resolves to loopback: %v", err)
	}
	if _, err := Fetch(t.Context(), "http://8.8.8.8/"); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("plain http: %v", err)
	}
}

func TestFetchIsBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			_, _ = w.Write([]byte("text"))
		case "/full":
			_, _ = w.Write(make([]byte, maxBytes))
		case "/large":
			_, _ = w.Write(make([]byte, maxBytes+1))
		case "/away":
			http.Redirect(w, r, "/good?token=abc", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for path, ok := range map[string]bool{"/good": true, "/full": true,
		"/large": false, "/away": false, "/missing": false} {
		text, err := fetchWith(t.Context(), server.URL+path+"?token=abc", server.Client().Transport)
		if (err == nil) != ok || ok && len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", path, len(text), err)
		}
		if err != nil && strings.Contains(err.Error(), "abc") {
			t.Errorf("%s: the error shows the query: %v", path, err)
		}
	}
	server.Close()
	if _, err := fetchWith(t.Context(), server.URL+"/good?token=abc", server.Client().Transport); err == nil ||
		strings.Contains(err.Error(), "abc") {
		t.Errorf("without a server: %v", err)
	}
}
