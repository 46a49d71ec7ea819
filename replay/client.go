package replay

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// NewClient returns a client for [Options], for several recordings one after another: it keeps its connections,
// until CloseIdleConnections or a second later. An answer may take a minute. Proxies of the environment are used,
// except for a recording that is sent without TLS and with the Host of another server: a proxy would send it to
// that server.
func NewClient() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		Proxy: unlessMisled(http.ProxyFromEnvironment), DisableCompression: true, ForceAttemptHTTP2: true, IdleConnTimeout: time.Second,
	}}
}

// unlessMisled asks for a proxy where it goes by the address and not by the Host field.
func unlessMisled(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme == "http" && r.Host != "" && !strings.EqualFold(r.Host, r.URL.Host) {
			return nil, nil
		}
		return proxy(r)
	}
}

// staying returns a client that follows no redirect.
func staying(given *http.Client) *http.Client {
	c := *given
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}
