package producer

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// Subscription is a WebSub topic that is wanted.
type Subscription struct {
	// Topic is the address of the feed, as the hub names it.
	Topic string `conf:"topic"`
	// Mode is what was asked of the hub: "subscribe" or "unsubscribe". Defaults to subscribe.
	Mode string `conf:"mode"`
	// Secret is the hub.secret of the subscription. Required, unless the producer lists its allowed addresses: a hub that
	// was given no secret signs nothing.
	Secret string `conf:"secret"`
}

// WebSub receives the content that WebSub hubs distribute, for the given subscriptions, and answers the check
// by which a hub confirms one (404 for a topic that is not wanted). Deliveries are signed with the secret of
// their topic; the topic is the target of the Link with rel="self", and it is the event type.
//
// Content has no id; a digest of the body names it. All hashes of the specification are accepted, SHA-1 too,
// which many hubs still send; the setting algs takes a shorter list. A bad signature is answered 401 and never handled:
// the specification also allows 2xx for it. How long a hub tries is the hub's business.
//
// https://www.w3.org/TR/websub/
func WebSub(subscriptions ...Subscription) Producer {
	return webSub(Settings{Subscriptions: subscriptions})
}

// webSub also takes secrets that are good for any topic that has no subscription here, for those who subscribe
// elsewhere.
func webSub(s Settings) Producer {
	p := webhook("websub", "https://www.w3.org/TR/websub/")
	subscriptions := s.Subscriptions
	scheme, err := newTopics(s)
	p.Scheme, p.Err = scheme, err
	p.Key = BodyDigest()
	p.Type = Link("self")
	p.Challenge = func(r *http.Request) (*Reply, error) { return webSubChallenge(r, subscriptions) }
	p.ChallengeMethods = []string{http.MethodGet}
	p.Window = 4 * 24 * time.Hour
	return p
}

func webSubChallenge(r *http.Request, subscriptions []Subscription) (*Reply, error) {
	if r.Method != http.MethodGet {
		return nil, nil
	}
	q, err := hubQuery(r)
	if err != nil {
		return nil, err
	}
	for _, s := range subscriptions {
		if s.Topic != q.topic {
			continue
		}
		switch {
		case q.mode == "denied": // a notice, by a hub that says so to whoever asks; nothing follows from it
			return &Reply{Status: http.StatusOK, ContentType: "text/plain"}, nil
		case q.challenge != "" && q.mode == cmp.Or(s.Mode, "subscribe"):
			return echo(q.challenge), nil
		}
	}
	return &Reply{Status: http.StatusNotFound}, &verify.Error{Code: verify.ChallengeUnexpected, Component: "hub.topic"}
}

// topics verifies a delivery with the secret of its topic, so that the hub of one topic cannot speak for
// another.
type topics struct {
	byTopic map[string]verify.Scheme
	only    verify.Scheme // where there is one topic, a delivery need not name it
	other   *verify.HMAC  // for topics that are not listed; nil refuses them
}

// unsigned is the scheme of topics without a secret, whose hubs are known by their addresses.
type unsigned struct{}

// Verify implements verify.Scheme; it proves nothing.
func (unsigned) Verify(*http.Request, func() ([]byte, error)) (verify.Identity, error) {
	return verify.Identity{}, nil
}

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
		if err := t.add(s, hashes, len(set.AllowedIPs) > 0); err != nil {
			errs = append(errs, fmt.Errorf("subscription to %q: %w", s.Topic, err))
		}
		t.only = t.byTopic[s.Topic]
	}
	if len(t.byTopic) != 1 {
		t.only = nil
	}
	return t, errors.Join(errs...)
}

// add notes the secret of a subscription. One topic can have several, of which all are signed or none.
func (t *topics) add(s Subscription, hashes []verify.Hash, byAddress bool) error {
	if known := t.byTopic[s.Topic]; s.Secret == "" && byAddress && known == nil {
		t.byTopic[s.Topic] = unsigned{}
		return nil
	}
	scheme, signed := t.byTopic[s.Topic].(*verify.HMAC)
	if t.byTopic[s.Topic] != nil && !signed {
		return errors.New("one with a secret and one without")
	}
	if !signed {
		scheme = webSubScheme(hashes)
		t.byTopic[s.Topic] = scheme
	}
	scheme.Secrets = append(scheme.Secrets, verify.Secret(s.Secret))
	return scheme.Check()
}

func webSubScheme(hashes []verify.Hash, secrets ...string) *verify.HMAC {
	return &verify.HMAC{
		Headers: []string{"X-Hub-Signature"}, Entries: []string{"{alg}={sig}"}, Hashes: hashes, Encoding: verify.Hex,
		Secrets: verify.Secrets(secrets...),
	}
}

// of returns the scheme for a topic, nil when there is none.
func (t *topics) of(topic string) verify.Scheme {
	if scheme := t.byTopic[topic]; scheme != nil {
		return scheme
	}
	if topic == "" && t.only != nil {
		return t.only
	}
	if t.other == nil {
		return nil
	}
	return t.other
}

// Verify implements verify.Scheme.
func (t *topics) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	topic, err := Link("self").Extract(&Delivery{Request: r})
	if err != nil {
		return verify.Identity{}, err
	}
	scheme := t.of(topic)
	if scheme == nil {
		return verify.Identity{}, &verify.Error{Code: verify.TopicUnexpected, Component: "link"}
	}
	return scheme.Verify(r, body)
}

// Sign signs r and body as a hub would, with the secret of the topic that the Link of r names.
func (t *topics) Sign(r *http.Request, body []byte, now time.Time) error {
	topic, err := Link("self").Extract(&Delivery{Request: r})
	if err != nil {
		return err
	}
	switch scheme := t.of(topic).(type) {
	case nil:
		return fmt.Errorf("no subscription to %q", topic)
	case *verify.HMAC:
		return scheme.Sign(r, body, now)
	}
	return nil // there is no secret to sign with
}

// String says what is demanded, for the policy.
func (t *topics) String() string {
	return `HMAC (hex) of the body in X-Hub-Signature, with the secret of the topic that the Link with rel="self" names`
}
