package preset

import (
	"bytes"
	"context"
	"crypto" //nolint:gosec // signature version 1 of SNS is SHA-1 with RSA
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/publicnet"
	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// awsSNS receives messages of Amazon SNS topics; topics are their ARNs. Raw message delivery
// must be off, because it has no signature. The event type is the message type
// ("Notification"); topic, subject and time are attributes of the event.
//
// The signature does not cover every member of the body: MessageAttributes and the URLs can be
// changed on the way.
//
// A SubscriptionConfirmation for one of the topics is confirmed by fetching its SubscribeURL,
// from a host of SNS only and after its signature was verified. The end of a subscription is
// accepted and not undone.
//
// SNS retries for an hour at most and drops a message after any 4xx but 429. It waits 15
// seconds, according to secondary sources. It publishes its certificate without the issuer's,
// so host, name and dates are checked, and the chain only to the authorities of the setting roots.
// The setting alg with sha256 alone refuses messages of signature version 1, the default of SNS.
//
// https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
var awsSNS = Preset{
	Name: "aws-sns", Docs: "https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html",
	Auth: "RSA signature in the body, certificate of SNS", ID: "body MessageId", Deadline: "15s",
	Wants: "2xx; an hour, drops on 4xx but 429", Uses: []string{"topic", "alg", "roots"},
	like: producer.Producer{
		Fields:  []string{"X-Amz-Sns-*"},
		Summary: []string{"{json:Subject}", "{json:Message}"},
	}, build: buildSNS, signWith: signSNS,
}

func buildSNS(p *producer.Producer, s Settings) {
	roots, err := s.roots()
	p.Err = err
	signedBy(p, &snsScheme{
		topics: s.Topics, hashes: hashes(s.Algs, verify.SHA256, verify.SHA1),
		certs: &certStore{Fetch: s.Fetch, Roots: roots, SkipChain: roots == nil, Pinned: s.PinnedKeys},
	})
	p.Tolerance = verify.Tolerance{Past: day, Future: 5 * time.Minute}
	p.Key, p.KeyRequired = producer.JSON("MessageId"), true
	p.Type = producer.JSON("Type")
	p.Fingerprint = producer.FingerprintNone // the identifier is signed, other members are not
	p.Attributes = attributes(map[string]producer.Extractor{
		"topic": producer.JSON("TopicArn"), "subject": producer.JSON("Subject"), "time": producer.JSON("Timestamp"),
	})
	p.Window = day + time.Hour
	fetch := s.Fetch
	if fetch == nil {
		fetch = publicnet.Fetch
	}
	p.Handshake = func(ctx context.Context, d *producer.Delivery) (*dedup.Response, error) {
		return confirmSNS(ctx, d, fetch)
	}
}

// confirmSNS answers verified messages about subscriptions to listed topics.
func confirmSNS(ctx context.Context, d *producer.Delivery, fetch fetchFunc) (*dedup.Response, error) {
	kind, err := producer.JSON("Type").Extract(d)
	if err != nil || kind == "Notification" {
		return nil, err
	}
	if kind != "SubscriptionConfirmation" {
		return &dedup.Response{Status: http.StatusOK}, nil // the end of a subscription
	}
	address, err := producer.JSON("SubscribeURL").Extract(d)
	if err != nil {
		return nil, err
	}
	if !isSNSURL(address) {
		return nil, &verify.Error{Code: verify.ChallengeUnexpected, Component: "SubscribeURL"}
	}
	if _, err := fetch(ctx, address); err != nil {
		return nil, &verify.Error{
			Code: verify.KeysUnavailable, Component: "SubscribeURL", RetryAfter: 10 * time.Second,
			Err: errors.Join(errors.New("the subscription could not be confirmed"), err),
		}
	}
	return &dedup.Response{Status: http.StatusOK}, nil
}

// snsScheme verifies messages of SNS: an RSA signature in the JSON body over some of its members,
// with a certificate whose URL is in the body and that is fetched from hosts of SNS only. Signed
// message types are Notification, SubscriptionConfirmation and UnsubscribeConfirmation.
//
// The signed form has names and values on lines of their own. A line feed in any value but the
// message could turn one signed message into another, so it is refused (event_malformed).
type snsScheme struct {
	certs  *certStore
	topics []string      // accepted values of TopicArn: any AWS account can make SNS sign a message to any URL
	hashes []verify.Hash // the accepted ones: SHA-1 is signature version 1, SHA-256 is version 2
}

// Check reports every mistake of the settings.
func (s *snsScheme) Check() error {
	var errs []error
	if s.certs == nil {
		errs = append(errs, errors.New("sns: no source of certificates"))
	}
	if len(s.topics) == 0 || slices.Contains(s.topics, "") {
		errs = append(errs, errors.New("sns: no topics, or an empty one: any AWS account can send signed messages"))
	}
	for _, hash := range s.hashes {
		if hash != verify.SHA1 && hash != verify.SHA256 {
			errs = append(errs, fmt.Errorf("sns: alg %q is not sha256 or sha1", hash))
		}
	}
	return errors.Join(errs...)
}

// isSNSURL reports whether a URL is https at a regional host of SNS.
func isSNSURL(address string) bool { return isVendorURL(address, isSNSHost) }

var snsHost = regexp.MustCompile(`^sns\.[a-z0-9-]{3,}\.amazonaws\.com(\.cn)?$`)

func isSNSHost(host string) bool { return snsHost.MatchString(host) }

// snsCertPath is one file name of letters, digits, hyphens and underscores. A query or other
// path would give one certificate any number of URLs.
var snsCertPath = regexp.MustCompile(`^https://[^/]+/[A-Za-z0-9_-]+\.pem$`)

func isSNSCertURL(address string) bool { return isSNSURL(address) && snsCertPath.MatchString(address) }

// Binds implements [verify.Binder].
func (s *snsScheme) Binds() verify.Binding {
	return verify.Binding{Content: true, Time: true, Malleable: true, Covered: []string{"@body"}}
}

// Verify implements [verify.Scheme].
func (s *snsScheme) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	if err := s.Check(); err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.KeysUnavailable, Err: err}
	}
	raw, err := body()
	if err != nil {
		return verify.Identity{}, err
	}
	message, err := strictjson.ParseObject(raw)
	if errors.Is(err, strictjson.ErrObject) {
		return verify.Identity{}, &verify.Error{Code: verify.SignatureMissing, Component: "Signature", Err: err}
	} else if err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.EventMalformed, Err: err}
	}
	signature, version, err := s.signature(message)
	if err != nil {
		return verify.Identity{}, err
	}
	content, err := snsContent(message)
	if err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.EventMalformed, Err: err}
	}
	address, ok := message.Text("SigningCertURL")
	if !ok {
		address, _ = message.Text("SigningCertUrl") // as messages to Lambda functions spell it
	}
	if !isSNSCertURL(address) {
		return verify.Identity{}, &verify.Error{Code: verify.CertURLUntrusted, Component: "SigningCertURL"}
	}
	if topic, _ := message.Text("TopicArn"); !slices.Contains(s.topics, topic) {
		return verify.Identity{}, &verify.Error{Code: verify.TopicUnexpected, Component: "TopicArn"}
	}
	cert, err := s.certs.find(r.Context(), address, func(c *x509.Certificate) bool {
		return namedAs(c, func(name string) bool { return name == "sns.amazonaws.com" || isSNSHost(name) })
	})
	if err != nil {
		return verify.Identity{}, err
	}
	if !rsaHolds(cert.public, version, content, signature) {
		return verify.Identity{}, &verify.Error{Code: verify.SignatureMismatch, Component: "Signature"}
	}
	s.certs.prove(address)
	signedAt, err := snsTime(message)
	if err != nil {
		return verify.Identity{}, err
	}
	sum := sha256.Sum256(content)
	return verify.Identity{
		SignedAt: signedAt, NotBefore: cert.notBefore, Expires: cert.notAfter, ExpiredCode: verify.CertExpired,
		Covered: []string{"@body"}, Malleable: true, Signed: sum[:],
	}, nil
}

