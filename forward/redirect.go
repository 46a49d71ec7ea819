package forward

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// maxRedirects is how many 307 one attempt follows.
const maxRedirects = 3

// maxLocation bounds a URL that a target names, in bytes.
const maxLocation = 8 << 10

// redirected returns where a 307 or 308 points, when we may go there: an absolute URL of http or https without
// credentials, on the same host or one that the operator allowed, and never from https to http.
func (t *Target) redirected(from *url.URL, header http.Header) (*url.URL, error) {
	lines := header.Values("Location")
	if len(lines) != 1 || lines[0] == "" || len(lines[0]) > maxLocation {
		return nil, errors.New("it names no place to go")
	}
	to, err := from.Parse(lines[0])
	if err != nil || to.Host == "" || to.User != nil || to.Opaque != "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil, errors.New("what it names is no URL of http or https")
	}
	to.Fragment, to.RawFragment = "", ""
	switch {
	case from.Scheme == "https" && to.Scheme == "http":
		return nil, errors.New("it names a URL without TLS")
	case !t.mayGo(from, to):
		return nil, errors.New("it names another host, which is not allowed")
	case to.String() == from.String():
		return nil, errors.New("it names itself")
	}
	return to, nil
}

// mayGo reports whether a redirect from one URL to another stays on the host, or goes to an allowed one. The
// step from http to https may change the port with it.
func (t *Target) mayGo(from, to *url.URL) bool {
	upgrade := from.Scheme == "http" && to.Scheme == "https" && port(from) == "80" && port(to) == "443"
	if strings.EqualFold(from.Hostname(), to.Hostname()) && (port(from) == port(to) || upgrade) {
		return true
	}
	for _, host := range t.cfg.AllowHosts {
		if strings.EqualFold(strings.Trim(host, "[]"), to.Hostname()) || strings.EqualFold(host, net.JoinHostPort(to.Hostname(), port(to))) {
			return true
		}
	}
	return false
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
