package producer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/verify"
)

// Defaults of a [Source].
const (
	DefaultEvery = 15 * time.Minute
	DefaultGrace = 10 * time.Minute
)

// Source is an API that lists what the vendor sent, as JSON. Package reconcile compares the list
// with the store and takes in what never came. With Again it asks the vendor to send an event
// again, and what comes is signed; without, the list has the events themselves, whose producer must
// be of [ClassIDSigned] and read nothing but the body. It is off without a Token.
//
// Extractors read an item of the list, or where they say so, a page of it.
type Source struct {
	// Token is sent as a bearer token, or where Header has "{token}".
	Token verify.Secret `conf:"token"`
	// Every is how often the list is compared. Defaults to 15 minutes.
	Every time.Duration `conf:"every"`
	// Types are those that the endpoint subscribes to: exact, or "prefix*". Required without Again.
	Types []string `conf:"types"`
	// Only are further conditions, as EXTRACTOR=VALUE: the mode or the account of the endpoint.
	Only []string `conf:"only"`
	// URL is the first page, in https or on this machine. Required.
	URL string `conf:"url"`
	// Header fields of each request, and Query parameters of the first page. "{since}" is the
	// oldest time in seconds since 1970, "{since:rfc3339}" the same in RFC 3339, and "{types}" each
	// of Types in a parameter of its own, left out if there are more than 20 or one is a prefix.
	Header map[string]string `conf:"header"`
	Query  map[string]string `conf:"query"`
	// Items is the path of the array in a page, as of [JSON]. Defaults to the page.
	Items string `conf:"items"`
	// ID identifies the event, Type and Time describe it. All are required without Again; with it,
	// ID is what the sendings of an event share.
	ID   Extractor `conf:"id"`
	Type Extractor `conf:"type"`
	Time Extractor `conf:"time"`
	// Body is the path of the event in the item. Defaults to the item.
	Body string `conf:"body"`
	// Next reads the URL of the next page from a page. It must have the same origin. Defaults to
	// the field Link (RFC 8288). With Cursor it is the value of that parameter, and defaults to the
	// ID of the last item. There is a next page only if More, if it is set, reads "true".
	Next   Extractor `conf:"next"`
	Cursor string    `conf:"cursor"`
	More   Extractor `conf:"more"`
	// Again is the URL that a POST asks to send an event again, of the same origin: "{url}" is URL,
	// "{sending}" what Sending reads. Status reads the answer to the sending, and Repeat is the
	// EXTRACTOR=VALUE of an item that was sent again. The newest items of such a list come first.
	Again   string    `conf:"again"`
	Sending Extractor `conf:"sending"`
	Status  Extractor `conf:"status"`
	Repeat  string    `conf:"repeat"`
	// Grace is how long an event may be on its way. Defaults to 10 minutes.
	Grace time.Duration `conf:"grace"`
	// Keeps is how long the list keeps an item. Defaults to no limit.
	Keeps time.Duration `conf:"keeps"`
}

// Listed is an item of a [Source].
type Listed struct {
	// ID, Type and Time are those of the event, or of one sending of it.
	ID, Type string
	Time     time.Time
	// Body is the event, perhaps in another rendering or version than a delivery has; nil where the
	// source can only be asked to send it again.
	Body []byte
	// Sending names the sending, Arrived reports whether it was answered 2xx, or 422 if the vendor
	// was asked for it, which Repeated reports.
	Sending           string
	Arrived, Repeated bool
	// From is the host of the source.
	From string
}

// On reports whether there is a source.
func (s *Source) On() bool { return s.Token != "" }

// Asks reports whether the vendor is asked to send events again.
func (s *Source) Asks() bool { return s.Again != "" }

// Host returns the host of the list.
func (s *Source) Host() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// maxListedTypes is how many types Stripe lets a request name.
const maxListedTypes = 20

