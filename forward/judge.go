package forward

import "net/http"

// judge maps the status of a whole response to its outcome, as section 9.2 of the draft has it. Redirects
// come here only when they cannot be followed; no status (0) is an outcome that nobody knows (section 9.3).
//
// A 207 tells of several outcomes, none of which we can name, so it is neither accepted nor sent again. What is
// no status of HTTP counts as a failure of the server (RFC 9110 section 15).
func judge(status int) Outcome {
	switch {
	case status == http.StatusMultiStatus:
		return Terminal
	case status >= 200 && status < 300:
		return Accepted
	case status == http.StatusRequestTimeout, status == http.StatusMisdirectedRequest,
		status == http.StatusTooEarly, status == http.StatusTooManyRequests, status < 200, status >= 500:
		return Transient
	}
	return Terminal
}
