// Package publicurl finds the URL that a sender called, behind a proxy with another address.
package publicurl

import (
	"net/url"
	"strings"
)

// Of returns the URL of a request below a public base: its scheme, its host and its path, and then
// path and query of the request. The escaped octets stay as they are: signatures are about them.
func Of(base, called *url.URL) *url.URL {
	public := *called
	public.Scheme, public.Host = base.Scheme, base.Host
	public.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + called.EscapedPath()
	public.Path, _ = url.PathUnescape(public.RawPath) // both parts are valid
	return &public
}
