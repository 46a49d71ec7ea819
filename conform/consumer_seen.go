package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strings"
)

// seenChecks look at all responses to well-formed requests.
var seenChecks = map[string]steps{
	"C241": has("Allow", http.StatusMethodNotAllowed),
	"C242": has("Accept-Post or Accept or Accept-Encoding", http.StatusUnsupportedMediaType),
	"C243": seen(func(a *answer) bool { return a.status < 500 }, lacks("Date")),
	"C244": wellFormed("Retry-After", func(value string) bool {
		_, err := http.ParseTime(value)
		return err == nil || strings.Trim(value, "0123456789") == ""
	}),
	"C245": has("Retry-After", http.StatusTooManyRequests),
	"C246": has("Cache-Control: no-store", http.StatusTooManyRequests),
	"C247": seen(func(a *answer) bool { return a.is(http.StatusNoContent) }, func(a *answer) string {
		if a.field("Content-Length") == "" {
			return ""
		}
		return "with Content-Length"
	}),
	"C248": seen(func(a *answer) bool { return a.is(200, 201) && len(a.body) > 0 }, lacks("Content-Type")),
	"C249": seen(func(*answer) bool { return true }, (*answer).redirect),
	"C250": seen(func(a *answer) bool { return a.problem() != nil }, func(a *answer) string {
		if status, ok := a.problem()["status"]; ok && status != float64(a.status) {
			return fmt.Sprintf("the problem says %v", status)
		}
		return ""
	}),
	"C251": has("WWW-Authenticate", http.StatusUnauthorized),
	"C252": func(ctx context.Context, t *run) error {
		return seen(func(a *answer) bool { return a.status >= 400 }, func(a *answer) string {
			for _, secret := range t.p.hidden() {
				if len(secret) >= minSecret && strings.Contains(string(a.body), secret) {
					return "the response has a secret"
				}
			}
			if found := internals.Find(a.body); found != nil {
				return fmt.Sprintf("the response has %q", found)
			}
			return ""
		})(ctx, t)
	},
	"C253": wellFormed("Accept-Signature", func(value string) bool {
		isOfResponse := strings.Contains(value, `"@status"`) || strings.Contains(value, ";req")
		return !isOfResponse && acceptSignature.MatchString(value)
	}),
}

// minSecret is how many characters a secret has that is found in texts: shorter ones are words.
const minSecret = 8

// internals are traces of stacks, paths of source files, and errors of databases.
var internals = regexp.MustCompile(`goroutine \d+ \[|Traceback \(most|\.(?:go|py|rb|js|java|php|cs):\d+|SQLSTATE|` +
	`at [\w.$]+\([\w.]+:\d+\)|(?:postgres|mysql|redis|mongodb)://`)

// acceptSignature is a dictionary of inner lists of strings with parameters.
var acceptSignature = regexp.MustCompile(
	`^(?:(?:^|,\s*)[a-z*][a-z0-9_.*-]*=\((?:\s*"[^"]*"(?:; *[^ ()]+)*)*\s*\)(?:; *[^, ]+)*)+$`)

// has is the run of a check that responses with a status have one of the fields.
func has(fields string, status int) steps {
	return seen(func(a *answer) bool { return a.status == status }, lacks(fields))
}

// lacks says so if a response has none of the fields, or none with its text.
func lacks(fields string) func(*answer) string {
	return func(a *answer) string {
		for field := range strings.SplitSeq(fields, " or ") {
			name, text, _ := strings.Cut(field, ": ")
			if value := a.field(name); value != "" && strings.Contains(value, text) {
				return ""
			}
		}
		return "without " + fields
	}
}

// wellFormed is the run of a check that the value of a field is right.
func wellFormed(name string, isRight func(value string) bool) steps {
	return seen(func(a *answer) bool { return a.field(name) != "" }, func(a *answer) string {
		if isRight(a.field(name)) {
			return ""
		}
		return name + ": " + a.field(name)
	})
}

// redirect says where a response leads, if it is a redirect.
func (a *answer) redirect() string {
	if a.status < 300 || a.status > 399 {
		return ""
	}
	return "to " + a.field("Location")
}

// problem returns the problem of a response (RFC 9457), or nil. A body that is not a JSON object is
// a problem without members.
func (a *answer) problem() map[string]any {
	if kind, _, err := mime.ParseMediaType(a.field("Content-Type")); err != nil || kind != "application/problem+json" {
		return nil
	}
	members := map[string]any{}
	if json.Unmarshal(a.body, &members) != nil {
		return map[string]any{"status": "nothing: it is not a JSON object"}
	}
	return members
}

// seen checks each response to which a rule applies.
func seen(applies func(*answer) bool, fault func(*answer) string) steps {
	return func(ctx context.Context, t *run) error {
		provoke(ctx, t.session)
		found := false
		for _, a := range t.answers() {
			if a.status == 0 || !applies(a) {
				continue
			}
			found = true
			if text := fault(a); text != "" {
				t.note("(a request of another check)", a)
				return wrong("%s %s", a, text)
			}
		}
		if !found {
			return notApplicable("there was no such response")
		}
		return nil
	}
}

// provoke sends what gets the usual responses, for a run in which no other check does.
func provoke(ctx context.Context, s *session) {
	s.provoked.Do(func() {
		t := &run{session: s}
		d := t.delivery()
		t.send(ctx, d)
		t.send(ctx, d.again())
		t.send(ctx, t.conflict(d))
		for _, one := range attemptsOf(t, "usual") {
			t.send(ctx, one.make(t))
		}
	})
}