func (s *snsScheme) signature(message strictjson.Object) (signature []byte, hash crypto.Hash, err error) {
	encoded, ok := message.Text("Signature")
	if !ok || encoded == "" {
		return nil, 0, &verify.Error{Code: verify.SignatureMissing, Component: "Signature"}
	}
	if signature, ok = decodeBase64Strict(encoded); !ok {
		return nil, 0, &verify.Error{Code: verify.SignatureMalformed, Component: "Signature"}
	}
	version, _ := message.Text("SignatureVersion")
	switch {
	case version == "1" && slices.Contains(s.hashes, verify.SHA1):
		return signature, crypto.SHA1, nil
	case version == "2" && slices.Contains(s.hashes, verify.SHA256):
		return signature, crypto.SHA256, nil
	}
	return nil, 0, &verify.Error{Code: verify.VersionUnsupported, Component: "SignatureVersion"}
}

// snsContent returns the bytes that SNS signs: names in a fixed order, each with its value on
// the next line.
func snsContent(message strictjson.Object) ([]byte, error) {
	var names []string
	switch kind, _ := message.Text("Type"); kind {
	case "Notification":
		names = []string{"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"}
	case "SubscriptionConfirmation", "UnsubscribeConfirmation":
		names = []string{"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"}
	default:
		return nil, errors.New("a message type that SNS does not sign")
	}
	size := 0
	for _, name := range names {
		size += len(name) + len(message[name])
	}
	b := make([]byte, 0, size) // the two quotes of a value leave room for two line feeds
	for _, name := range names {
		raw := message[name]
		if name == "Subject" && (len(raw) == 0 || string(raw) == "null") {
			continue // the only optional member
		}
		if len(raw) == 0 || raw[0] != '"' {
			return nil, fmt.Errorf("member %s is missing or no string", name)
		}
		b = append(append(b, name...), '\n')
		start := len(b)
		b, _ = strictjson.AppendString(b, raw)
		if name != "Message" && bytes.IndexByte(b[start:], '\n') >= 0 {
			return nil, fmt.Errorf("member %s holds a line feed", name)
		}
		b = append(b, '\n')
	}
	return b, nil
}

func snsTime(message strictjson.Object) (time.Time, error) {
	text, _ := message.Text("Timestamp")
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, &verify.Error{Code: verify.TimestampMalformed, Component: "Timestamp"}
	}
	return at, nil
}
