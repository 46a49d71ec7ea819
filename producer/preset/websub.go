package preset

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Subscription is a wanted WebSub topic.
type Subscription struct {
	// Topic is the URL of the feed, as the hub writes it.
	Topic string `conf:"topic"`
	// Mode is the requested mode: "subscribe" or "unsubscribe". Defaults to subscribe.
	Mode string `conf:"mode"`
	// Secret is the hub.secret of the subscription. Required unless the producer lists its
	// allowed addresses: a hub without a secret signs nothing. Give every topic its own: with a
	// shared secret the hub of one topic can send for the other.
	Secret string `conf:"secret,secret"`
	// Token is the capability in the callback's query
	// (hub.callback=https://HOST/webhooks/NAME?token=TOKEN), known to the hub of the
	// subscription only: at least 16 unguessable letters, digits, "-", "_", "." and "~". A
	// check without it is not confirmed. A subscription without a token is pending, and
	// confirmed to any hub, during the first hour after the start.
	Token string `conf:"token,secret"`
}

// webSub receives the content that WebSub hubs distribute for the subscriptions, and confirms them
// to the hub that asks (WebSub section 5.3). It confirms a check that has the topic's token in its
// query and asks for the configured mode; other checks get 404. The hub got the token with the
// callback (the capability URL of section 5.1). Without a token anyone could have a hub subscribe
// the callback under another secret, so such a subscription is confirmed during the first hour
// after the start only. Renewals of the lease are confirmed in the same way.
//
// Deliveries are signed with the secret of their topic. The topic is the target of the Link
// with rel="self"; it is the principal and the event type. A topic without a secret is
// authenticated by the allowed addresses, and by its token if it has one.
//
// Content has no id; a digest of the body identifies it within its topic. It is a state: equal
// content is a duplicate while it is the newest of its topic, or during the window of one hour.
// Content that a topic returns to within the window is quarantined. Unlisted topics, which a
// common secret allows, share one principal, because that secret does not cover the Link; their
// content is a duplicate during the window.
//
// All hashes of the specification are accepted, including SHA-1, which many hubs still send;
// the setting algs restricts them. A bad signature gets 401 and is never handled; the
// specification also allows 2xx. How long a hub retries is up to the hub.
//
// https://www.w3.org/TR/websub/
var webSub = Preset{
	Name: "websub", Docs: "https://www.w3.org/TR/websub/", Auth: "HMAC of the body", ID: "digest of the body",
	Wants: "2xx; up to the hub", Uses: []string{"secret", "subscriptions", "alg"},
	like: producer.Producer{Fields: []string{"Link", "X-Hub-Signature"}}, build: buildWebSub,
}

const (
	webSubToken   = "token"   // the query parameter of the callback that holds the capability
	webSubPending = time.Hour // how long after the start a subscription without a token is confirmed
)

func buildWebSub(p *producer.Producer, s Settings) {
	s = s.withCommonSecrets()
	p.Scheme, p.Err = newTopics(s)
	p.Key = producer.BodyDigest()
	p.Type = producer.Link("self")
	start := time.Now()
	p.Challenge = func(r *http.Request) (*dedup.Response, error) {
		return webSubChallenge(r, s.Subscriptions, time.Since(start) < webSubPending)
	}
	p.ChallengeMethods = []string{http.MethodGet}
	p.Series = func(d *producer.Delivery) string { return d.Identity.Principal } // "" for unlisted topics
	p.SecretQuery = []string{webSubToken}
	p.Window = time.Hour
}

// withCommonSecrets gives the common secrets to subscriptions that have none. Without
// subscriptions the common secrets are for any topic, for programs that subscribe elsewhere,
// and no check is confirmed.
func (s Settings) withCommonSecrets() Settings {
	if len(s.Subscriptions) == 0 || len(s.Secrets) == 0 {
		return s
	}
	var all []Subscription
	for _, one := range s.Subscriptions {
		if one.Secret != "" {
			all = append(all, one)
			continue
		}
		for _, secret := range s.Secrets {
			one.Secret = secret
			all = append(all, one)
		}
	}
	s.Subscriptions, s.Secrets = all, nil
	return s
}

