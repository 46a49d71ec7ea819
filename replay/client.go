package replay

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// NewClient returns a client for [Options] that is reused for several recordings: it keeps
// connections until CloseIdleConnections, or for a second. A response may take a minute. Proxies
// of the environment are used, except for a recording that is sent without TLS and with the Host
// of another server: a proxy would send it there.
func NewClient() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		Proxy: proxyByAddress(http.ProxyFromEnvironment), DisableCompression: true, ForceAttemptHTTP2: true,
		IdleConnTimeout: time.Second,
	}}
}

// proxyByAddress skips the proxy if it would route by a Host field that differs from the URL.
func proxyByAddress(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme == "http" && r.Host != "" && !strings.EqualFold(r.Host, r.URL.Host) {
			return nil, nil
		}
		return proxy(r)
	}
}

// withoutRedirects returns a client that does not follow redirects.
func withoutRedirects(given *http.Client) *http.Client {
	c := *given
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}
