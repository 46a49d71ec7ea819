package producer

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// validName restricts names, which are path segments, parts of keys and labels of metrics.
var validName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}$`)

// Check returns every mistake in the producer with its defaults. It uses neither network nor clock.
func (p *Producer) Check() []error {
	d := p.WithDefaults()
	errs := []error{d.checkIdentity(), d.checkWindow(), d.checkAnswers(), d.checkRequests(), d.checkCoverage(), d.Err}
	var found []error
	for _, err := range errs {
		found = append(found, flatten(err)...)
	}
	for i, err := range found {
		found[i] = fmt.Errorf("producer %q: %w", p.Name, err)
	}
	return found
}

// flatten returns the parts of errors.Join, because each mistake gets the prefix.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the outermost join only
		var all []error
		for _, one := range many.Unwrap() {
			all = append(all, flatten(one)...)
		}
		return all
	}
	return []error{err}
}

// Warnings describes what is allowed but not recommended.
func (p *Producer) Warnings() []string {
	d := p.WithDefaults()
	var found []string
	warn := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("producer %q: ", d.Name)+fmt.Sprintf(format, args...))
	}
	if d.Window < DefaultWindow && d.Series == nil {
		warn("window %v is shorter than a day, and many senders retry for a day: a late retry is a new event", d.Window)
	}
	if d.Scheme == nil {
		warn("only addresses authenticate deliveries")
	}
	if d.Preset == "" && d.Class() == ClassContentSigned {
		warn("its signature covers neither id nor time: the same bytes under another id are either another event " +
			"or a replay (same_signed decides)")
	}
	return found
}

func (p *Producer) checkIdentity() error {
	var errs []error
	if !validName.MatchString(p.Name) {
		errs = append(errs, errors.New(`a name is 1 to 63 letters, digits, "-", "_" and ".", not "." first`))
	}
	if p.Scheme == nil && len(p.AllowedIPs) == 0 && p.Err == nil {
		errs = append(errs, errors.New("no scheme verifies deliveries; set one, or allowed addresses"))
	}
	if scheme, ok := p.Scheme.(interface{ Check() error }); ok && p.Err == nil {
		errs = append(errs, scheme.Check())
	}
	if p.Key == nil && p.Split == nil {
		errs = append(errs, errors.New("no key extractor; digest:body is one for senders without identifiers"))
	}
	for _, prefix := range p.AllowedIPs {
		if !prefix.IsValid() {
			errs = append(errs, errors.New("an allowed address is not valid"))
		}
	}
	return errors.Join(errs...)
}

func (p *Producer) checkWindow() error {
	if p.Window < 0 || p.Tolerance.Past < 0 || p.Tolerance.Future < 0 {
		return errors.New("window and tolerance must not be negative")
	}
	// A replay must fail verification before its record is deleted. Subtract, because a sum
	// could overflow.
	if p.Tolerance.Past > p.Window || p.Tolerance.Future > p.Window-p.Tolerance.Past {
		past, future := formatLimit(p.Tolerance.Past), formatLimit(p.Tolerance.Future)
		return fmt.Errorf("window %v is shorter than the tolerance (%s back, %s ahead): "+
			"a replay would outlive its record",
			p.Window, past, future)
	}
	return nil
}

func formatLimit(d time.Duration) string {
	if d == verify.NoLimit {
		return "without limit"
	}
	return d.String()
}

func (p *Producer) checkAnswers() error {
	var errs []error
	if p.Contract != API && p.Contract != Webhook {
		errs = append(errs, fmt.Errorf("contract %d is not known", p.Contract))
	}
	if s := p.Accepted.Status; s < 200 || s > 299 || s == http.StatusMultiStatus || s == http.StatusPartialContent {
		errs = append(errs, fmt.Errorf("status %d does not mean that an event is accepted; want 200 to 204", s))
	}
	switch p.InFlight {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable:
	default:
		errs = append(errs, fmt.Errorf("in-flight status %d; want 409, 429 or 503", p.InFlight))
	}
	errs = append(errs, p.checkSameSigned())
	if !p.Retire.IsZero() && p.Deprecated.After(p.Retire) { // RFC 9745 section 4
		errs = append(errs, errors.New("the endpoint is deprecated after it is retired"))
	}
	if p.Nonce < NonceOff || p.Nonce > NonceUnique {
		errs = append(errs, fmt.Errorf("nonce policy %d is not known", p.Nonce))
	}
	return errors.Join(errs...)
}

func (p *Producer) checkSameSigned() error {
	var errs []error
	if p.SameSigned < SameSignedDefault || p.SameSigned > SameSignedRun {
		errs = append(errs, fmt.Errorf("same-signed policy %d is not known", p.SameSigned))
	}
	quarantines := p.SameSigned == SameSignedQuarantine
	for typ, s := range p.SameSignedTypes {
		if s < SameSignedQuarantine || s > SameSignedRun {
			errs = append(errs, fmt.Errorf("same-signed policy of type %q: want aside, refuse or run", typ))
		}
		quarantines = quarantines || s == SameSignedQuarantine
	}
	if quarantines && p.Contract == API {
		errs = append(errs, errors.New("same-signed policy aside: under the API contract a 2xx means "+
			"that the event is processed; use refuse, run or off"))
	}
	if p.SameSignedMax < 0 {
		errs = append(errs, errors.New("the number of occurrences must not be negative"))
	}
	return errors.Join(errs...)
}

func (p *Producer) checkRequests() error {
	var errs []error
	if p.MaxBody < 0 {
		errs = append(errs, errors.New("the body limit must not be negative"))
	}
	if p.Concurrency < 0 {
		errs = append(errs, errors.New("concurrency must not be negative"))
	}
	errs = append(errs, p.Rate.check())
	for _, method := range p.Methods {
		switch method {
		case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodGet, http.MethodDelete:
		default:
			errs = append(errs, fmt.Errorf("method %q cannot carry a delivery", method))
		}
	}
	for _, kind := range p.MediaTypes {
		if _, _, err := mime.ParseMediaType(kind); err != nil || !strings.Contains(kind, "/") {
			errs = append(errs, fmt.Errorf("%q is not a media type", kind))
		}
	}
	for _, name := range p.SecretHeaders {
		if !verify.IsToken(name) {
			errs = append(errs, fmt.Errorf("%q is not a field name", name))
		}
	}
	return errors.Join(append(errs, checkURL(p.URL), p.checkAmbiguous())...)
}

// checkAmbiguous refuses two settings for signed content whose parts have no boundaries: a
// query in the signed URL, and trust in identifiers other than the digest of the content.
func (p *Producer) checkAmbiguous() error {
	u, err := url.Parse(p.URL)
	hasQuery := err == nil && u.RawQuery != ""
	var errs []error
	mapScheme(p.Scheme, func(s verify.Scheme) verify.Scheme {
		h, ok := s.(*verify.HMAC)
		if !ok {
			return s
		}
		ambiguous := h.Ambiguous()
		if hasQuery && slices.Contains(ambiguous, "url") {
			errs = append(errs, errors.New("url has a query, which the signature does not separate from the body: "+
				"set notification_url, as it was registered"))
		}
		if len(ambiguous) > 0 && p.SameSigned == SameSignedOff {
			errs = append(errs, errors.New("same_signed: off is not for this producer: its signature does not "+
				"separate the parts of a delivery, and only the digest of the signed content detects moved bytes"))
		}
		return s
	})
	return errors.Join(errs...)
}

func checkURL(raw string) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errors.New("url is not absolute, as in https://hooks.example.com/webhooks/shop")
	}
	return nil
}

// checkCoverage refuses an exact coverage that does not cover what identifies the event.
func (p *Producer) checkCoverage() error {
	var uncovered []string
	mapScheme(p.Scheme, func(s verify.Scheme) verify.Scheme {
		scheme, ok := s.(*verify.RFC9421)
		if !ok || len(scheme.Coverage.Exactly) == 0 {
			return s
		}
		bound := verify.Identity{Covered: slices.Clone(scheme.Coverage.Exactly)}
		if bound.Covers("content-digest") {
			bound.Covered = append(bound.Covered, "@body")
		}
		for _, part := range p.consumed() {
			if !bound.Covers(part) {
				uncovered = append(uncovered, part)
			}
		}
		return s
	})
	if len(uncovered) == 0 {
		return nil
	}
	return fmt.Errorf("the coverage leaves out %s, from which the key or the type is read: an attacker could change it",
		strings.Join(uncovered, ", "))
}
