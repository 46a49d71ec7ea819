package preset

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Subscription is a WebSub topic that is wanted.
type Subscription struct {
	// Topic is the address of the feed, as the hub names it.
	Topic string `conf:"topic"`
	// Mode is what was asked of the hub: "subscribe" or "unsubscribe". Defaults to subscribe.
	Mode string `conf:"mode"`
	// Secret is the hub.secret of the subscription. Required, unless the producer lists its allowed addresses: a hub that
	// was given no secret signs nothing. Give every topic a secret of its own: one that two topics share lets the hub of
	// either speak for both.
	Secret string `conf:"secret,secret"`
	// Token is the capability in the callback's query (hub.callback=https://HOST/webhooks/NAME?token=TOKEN), which only
	// the hub of the subscription learns: at least 16 letters, digits, "-", "_", "." and "~" that cannot be guessed.
	// A check that does not bring it is not confirmed. Without a token the subscription is pending, and confirmed to any
	// hub that asks for it, for the first hour after the start only.
	Token string `conf:"token,secret"`
}

// webSubToken is the query parameter of the callback that holds the capability.
const webSubToken = "token"

// webSubPending is how long after the start a subscription without a token is confirmed.
const webSubPending = time.Hour

// WebSub receives the content that WebSub hubs distribute, for the given subscriptions, and confirms them to the hub
// that asks (WebSub section 5.3). A check is confirmed only when it brings the topic's token in its query, which the hub
// got with the callback (the capability URL of section 5.1), and asks for the mode that is configured; others are
// answered 404. Without that, anyone could have a hub subscribe the callback under another secret. A subscription
// without a token is therefore confirmed in the first hour after the start only, in which it is pending. A renewal of
// the lease is confirmed in the same way. Deliveries are signed with the secret of their topic; the topic is the target of
// the Link with rel="self", and it is the principal and the event type. A topic without a secret is known by the allowed
// addresses and its token, where it has one.
//
// Content has no id; a digest of the body names it within its topic. It is a state: equal content is known while it
// is the newest accepted content of its topic, or for the window of one hour, and content that a topic returned to within
// the window is quarantined. Topics that are not listed, which a common secret allows, share one principal, because that
// secret does not bind the Link, and their content is known for the window.
//
// All hashes of the specification are accepted, SHA-1 too, which many hubs still send; the setting algs takes a shorter
// list. A bad signature is answered 401 and never handled: the specification also allows 2xx for it. How long a hub
// tries is the hub's business.
//
// https://www.w3.org/TR/websub/
func WebSub(subscriptions ...Subscription) producer.Producer {
	return webSub(Settings{Subscriptions: subscriptions})
}

// webSub also takes secrets that are good for any topic that has no subscription here, for those who subscribe
// elsewhere.
func webSub(s Settings) producer.Producer {
	p := webhook("websub", "https://www.w3.org/TR/websub/")
	subscriptions := s.Subscriptions
	scheme, err := newTopics(s)
	p.Scheme, p.Err = scheme, err
	p.Key = producer.BodyDigest()
	p.Type = producer.Link("self")
	began := time.Now()
	p.Challenge = func(r *http.Request) (*dedup.Response, error) {
		return webSubChallenge(r, subscriptions, time.Since(began) < webSubPending)
	}
	p.ChallengeMethods = []string{http.MethodGet}
	p.Series = func(d *producer.Delivery) string { return d.Identity.Principal } // none for topics that are not listed
	p.SecretQuery = []string{webSubToken}
	p.Window = time.Hour
	return p
}

// webSubChallenge answers the check of a hub. pending is whether subscriptions without a token are confirmed.
func webSubChallenge(r *http.Request, subscriptions []Subscription, pending bool) (*dedup.Response, error) {
	if r.Method != http.MethodGet {
		return nil, nil
	}
	q, err := hubQuery(r)
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
		case q.mode == "denied": // a notice, by a hub that says so to whoever asks; nothing follows from it
			return &dedup.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/plain"}}}, nil
		case q.challenge != "" && q.mode == cmp.Or(s.Mode, "subscribe"):
			return echo(q.challenge), nil
		}
	}
	refusal := &verify.Error{Code: verify.ChallengeUnexpected, Component: "hub.topic"}
	if late {
		refusal.Err = errors.New("a subscription without a token is confirmed in the first hour after the start only: restart, or set its token")
	}
	return &dedup.Response{Status: http.StatusNotFound}, refusal
}

// byAddressOnly is the scheme of topics with neither a secret nor a token, whose hubs are known by their addresses.
type byAddressOnly struct{}

// Verify implements [verify.Scheme]; it proves nothing.
func (byAddressOnly) Verify(*http.Request, func() ([]byte, error)) (verify.Identity, error) {
	return verify.Identity{}, nil
}

// topics verifies a delivery with the secret of its topic, so that the hub of one topic cannot speak for
// another.
type topics struct {
	byTopic map[string]verify.Scheme
	only    string       // where there is one topic, a delivery need not name it
	other   *verify.HMAC // for topics that are not listed; nil refuses them
}

// Binds implements [verify.Binder].
func (t *topics) Binds() verify.Binding {
	return verify.Binding{Content: true, Covered: []string{"@body"}}
}

// webSubTokenForm is the form of a token: the unreserved characters of RFC 3986 section 2.3, which a query holds as they are.
var webSubTokenForm = regexp.MustCompile(`^[A-Za-z0-9._~-]{16,}$`)

func newTopics(set Settings) (*topics, error) {
	t := &topics{byTopic: map[string]verify.Scheme{}}
	hashes := hashes(set.Algs, verify.SHA256, verify.SHA384, verify.SHA512, verify.SHA1)
	var errs []error
	if len(set.Subscriptions) == 0 && len(set.Secrets) == 0 {
		errs = append(errs, errors.New("neither a subscription nor a secret is set"))
	}
	if len(set.Secrets) > 0 {
		t.other = webSubScheme(hashes, set.Secrets...)
		errs = append(errs, t.other.Check())
	}
	for _, s := range set.Subscriptions {
		if s.Topic == "" || s.Mode != "" && s.Mode != "subscribe" && s.Mode != "unsubscribe" {
			errs = append(errs, fmt.Errorf("subscription to %q: want a topic, and subscribe or unsubscribe", s.Topic))
		}
		if s.Token != "" && !webSubTokenForm.MatchString(s.Token) {
			errs = append(errs, fmt.Errorf("subscription to %q: want a token of at least 16 letters, digits, -, _, . and ~, and the callback %s=TOKEN", s.Topic, "?"+webSubToken))
		}
		if err := t.add(s, hashes, len(set.AllowedIPs) > 0); err != nil {
			errs = append(errs, fmt.Errorf("subscription to %q: %w", s.Topic, err))
		}
		t.only = s.Topic
	}
	if len(t.byTopic) != 1 {
		t.only = ""
	}
	return t, errors.Join(errs...)
}

// add notes the secret of a subscription. One topic can have several, of which all are signed or none.
func (t *topics) add(s Subscription, hashes []verify.Hash, byAddress bool) error {
	if known := t.byTopic[s.Topic]; s.Secret == "" && byAddress && known == nil {
		t.byTopic[s.Topic] = byAddressOnly{}
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

// of returns the scheme for a topic, nil when there is none, and the topic as it is listed: empty when it is not.
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

// Verify implements verify.Scheme. The principal is the topic.
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
	identity.Principal = listed
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

// String says what is demanded, for the policy.
func (t *topics) String() string {
	return `HMAC (hex) of the body in X-Hub-Signature, with the secret of the topic that the Link with rel="self" names`
}