// webSubChallenge answers the check of a hub. pending is whether subscriptions without a token
// are confirmed.
func webSubChallenge(r *http.Request, subscriptions []Subscription, pending bool) (*dedup.Response, error) {
	if r.Method != http.MethodGet {
		return nil, nil
	}
	q, err := readHubQuery(r)
	if err != nil {
		return nil, err
	}
	token, err := producer.Query(webSubToken).Extract(&producer.Delivery{Request: r})
	if err != nil {
		return nil, err
	}
	late := false
	for _, s := range subscriptions {
		if s.Topic != q.topic || s.Token != "" && !sameText(token, s.Token) {
			continue
		}
		if late = s.Token == "" && !pending && q.mode != "denied"; late {
			continue
		}
		switch {
		case q.mode == "denied": // anyone can send this notice, and it has no effect
			return &dedup.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/plain"}}}, nil
		case q.challenge != "" && q.mode == cmp.Or(s.Mode, "subscribe"):
			return echo(q.challenge), nil
		}
	}
	refusal := &verify.Error{Code: verify.ChallengeUnexpected, Component: "hub.topic"}
	if late {
		refusal.Err = errors.New("a subscription without a token is confirmed in the first hour after " +
			"the start only: restart, or set its token")
	}
	return &dedup.Response{Status: http.StatusNotFound}, refusal
}

// addressOnly is the scheme of topics with neither a secret nor a token: AllowedIPs
// authenticates the hub.
type addressOnly struct{}

// Verify implements [verify.Scheme]; it proves nothing.
func (addressOnly) Verify(*http.Request, func() ([]byte, error)) (verify.Identity, error) {
	return verify.Identity{}, nil
}

// topics verifies a delivery with the secret of its topic, so the hub of one topic cannot send
// for another.
type topics struct {
	byTopic map[string]verify.Scheme
	only    string       // the only topic, for deliveries that name none; "" if there are several
	other   *verify.HMAC // for unlisted topics; nil refuses them
	owners  owners       // of the secrets
}

// owners are the names that unsigned fields give for secrets, by a digest of these. Such a name is
// proved only if its secret is that of no other one.
type owners map[[sha256.Size]byte][]string

// add adds an owner of a secret.
func (o owners) add(name string, secret []byte) {
	digest := sha256.Sum256(secret)
	if !slices.Contains(o[digest], name) {
		o[digest] = append(o[digest], name)
	}
}

// proved returns the name, or "" if another owner has a secret of it.
func (o owners) proved(name string) string {
	for _, names := range o {
		if len(names) > 1 && slices.Contains(names, name) {
			return ""
		}
	}
	return name
}

// Binds implements [verify.Binder].
func (t *topics) Binds() verify.Binding {
	return verify.Binding{Content: true, Covered: []string{"@body"}}
}

// webSubTokenForm allows the unreserved characters (RFC 3986 section 2.3), which need no
// encoding in a query.
var webSubTokenForm = regexp.MustCompile(`^[A-Za-z0-9._~-]{16,}$`)

