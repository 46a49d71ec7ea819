package receiver

import (
	"net/http"
	"strconv"
)

// retired reports whether the endpoint has ended.
func (ep *endpoint) retired() bool {
	return !ep.p.Retire.IsZero() && !ep.rx.cfg.Clock().Before(ep.p.Retire)
}

// announce adds to an answer when the endpoint ends (Sunset, RFC 8594 section 3) and since or from when it is
// not to be used (Deprecation, a structured-field Date, RFC 9745 section 2). Both are about the endpoint and no
// part of a stored answer. Once it has ended there is nothing to announce.
func (ep *endpoint) announce(answer *reply) {
	if ep.p.Deprecated.IsZero() || ep.retired() {
		return
	}
	header := answer.header.Clone() // the store and other deliveries may share it
	if header == nil {
		header = http.Header{}
	}
	header.Set("Deprecation", "@"+strconv.FormatInt(ep.p.Deprecated.Unix(), 10))
	if !ep.p.Retire.IsZero() {
		header.Set("Sunset", ep.p.Retire.UTC().Format(http.TimeFormat))
	}
	answer.header = header
}