// First returns the URL of the first page, of items that are not older than since.
func (s *Source) First(since time.Time) (string, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "", errors.New("the URL of the source is not one")
	}
	query := u.Query()
	times := strings.NewReplacer("{since}", strconv.FormatInt(since.Unix(), 10),
		"{since:rfc3339}", since.UTC().Format(time.RFC3339))
	for name, value := range s.Query {
		if value != "{types}" {
			query.Set(name, times.Replace(value))
		} else if !slices.ContainsFunc(s.Types, isPrefix) && len(s.Types) <= maxListedTypes {
			query[name] = s.Types
		}
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

func isPrefix(pattern string) bool { return strings.HasSuffix(pattern, "*") }

// Since reports whether the vendor leaves out what is older. Else the newest items come first.
func (s *Source) Since() bool {
	for _, value := range s.Query {
		if strings.HasPrefix(value, "{since") {
			return true
		}
	}
	return false
}

// Address returns where a POST asks for a sending.
func (s *Source) Address(sending string) string {
	return strings.NewReplacer("{url}", s.URL, "{sending}", url.PathEscape(sending)).Replace(s.Again)
}

// Read returns the items of the page at an address, without those that the endpoint does not
// subscribe to, and the address of the next page, "" at the end. skipped counts the items that have
// no usable identifier or time.
func (s *Source) Read(
	at string, header http.Header, page []byte,
) (items []Listed, next string, skipped int, err error) {
	whole := &Delivery{Request: &http.Request{Header: header, URL: &url.URL{}}, Body: page}
	text, err := whole.JSON()
	if err == nil && s.Items != "" {
		text, err = strictjson.At(text, splitPath(s.Items))
	}
	if err != nil || len(text) == 0 || text[0] != '[' {
		return nil, "", 0, errors.New("the list is not JSON with an array where it should be")
	}
	last := ""
	err = strictjson.EachElement(text, func(value []byte) error {
		d := &Delivery{Request: whole.Request, Body: value}
		it, ok := s.item(d)
		switch last = it.ID; {
		case !ok:
			skipped++
		case s.subscribes(d, it.Type):
			items = append(items, it)
		}
		return nil
	})
	if err == nil {
		next, err = s.next(at, whole, last)
	}
	return items, next, skipped, err
}

func (s *Source) item(d *Delivery) (Listed, bool) {
	read := func(x Extractor) string {
		if x == nil {
			return ""
		}
		value, err := x.Extract(d)
		if err != nil {
			return ""
		}
		return value
	}
	it := Listed{ID: read(s.ID), Type: read(s.Type), Time: parseEventTime(read(s.Time)), From: s.Host(),
		Sending: read(s.Sending)}
	ok := it.ID != "" && !it.Time.IsZero() && it.Time.Year() < 10_000 // as JSON has it
	if s.Asks() {
		status, _ := strconv.Atoi(read(s.Status)) // 0 without an answer
		again, err := parseSelection(s.Repeat)
		it.Repeated = err == nil && again.matches(d)
		it.Arrived = status >= http.StatusOK && status < http.StatusMultipleChoices ||
			it.Repeated && status == http.StatusUnprocessableEntity // the verdict on an event that was read
		return it, ok && it.Sending != ""
	}
	it.Body = d.Body
	if s.Body != "" {
		text, _ := d.JSON()
		it.Body, _ = strictjson.At(text, splitPath(s.Body))
	}
	it.Body = bytes.Clone(it.Body) // the store keeps it
	return it, ok && len(it.Body) > 0
}

// subscribes reports whether the endpoint gets events like that of an item.
func (s *Source) subscribes(d *Delivery, typ string) bool {
	wanted := len(s.Types) == 0 ||
		slices.ContainsFunc(s.Types, func(pattern string) bool { return dedup.MatchType(pattern, typ) })
	return wanted && !slices.ContainsFunc(s.Only, func(text string) bool {
		one, err := parseSelection(text)
		return err != nil || !one.matches(d)
	})
}

// next returns the address of the page after the one at an address.
func (s *Source) next(at string, page *Delivery, last string) (string, error) {
	if s.More != nil {
		if more, err := s.More.Extract(page); err != nil || more != "true" {
			return "", nil //nolint:nilerr // there is none
		}
	}
	value, from := last, s.Next
	if from == nil && s.Cursor == "" {
		from = Link("next")
	}
	if from != nil {
		var err error
		if value, err = from.Extract(page); err != nil {
			return "", errors.New("the list has no usable address of its next page")
		}
	}
	here, err := url.Parse(at)
	if value == "" && s.More != nil {
		return "", errors.New("the list has more, but no way to its next page")
	}
	if err != nil || value == "" {
		return "", nil //nolint:nilerr // which is that of a page that was read
	}
	var next *url.URL
	if s.Cursor != "" {
		query := here.Query()
		query.Set(s.Cursor, value)
		next = &url.URL{Scheme: here.Scheme, Host: here.Host, Path: here.Path, RawPath: here.RawPath,
			RawQuery: query.Encode()}
	} else if next, err = here.Parse(value); err != nil {
		return "", errors.New("the next page of the list has no address")
	}
	if !sameOrigin(here, next) {
		return "", errors.New("the next page of the list has another origin, which must not get the token")
	}
	if next.String() == at {
		return "", errors.New("the next page of the list is the page itself")
	}
	return next.String(), nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host && b.User == nil }

// parseSelection parses EXTRACTOR=VALUE.
func parseSelection(text string) (ping, error) {
	name, value, _ := strings.Cut(text, "=")
	from, err := ParseExtractor(name)
	if err != nil || value == "" {
		return ping{}, fmt.Errorf("%q is not EXTRACTOR=VALUE, as in json:livemode=true", text)
	}
	return ping{from: from, value: value}, nil
}

// onlyBody reports whether an extractor reads the body and nothing else.
func onlyBody(x Extractor) bool {
	return x == nil || !slices.ContainsFunc(x.Consumes(), func(part string) bool { return part != "@body" })
}

func (s Source) withDefaults() Source {
	s.Every, s.Grace = cmp.Or(s.Every, DefaultEvery), cmp.Or(s.Grace, DefaultGrace)
	return s
}

// checkSource adds the mistakes in Source, and why events cannot be fetched.
func checkSource(p *Producer, m *mistakes) {
	s := &p.Source
	if !s.On() {
		return
	}
	wrong := func(is bool, format string, args ...any) { m.addIf(is, "reconcile: "+format, args...) }
	u, err := url.Parse(s.URL)
	wrong(err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" &&
		(u.Scheme != "http" || !isLoopback(u.Hostname())), "url is not an https address; it gets the token")
	wrong(s.ID == nil || s.Time == nil, "the list needs id and time")
	wrong(s.Every < 0 || s.Grace < 0 || s.Keeps < 0, "every, grace and keeps must not be negative")
	wrong(p.Window < 4*(s.Every+s.Grace), "window %s is too short for every %s and grace %s: an event may be "+
		"forgotten before it is found", duration.Format(p.Window), duration.Format(s.Every), duration.Format(s.Grace))
	for _, text := range append(slices.Clone(s.Only), s.Repeat) {
		if _, err := parseSelection(text); err != nil && text != "" {
			wrong(true, "%v", err)
		}
	}
	if s.Asks() {
		wrong(u != nil && u.RawQuery != "", "url has a query, and again begins with url")
		again, err := url.Parse(s.Address("1"))
		wrong(err != nil || u == nil || !sameOrigin(u, again), "again is not of the origin of url")
		wrong(s.Sending == nil || s.Status == nil, "a list that is asked again needs sending and status")
		return
	}
	checkFetch(p, wrong)
}

// checkFetch reports why the identity and the work of an event cannot be computed without its
// delivery.
func checkFetch(p *Producer, wrong func(is bool, format string, args ...any)) {
	refuse := func(is bool, why string) { wrong(is, "events of this producer cannot be fetched: %s", why) }
	s := &p.Source
	wrong(len(s.Types) == 0, `types are those that the endpoint subscribes to; "*" is all`)
	wrong(s.Type == nil, "the list needs type")
	refuse(p.Class() != ClassIDSigned, "their signature does not cover an identifier ("+p.Class().String()+")")
	_, fixed := p.Principal()
	refuse(!fixed, "their principal is known from a signature only")
	refuse(p.Fingerprint != nil && !sameFunc(p.Fingerprint, FingerprintNone), "the body of another delivery must be "+
		"equal, and a fetched one may be rendered otherwise; fingerprint: none compares nothing")
	refuse(p.QueryScope, "the signed query is part of the scope of identifiers")
	refuse(p.Split != nil, "a delivery is a batch")
	refuse(p.Series != nil, "a delivery updates a state")
	refuse(p.Nonce == NonceUnique, "a nonce must be unique, and a fetched event has none")
	refuse(p.Admit != nil || p.Audience != nil, "each delivery is checked for its sender or its audience")
	refuse(p.Key != nil && !onlyBody(p.Key) && slices.Contains(p.Key.Consumes(), "@body"),
		"the key is in the body or elsewhere, and only a delivery shows where")
	fields := slices.DeleteFunc(slices.Clone(p.Reads), func(part string) bool { return part == "@body" })
	refuse(len(fields) > 0, "a handler, a lane or a condition reads "+strings.Join(fields, ", "))
	refuse(!onlyBody(p.EventTime), "event_time is not in the body")
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