func newTopics(set Settings) (*topics, error) {
	t := &topics{byTopic: map[string]verify.Scheme{}, owners: owners{}}
	hashes := hashes(set.Algs, verify.SHA256, verify.SHA384, verify.SHA512, verify.SHA1)
	var errs []error
	if len(set.Subscriptions) == 0 && len(set.Secrets) == 0 {
		errs = append(errs, errors.New("neither a subscription nor a secret is set"))
	}
	if len(set.Secrets) > 0 {
		t.other = webSubScheme(hashes, set.Secrets...)
		errs = append(errs, t.other.Check())
		for _, secret := range set.Secrets {
			t.owners.add("", []byte(secret))
		}
	}
	for _, s := range set.Subscriptions {
		if s.Topic == "" || s.Mode != "" && s.Mode != "subscribe" && s.Mode != "unsubscribe" {
			errs = append(errs, fmt.Errorf("subscription to %q: want a topic, and subscribe or unsubscribe", s.Topic))
		}
		if s.Token != "" && !webSubTokenForm.MatchString(s.Token) {
			errs = append(errs, fmt.Errorf("subscription to %q: want a token of at least 16 letters, digits, "+
				"-, _, . and ~, and the callback ?%s=TOKEN", s.Topic, webSubToken))
		}
		if err := t.add(s, hashes, len(set.AllowedIPs) > 0); err != nil {
			errs = append(errs, fmt.Errorf("subscription to %q: %w", s.Topic, err))
		}
		if t.only = s.Topic; s.Secret != "" {
			t.owners.add(s.Topic, []byte(s.Secret))
		}
	}
	if len(t.byTopic) != 1 {
		t.only = ""
	}
	return t, errors.Join(errs...)
}

// add adds the secret of a subscription. A topic can have several subscriptions, all with a
// secret or none.
func (t *topics) add(s Subscription, hashes []verify.Hash, byAddress bool) error {
	if known := t.byTopic[s.Topic]; s.Secret == "" && byAddress && known == nil {
		t.byTopic[s.Topic] = addressOnly{}
		if s.Token != "" {
			t.byTopic[s.Topic] = verify.QueryValue(webSubToken, s.Token)
		}
		return nil
	}
	known, signed := t.byTopic[s.Topic].(*verify.HMAC)
	if t.byTopic[s.Topic] != nil && !signed {
		return errors.New("one with a secret and one without")
	}
	scheme := webSubScheme(hashes, s.Secret)
	if signed {
		scheme.Secrets = append(known.Secrets, scheme.Secrets...)
	}
	t.byTopic[s.Topic] = scheme
	return scheme.Check()
}

func webSubScheme(hashes []verify.Hash, secrets ...string) *verify.HMAC {
	return &verify.HMAC{
		Headers: []string{"X-Hub-Signature"}, Entries: []string{"{alg}={sig}"}, Hashes: hashes, Encoding: verify.Hex,
		Secrets: verify.Secrets(secrets...),
	}
}

// of returns the scheme for a topic, or nil, and the topic if it is listed.
func (t *topics) of(topic string) (scheme verify.Scheme, listed string) {
	if topic == "" {
		topic = t.only
	}
	if scheme := t.byTopic[topic]; scheme != nil {
		return scheme, topic
	}
	if t.other == nil {
		return nil, ""
	}
	return t.other, ""
}

// Verify implements [verify.Scheme]. The principal is the topic, unless it shares a secret: the
// field that names it is not signed.
func (t *topics) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	topic, err := producer.Link("self").Extract(&producer.Delivery{Request: r})
	if err != nil {
		return verify.Identity{}, err
	}
	scheme, listed := t.of(topic)
	if scheme == nil {
		return verify.Identity{}, &verify.Error{Code: verify.TopicUnexpected, Component: "link"}
	}
	identity, err := scheme.Verify(r, body)
	identity.Principal = t.owners.proved(listed)
	return identity, err
}

// Sign signs r and body as a hub would, with the secret of the topic that the Link of r names.
func (t *topics) Sign(r *http.Request, body []byte, now time.Time) error {
	topic, err := producer.Link("self").Extract(&producer.Delivery{Request: r})
	if err != nil {
		return err
	}
	scheme, _ := t.of(topic)
	switch scheme := scheme.(type) {
	case nil:
		return fmt.Errorf("no subscription to %q", topic)
	case *verify.HMAC:
		return scheme.Sign(r, body, now)
	case *verify.Static:
		return scheme.Sign(r, body, now)
	}
	return nil
}

// String describes the scheme for the policy.
func (t *topics) String() string {
	return `HMAC (hex) of the body in X-Hub-Signature, with the secret of the topic that the Link with rel="self" names`
}
