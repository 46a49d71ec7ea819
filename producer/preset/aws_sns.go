package preset

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // signature version 1 of SNS is SHA-1 with RSA
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// AWSSNS receives messages of Amazon SNS topics; topics are their ARNs. Raw message delivery must be off: it
// has no signature. The event type is the message type ("Notification"); topic, subject and time are in the
// event's attributes.
//
// The signature leaves members of the body out: MessageAttributes, and the addresses. Who can change a delivery on
// its way can change them.
//
// A SubscriptionConfirmation for one of the topics is confirmed by fetching its SubscribeURL, only from a host
// of SNS and only after its signature held. The end of a subscription is noted and not undone.
//
// SNS tries for an hour at most and drops a message on any 4xx but 429; that it waits 15 seconds is from secondary
// sources. Its certificate comes without its issuer's, so that by default host, name and dates are checked and not
// the chain (check_chain, and roots for its authorities).
//
// https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
func AWSSNS(topics ...string) producer.Producer { return awsSNS(Settings{Topics: topics}) }

func awsSNS(s Settings) producer.Producer {
	p := webhook("aws-sns", "https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html")
	roots, err := s.roots()
	p.Err = err
	p = signedBy(p, &snsScheme{
		Topics: s.Topics, MinVersion: s.MinVersion,
		Certs: &certStore{Fetch: s.Fetch, Roots: roots, SkipChain: !s.CheckChain, Pinned: s.PinnedKeys},
	})
	p.Tolerance = verify.Tolerance{Past: 24 * time.Hour, Future: 5 * time.Minute}
	p.Key, p.KeyRequired = producer.JSON("MessageId"), true
	p.Type = producer.JSON("Type")
	// The identifier is signed. Other members of the body, MessageAttributes among them, are not.
	p.Fingerprint = producer.FingerprintNone
	p.Attributes = attributes(map[string]producer.Extractor{
		"topic": producer.JSON("TopicArn"), "subject": producer.JSON("Subject"), "time": producer.JSON("Timestamp"),
	})
	p.Window = 25 * time.Hour
	fetch := s.Fetch
	if fetch == nil {
		fetch = verify.FetchPublic
	}
	p.Handshake = func(ctx context.Context, d *producer.Delivery) (*dedup.Response, error) {
		return confirmSNS(ctx, d, fetch)
	}
	return p
}

// confirmSNS answers the messages about subscriptions; they are verified, and their topic is on the list.
func confirmSNS(ctx context.Context, d *producer.Delivery, fetch func(context.Context, string) ([]byte, error)) (*dedup.Response, error) {
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

// snsScheme verifies messages of Amazon SNS: an RSA signature in the JSON body over some of its members, with a
// certificate that the body names and that is fetched only from hosts of SNS. Message types that the signature
// knows are Notification, SubscriptionConfirmation and UnsubscribeConfirmation.
//
// The signed form sets names and values on lines of their own. A line feed in any value but the message would
// let one signed message be read as another, so it is refused (event_malformed).
type snsScheme struct {
	// Certs fetches certificates. SNS publishes its certificate without the issuer's, so SkipChain is usual.
	// Required.
	Certs *certStore
	// Topics are the accepted values of TopicArn. Any AWS account can make SNS sign a message to any address,
	// so an empty list refuses everything. Required.
	Topics []string
	// MinVersion is the lowest accepted signature version: 1 (SHA-1) or 2 (SHA-256). Defaults to 1, which is
	// what SNS uses for topics that were not told otherwise.
	MinVersion int
}

// Check reports every mistake of the description.
func (s *snsScheme) Check() error {
	var errs []error
	if s.Certs == nil {
		errs = append(errs, errors.New("sns: no source of certificates"))
	}
	if len(s.Topics) == 0 || slices.Contains(s.Topics, "") {
		errs = append(errs, errors.New("sns: no topics, or an empty one: any AWS account can send signed messages"))
	}
	if s.MinVersion < 0 || s.MinVersion > 2 {
		errs = append(errs, fmt.Errorf("sns: signature version %d is not known", s.MinVersion))
	}
	return errors.Join(errs...)
}

// isSNSURL reports whether an address is one of SNS itself: https and a regional host of SNS.
func isSNSURL(address string) bool {
	return certURL{host: isSNSHost}.allows(address)
}

var snsHost = regexp.MustCompile(`^sns\.[a-z0-9-]{3,}\.amazonaws\.com(\.cn)?$`)

func isSNSHost(host string) bool { return snsHost.MatchString(host) }

// snsCertPath is one name, which SNS makes of letters, digits and hyphens; a query, which the certificate does
// not depend on, would give it any number of addresses.
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
	if topic, _ := message.Text("TopicArn"); !slices.Contains(s.Topics, topic) {
		return verify.Identity{}, &verify.Error{Code: verify.TopicUnexpected, Component: "TopicArn"}
	}
	cert, err := s.Certs.find(r.Context(), address, func(c *x509.Certificate) bool {
		return namedAs(c, func(name string) bool { return name == "sns.amazonaws.com" || isSNSHost(name) })
	})
	if err != nil {
		return verify.Identity{}, err
	}
	if !rsaHolds(cert.public, version, content, signature) {
		return verify.Identity{}, &verify.Error{Code: verify.SignatureMismatch, Component: "Signature"}
	}
	s.Certs.prove(address)
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
	case version == "1" && s.MinVersion < 2:
		return signature, crypto.SHA1, nil
	case version == "2":
		return signature, crypto.SHA256, nil
	}
	return nil, 0, &verify.Error{Code: verify.VersionUnsupported, Component: "SignatureVersion"}
}

// snsContent builds the bytes that SNS signs: the names in their order, each with its value on the next line.
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
	b := make([]byte, 0, size) // two quotes make room for two line feeds
	for _, name := range names {
		raw := message[name]
		if name == "Subject" && (len(raw) == 0 || string(raw) == "null") {
			continue // the one member that may be missing
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

// rsaHolds checks an RSA signature (PKCS #1 v1.5).
func rsaHolds(public *rsa.PublicKey, hash crypto.Hash, content, signature []byte) bool {
	var digest []byte
	switch hash {
	case crypto.SHA1:
		sum := sha1.Sum(content) //nolint:gosec // see the import
		digest = sum[:]
	default:
		sum := sha256.Sum256(content)
		digest = sum[:]
	}
	return rsa.VerifyPKCS1v15(public, hash, digest, signature) == nil
}

// decodeBase64Strict decodes one spelling of base64 only: with padding, and without line breaks, which encoding/base64 skips.
func decodeBase64Strict(text string) ([]byte, bool) {
	out, err := base64.StdEncoding.Strict().DecodeString(text)
	return out, err == nil && text != "" && !strings.ContainsAny(text, "\r\n")
}
