package forward

import "net/http"

// Judge maps the status of a whole response to a delivery to its outcome, as section 9.2 of the draft has it. keyed says
// that the request carried an Idempotency-Key. Redirects are judged here only when they are not followed. A status of 0
// means that no whole response came, so that the outcome is unknown (section 9.3).
//
// A 409 to a keyed request is Transient: the delivery draft leaves the processing of the field to the idempotency draft
// (section 9.4), by which another delivery of the event is being answered, and the same request gets that answer later
// (draft-ietf-httpapi-idempotency-key-header-07 section 2.7).
//
// A 207 reports several outcomes, none of which can be told apart here. It is neither accepted nor sent again. What is not a
// status of HTTP counts as a failure of the server (RFC 9110 section 15).
func Judge(status int, keyed bool) Outcome {
	switch {
	case status == http.StatusMultiStatus:
		return Terminal
	case status >= 200 && status < 300:
		return Accepted
	case status == http.StatusConflict && keyed:
		return Transient
	case status == http.StatusRequestTimeout, status == http.StatusMisdirectedRequest,
		status == http.StatusTooEarly, status == http.StatusTooManyRequests, status < 200, status >= 500:
		return Transient
	}
	return Terminal
}
