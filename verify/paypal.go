package verify

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/textproto"
	"strings"
	"time"
)

// PayPal verifies webhooks of PayPal: an RSA signature over the transmission's id and time, the webhook's id
// and the CRC-32 of the body, with a certificate that the request names and that is fetched only from PayPal.
//
// A CRC-32 binds nobody: who has one signed delivery can make another body of the same CRC-32 by appending four
// bytes. So the identity does not list the body as covered. Its digest of the signed content is the same for
// such a forgery, and a receiver that keeps the same signed content under another identifier aside is safe from
// it as long as it remembers the original; the transmission's time bounds what comes later.
type PayPal struct {
	// WebhookID is the id that PayPal gave the webhook; it is signed. Required.
	WebhookID string
	// Certs fetches certificates. Required.
	Certs *Certs
}

// Check reports every mistake of the description.
func (p *PayPal) Check() error {
	var errs []error
	if p.WebhookID == "" {
		errs = append(errs, errors.New("paypal: no webhook id"))
	}
	if p.Certs == nil {
		errs = append(errs, errors.New("paypal: no source of certificates"))
	}
	return errors.Join(errs...)
}

// isPayPalHost reports whether a host or certificate name is below paypal.com.
func isPayPalHost(host string) bool {
	return strings.HasSuffix(host, ".paypal.com") && !strings.Contains(host, "..")
}

// Verify implements [Scheme].
func (p *PayPal) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	if err := p.Check(); err != nil {
		return Identity{}, &Error{Code: KeysUnavailable, Err: err}
	}
	sent, err := readPayPal(r)
	if err != nil {
		return Identity{}, err
	}
	raw, err := body()
	if err != nil {
		return Identity{}, err
	}
	cert, err := p.Certs.find(r.Context(), sent.certURL, func(c *x509.Certificate) bool { return namedAs(c, isPayPalHost) })
	if err != nil {
		return Identity{}, err
	}
	content := fmt.Sprintf("%s|%s|%s|%d", sent.id, sent.time, p.WebhookID, crc32.ChecksumIEEE(raw))
	if !rsaHolds(cert.public, crypto.SHA256, []byte(content), sent.signature) {
		return Identity{}, &Error{Code: SignatureMismatch, Component: payPalSignature}
	}
	p.Certs.prove(sent.certURL)
	sum := sha256.Sum256([]byte(content))
	return Identity{
		SignedAt: sent.at, NotBefore: cert.notBefore, Expires: cert.notAfter, ExpiredCode: CertExpired,
		Covered: []string{"paypal-transmission-id", "paypal-transmission-time"}, Malleable: true, Signed: sum[:],
	}, nil
}

const payPalSignature = "paypal-transmission-sig"

// payPalHead is what the header of a delivery says.
type payPalHead struct {
	id, time, certURL string
	at                time.Time
	signature         []byte
}

func readPayPal(r *http.Request) (payPalHead, error) {
	var head payPalHead
	var encoded, alg string
	for _, want := range []struct {
		name  string
		value *string
		code  Code
	}{
		{payPalSignature, &encoded, SignatureMissing},
		{"paypal-auth-algo", &alg, AlgorithmNotAllowed},
		{"paypal-transmission-id", &head.id, IDMissing},
		{"paypal-transmission-time", &head.time, TimestampMissing},
		{"paypal-cert-url", &head.certURL, CertURLUntrusted},
	} {
		value, n, err := field(r, textproto.CanonicalMIMEHeaderKey(want.name))
		switch {
		case err != nil:
			return head, &Error{Code: AmbiguousField, Component: want.name}
		case n == 0 || value == "":
			return head, &Error{Code: want.code, Component: want.name}
		}
		*want.value = value
	}
	if !strings.EqualFold(alg, "SHA256withRSA") {
		return head, &Error{Code: AlgorithmNotAllowed, Component: "paypal-auth-algo"}
	}
	if !(certURL{host: isPayPalHost}).allows(head.certURL) {
		return head, &Error{Code: CertURLUntrusted, Component: "paypal-cert-url"}
	}
	if strings.Contains(head.id, "|") {
		return head, &Error{Code: SignatureMalformed, Component: "paypal-transmission-id"}
	}
	var err error
	if head.at, err = time.Parse(time.RFC3339, head.time); err != nil {
		return head, &Error{Code: TimestampMalformed, Component: "paypal-transmission-time"}
	}
	if head.signature, err = base64.StdEncoding.Strict().DecodeString(encoded); err != nil {
		return head, &Error{Code: SignatureMalformed, Component: payPalSignature}
	}
	return head, nil
}
