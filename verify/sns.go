package verify

import (
	"bytes"
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

	"github.com/eyelet-dev/eyelet/internal/strictjson"
)

// SNS verifies messages of Amazon SNS: an RSA signature in the JSON body over some of its members, with a
// certificate that the body names and that is fetched only from hosts of SNS. Message types that the signature
// knows are Notification, SubscriptionConfirmation and UnsubscribeConfirmation.
//
// The signed form sets names and values on lines of their own. A line feed in any value but the message would
// let one signed message be read as another, so it is refused (event_malformed).
type SNS struct {
	// Certs fetches certificates. SNS publishes its certificate without the issuer's, so SkipChain is usual.
	// Required.
	Certs *Certs
	// Topics are the accepted values of TopicArn. Any AWS account can make SNS sign a message to any address,
	// so an empty list refuses everything. Required.
	Topics []string
	// MinVersion is the lowest accepted signature version: 1 (SHA-1) or 2 (SHA-256). Defaults to 1, which is
	// what SNS uses for topics that were not told otherwise.
	MinVersion int
}

// Check reports every mistake of the description.
func (s *SNS) Check() error {
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

// IsSNSURL reports whether an address is one of SNS itself: https and a regional host of SNS.
func IsSNSURL(address string) bool {
	return certURL{host: isSNSHost}.allows(address)
}

var snsHost = regexp.MustCompile(`^sns\.[a-z0-9-]{3,}\.amazonaws\.com(\.cn)?$`)

func isSNSHost(host string) bool { return snsHost.MatchString(host) }

// snsCertPath is one name, which SNS makes of letters, digits and hyphens; a query, which the certificate does
// not depend on, would give it any number of addresses.
var snsCertPath = regexp.MustCompile(`^https://[^/]+/[A-Za-z0-9_-]+\.pem$`)

func isSNSCertURL(address string) bool { return IsSNSURL(address) && snsCertPath.MatchString(address) }

// Verify implements [Scheme].
func (s *SNS) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	if err := s.Check(); err != nil {
		return Identity{}, &Error{Code: KeysUnavailable, Err: err}
	}
	raw, err := body()
	if err != nil {
		return Identity{}, err
	}
	message, err := strictjson.ParseObject(raw)
	if errors.Is(err, strictjson.ErrObject) {
		return Identity{}, &Error{Code: SignatureMissing, Component: "Signature", Err: err}
	} else if err != nil {
		return Identity{}, &Error{Code: EventMalformed, Err: err}
	}
	signature, version, err := s.signature(message)
	if err != nil {
		return Identity{}, err
	}
	content, err := snsContent(message)
	if err != nil {
		return Identity{}, &Error{Code: EventMalformed, Err: err}
	}
	address, ok := message.Text("SigningCertURL")
	if !ok {
		address, _ = message.Text("SigningCertUrl") // as messages to Lambda functions spell it
	}
	if !isSNSCertURL(address) {
		return Identity{}, &Error{Code: CertURLUntrusted, Component: "SigningCertURL"}
	}
	if topic, _ := message.Text("TopicArn"); !slices.Contains(s.Topics, topic) {
		return Identity{}, &Error{Code: TopicUnexpected, Component: "TopicArn"}
	}
	cert, err := s.Certs.find(r.Context(), address, func(c *x509.Certificate) bool {
		return namedAs(c, func(name string) bool { return name == "sns.amazonaws.com" || isSNSHost(name) })
	})
	if err != nil {
		return Identity{}, err
	}
	if !rsaHolds(cert.public, version, content, signature) {
		return Identity{}, &Error{Code: SignatureMismatch, Component: "Signature"}
	}
	s.Certs.prove(address)
	signedAt, err := snsTime(message)
	if err != nil {
		return Identity{}, err
	}
	sum := sha256.Sum256(content)
	return Identity{
		SignedAt: signedAt, NotBefore: cert.notBefore, Expires: cert.notAfter, ExpiredCode: CertExpired,
		Covered: []string{"@body"}, Malleable: true, Signed: sum[:],
	}, nil
}

func (s *SNS) signature(message strictjson.Object) (signature []byte, hash crypto.Hash, err error) {
	encoded, ok := message.Text("Signature")
	if !ok || encoded == "" {
		return nil, 0, &Error{Code: SignatureMissing, Component: "Signature"}
	}
	if signature, err = base64.StdEncoding.Strict().DecodeString(encoded); err != nil || strings.ContainsAny(encoded, "\r\n") {
		return nil, 0, &Error{Code: SignatureMalformed, Component: "Signature"}
	}
	version, _ := message.Text("SignatureVersion")
	switch {
	case version == "1" && s.MinVersion < 2:
		return signature, crypto.SHA1, nil
	case version == "2":
		return signature, crypto.SHA256, nil
	}
	return nil, 0, &Error{Code: VersionUnsupported, Component: "SignatureVersion"}
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
		return time.Time{}, &Error{Code: TimestampMalformed, Component: "Timestamp"}
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
