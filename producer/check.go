package producer

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/verify"
)

// validName restricts names, which are path segments, parts of keys and labels of metrics.
var validName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}$`)

// Check returns every mistake in the producer with its defaults. It uses neither network nor clock.
func (p *Producer) Check() []error {
	d, m := p.WithDefaults(), &mistakes{name: p.Name}
	if p.Echo != nil {
		own := p.Challenge != nil || p.UnsignedChallenge != nil || p.Handshake != nil
		m.addIf(own, "the preset has a handshake of its own, so a challenge cannot be set")
		m.add(p.Echo.check())
	}
	d.checkIdentity(m)
	d.checkWindow(m)
	d.checkAnswers(m)
	d.checkRequests(m)
	checkPings(p, m)
	checkSummary(p, m)
	d.checkAmbiguous(m)
	checkSource(&d, m)
	d.checkMonitored(m)
	d.Tenants.check(&d, m)
	m.add(d.Err)
	return m.found
}

// CheckError is a mistake in the description of a producer.
type CheckError struct {
	Producer string // its name
	Err      error
}

// Error returns the mistake after the name of the producer.
func (e *CheckError) Error() string { return fmt.Sprintf("producer %q: %v", e.Producer, e.Err) }

// Unwrap returns Err.
func (e *CheckError) Unwrap() error { return e.Err }

// mistakes are the mistakes of the producer of that name.
type mistakes struct {
	name  string
	found []error
}

// add adds the parts of errors.Join, because each mistake gets the prefix.
func (m *mistakes) add(err error) {
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the outermost join only
		for _, one := range many.Unwrap() {
			m.add(one)
		}
	} else if err != nil {
		m.found = append(m.found, &CheckError{m.name, err})
	}
}

func (m *mistakes) addIf(wrong bool, format string, args ...any) {
	if wrong {
		m.add(fmt.Errorf(format, args...))
	}
}

// Warnings describes what is allowed but not recommended.
func (p *Producer) Warnings() []string {
	d := p.WithDefaults()
	var found []string
	warn := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("producer %q: ", d.Name)+fmt.Sprintf(format, args...))
	}
	if d.Window < DefaultWindow && d.Series == nil {
		warn("window %s is shorter than a day, and many senders retry for a day: a late retry is a new event",
			duration.Format(d.Window))
	}
	if d.Scheme == nil {
		warn("only addresses authenticate deliveries")
	}
	eachScheme(d.Scheme, func(s interface {
		verify.Scheme
		ShortSecrets() []string
	}) {
		for _, text := range s.ShortSecrets() {
			warn("%s", text)
		}
	})
	if d.Preset == "" && d.Class() == ClassContentSigned {
		warn("its signature covers neither id nor time: the same bytes under another id are either another event " +
			"or a replay (same_signed decides)")
	}
	if d.KeyRequired && d.claimLost() {
		warn("no delivery has its key %s, and all are refused: one of two schemes has no such claim", d.Key)
	}
	return found
}

// claimLost reports whether the identifier is a claim that only one of two schemes reads.
func (p *Producer) claimLost() bool {
	either, ok := p.Scheme.(verify.Any)
	_, claim := p.Key.(jwtClaim)
	return ok && claim && slices.ContainsFunc(either[:], func(s verify.Scheme) bool {
		_, token := s.(*verify.JWT)
		return !token
	})
}

// SharedSecrets describes producers with a secret or public key of another one, where the
// signature does not cover the URL: a captured delivery of one endpoint then verifies at the other
// one too. It compares bytes, however they are written, and fetches no keys.
func SharedSecrets(producers []Producer) (found []string) {
	offline, cancel := context.WithCancel(context.Background())
	cancel()
	first := map[string]*Producer{}
	for i := range producers {
		p := &producers[i]
		var with []*Producer
		for _, offer := range offersBesideURL(offline, p.Scheme) {
			credential, what := offer.Fingerprint(), "secret"
			if offer.Key != nil && offer.Key.Public() != nil {
				what = "public key"
			}
			other := first[credential]
			named := other != nil && other.Audience != nil && p.Audience != nil && p.Audience.excludes(other.Audience)
			if other == nil && credential != "" {
				first[credential] = p
			} else if other != nil && other != p && !slices.Contains(with, other) && !named {
				with = append(with, other)
				found = append(found, fmt.Sprintf("producers %q and %q share a %s, and their signatures do not "+
					"cover the URL: a captured delivery of one runs at the other too; give each a %s of its own",
					other.Name, p.Name, what, what))
			}
		}
		if p.Audience != nil && !p.solely {
			found = append(found, fmt.Sprintf("producer %q has an audience, and its signatures must cover host and "+
				"path all the same: another producer may accept the same deliveries, or it does not sign with RFC 9421",
				p.Name))
		}
	}
	return found
}

// offersBesideURL returns the credentials of a scheme whose signatures do not cover the URL. Each
// of verify.Any is a scheme of its own.
func offersBesideURL(ctx context.Context, s verify.Scheme) []verify.Offer {
	if either, ok := s.(verify.Any); ok {
		return append(offersBesideURL(ctx, either[0]), offersBesideURL(ctx, either[1])...)
	}
	scheme, ok := s.(verify.Alternator)
	if binder, binds := s.(verify.Binder); !ok || binds && bindsURL(binder.Binds()) {
		return nil
	}
	return scheme.Offers(ctx)
}

// bindsURL reports whether every signature covers the path of the URL, which names the endpoint.
func bindsURL(b verify.Binding) bool {
	return verify.Identity{Covered: b.Covered}.Covers("@path")
}

func (p *Producer) checkIdentity(m *mistakes) {
	m.addIf(!validName.MatchString(p.Name), `a name is 1 to 63 letters, digits, "-", "_" and ".", not "." first`)
	m.addIf(p.Scheme == nil && len(p.AllowedIPs) == 0 && p.Err == nil,
		"no scheme verifies deliveries; set one, or allowed addresses")
	if scheme, ok := p.Scheme.(interface{ Check() error }); ok && p.Err == nil {
		m.add(scheme.Check())
	}
	m.addIf(p.Audience != nil && (p.Audience.From == nil || p.Audience.Is == ""), "an audience needs from and is")
	m.addIf(p.Audience != nil && p.Handshake != nil, "a handshake names no audience")
	if p.Audience != nil && p.Audience.From != nil {
		_, form := p.Audience.From.(formMember)
		m.addIf(!form && len(p.Audience.From.Consumes()) != 1, "an audience is one signed field, member or parameter, "+
			"and not %s", p.Audience.From)
	}
	m.addIf(p.Key == nil && p.Split == nil, "no key extractor; digest:body is one for senders without identifiers")
	for _, prefix := range p.AllowedIPs {
		m.addIf(!prefix.IsValid(), "an allowed address is not valid")
	}
}

func (p *Producer) checkWindow(m *mistakes) {
	past, future := p.Tolerance.Past, p.Tolerance.Future
	negative := p.Window < 0 || past < 0 || future < 0
	m.addIf(negative, "window and tolerance must not be negative")
	m.addIf(p.ExpectEvery < 0, "ExpectEvery must not be negative")
	// A replay must fail verification before its record is deleted. Subtract: a sum could overflow.
	m.addIf(!negative && (past > p.Window || future > p.Window-past),
		"window %s is shorter than the tolerance (%s back, %s ahead): a replay would outlive its record",
		duration.Format(p.Window), formatLimit(past), formatLimit(future))
}

func formatLimit(d time.Duration) string {
	if d == verify.NoLimit {
		return "without limit"
	}
	return duration.Format(d)
}

func (p *Producer) checkAnswers(m *mistakes) {
	m.addIf(p.Contract != API && p.Contract != Webhook, "contract %d is not known", p.Contract)
	s := p.Accepted.Status
	m.addIf(s < 200 || s > 299 || s == http.StatusMultiStatus || s == http.StatusPartialContent,
		"status %d does not mean that an event is accepted; want 200 to 204", s)
	inFlight := []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	m.addIf(!slices.Contains(inFlight, p.InFlight), "in-flight status %d; want 409, 429 or 503", p.InFlight)
	p.checkSameSigned(m)
	m.addIf(!p.Retire.IsZero() && p.Deprecated.After(p.Retire), // RFC 9745 section 4
		"the endpoint is deprecated after it is retired")
	m.addIf(p.Nonce < NonceOff || p.Nonce > NonceUnique, "nonce policy %d is not known", p.Nonce)
	m.addIf(p.NonceRate.Limits() && p.Nonce == NonceOff, "a rate of nonces, which are ignored")
}

func (p *Producer) checkSameSigned(m *mistakes) {
	m.addIf(p.SameSigned < SameSignedDefault || p.SameSigned > SameSignedRun,
		"same-signed policy %d is not known", p.SameSigned)
	quarantines := p.SameSigned == SameSignedQuarantine
	for typ, s := range p.SameSignedTypes {
		m.addIf(s < SameSignedQuarantine || s > SameSignedRun,
			"same-signed policy of type %q: want quarantine, refuse or run", typ)
		quarantines = quarantines || s == SameSignedQuarantine
	}
	m.addIf(quarantines && p.Contract == API, "same-signed policy quarantine: under the API contract a 2xx means "+
		"that the event is processed; use refuse, run or off")
	m.addIf(p.SameSignedMax < 0, "the number of occurrences must not be negative")
}

func (p *Producer) checkRequests(m *mistakes) {
	m.addIf(p.MaxBody < 0, "the body limit must not be negative")
	m.addIf(p.FormMember != "" && (p.Payload != nil || p.Split != nil), "a form member cannot go with batches or "+
		"another payload")
	m.addIf(p.Concurrency < 0, "concurrency must not be negative")
	m.add(p.Rate.Check())
	m.add(p.NonceRate.Check())
	allowed := []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodGet, http.MethodDelete}
	m.addIf(p.SignedContent < SignedEither || p.SignedContent > SignedDecoded, "signed content %d is not known",
		p.SignedContent)
	eachScheme(p.Scheme, func(*verify.RFC9421) {
		m.addIf(p.SignedContent == SignedDecoded, "signed: decoded is not for rfc9421, whose Content-Digest is of the "+
			"coded body (RFC 9530); leave it out")
	})
	for _, method := range p.Methods {
		m.addIf(!slices.Contains(allowed, method), "method %q cannot carry a delivery", method)
	}
	for _, kind := range p.MediaTypes {
		_, _, err := mime.ParseMediaType(kind)
		m.addIf(err != nil || !strings.Contains(kind, "/"), "%q is not a media type", kind)
	}
	for _, name := range p.SecretHeaders {
		m.addIf(!verify.IsToken(name), "%q is not a field name", name)
	}
	u, err := url.Parse(p.URL)
	m.addIf(p.URL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" ||
		u.User != nil || u.Fragment != ""), "url is not absolute, as in https://hooks.example.com/webhooks/shop")
}

// checkAmbiguous refuses two settings for signed content whose parts have no boundaries: a
// query in the signed URL, and trust in identifiers other than the digest of the content.
func (p *Producer) checkAmbiguous(m *mistakes) {
	u, err := url.Parse(p.URL)
	hasQuery := err == nil && u.RawQuery != ""
	eachScheme(p.Scheme, func(h *verify.HMAC) {
		ambiguous := h.Ambiguous()
		m.addIf(hasQuery && slices.Contains(ambiguous, "url"), "url has a query, which the signature does not "+
			"separate from the body: set signed_url, as it was registered")
		m.addIf(len(ambiguous) > 0 && p.SameSigned == SameSignedOff, "same_signed: off is not for this producer: its "+
			"signature does not separate the parts of a delivery, and only the digest of the signed content "+
			"detects moved bytes")
	})
}

// checkMonitored refuses unverified deliveries where the proof names the principal.
func (p *Producer) checkMonitored(m *mistakes) {
	if p.MonitorUntil.IsZero() {
		return
	}
	m.addIf(p.Tenants.On(), "monitor_until: which tenant sent a delivery that does not verify is unknown")
	m.addIf(p.Scheme == nil, "monitor_until: nothing is verified, so nothing could fail to verify: leave it out")
	if scheme, ok := p.Scheme.(verify.Binder); ok {
		b := scheme.Binds()
		named := func(name string) bool { return name != "" }
		m.addIf(slices.ContainsFunc(b.Principals, named) || slices.ContainsFunc(b.Unused, named), "monitor_until: "+
			"its signatures prove who sent a delivery (principals, agents), which one that does not verify leaves open")
	}
}
