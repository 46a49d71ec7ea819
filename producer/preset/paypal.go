package preset

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// payPal receives webhooks of PayPal; account is the id that PayPal shows for the webhook.
// PayPal tries 25 times in 3 days with the same transmission id and time, so signatures of up
// to 3 days and 2 hours are accepted.
//
// A CRC-32 is all that binds the body: a holder of a signed delivery can forge another body
// with the same CRC-32 by appending four bytes. The identity therefore does not list the body
// as covered. A forged body has the signed content of the original and is quarantined while the
// original is remembered; the transmission's time limits what comes later. Before money moves
// on an event, ask PayPal (POST /v1/notifications/verify-webhook-signature).
//
// Certificates are fetched from hosts below paypal.com and must chain to a root of the system, or
// of the setting roots. That PayPal's do is documented, and was not tested against its servers.
//
// https://developer.paypal.com/api/rest/webhooks/rest/
var payPal = Preset{
	Name: "paypal", Docs: "https://developer.paypal.com/api/rest/webhooks/rest/",
	Auth: "RSA signature over id, time, webhook id and CRC-32", ID: "body id", Wants: "2xx; 25 times in 3 days",
	Uses: []string{"account", "roots"},
	like: producer.Producer{
		Summary: []string{
			"{json:resource.amount.value} {json:resource.amount.currency_code}, {json:resource.status}",
			"{json:summary}",
		},
		Fields: []string{"Paypal-*"}, Key: producer.JSON("id"), KeyRequired: true, Type: producer.JSON("event_type"),
		Tolerance: verify.Tolerance{Past: 74 * time.Hour, Future: 5 * time.Minute}, Window: 4 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		roots, err := s.roots()
		p.Err = err
		certs := &certStore{Fetch: s.Fetch, Roots: roots, Pinned: s.PinnedKeys}
		signedBy(p, &payPalScheme{webhookID: s.account(), certs: certs})
		p.Attributes = attributes(map[string]producer.Extractor{
			"transmission": producer.Header("Paypal-Transmission-Id"), "resource_type": producer.JSON("resource_type"),
			"time": producer.JSON("create_time"),
		})
	},
	signWith: signPayPal,
}

// payPalScheme verifies an RSA signature over the transmission's id and time, the webhook's id
// and the CRC-32 of the body. The certificate's URL is in the request and must be PayPal's.
type payPalScheme struct {
	webhookID string
	certs     *certStore
}

// Check reports every mistake of the settings.
func (p *payPalScheme) Check() error {
	var errs []error
	if p.webhookID == "" {
		errs = append(errs, errors.New("paypal: set account, the one id that PayPal shows for the webhook"))
	}
	if p.certs == nil {
		errs = append(errs, errors.New("paypal: no source of certificates"))
	}
	return errors.Join(errs...)
}

// isPayPalHost reports whether a host or certificate name is below paypal.com.
func isPayPalHost(host string) bool {
	return strings.HasSuffix(host, ".paypal.com") && !strings.Contains(host, "..")
}

// Binds implements [verify.Binder].
func (p *payPalScheme) Binds() verify.Binding {
	return verify.Binding{Content: true, Time: true, Malleable: true,
		Covered: []string{"paypal-transmission-id", "paypal-transmission-time", "@body"}}
}

// Verify implements [verify.Scheme].
func (p *payPalScheme) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	if err := p.Check(); err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.KeysUnavailable, Err: err}
	}
	sent, err := readPayPal(r)
	if err != nil {
		return verify.Identity{}, err
	}
	raw, err := body()
	if err != nil {
		return verify.Identity{}, err
	}
	isVendor := func(c *x509.Certificate) bool { return namedAs(c, isPayPalHost) }
	cert, err := p.certs.find(r.Context(), sent.certURL, isVendor)
	if err != nil {
		return verify.Identity{}, err
	}
	content := fmt.Sprintf("%s|%s|%s|%d", sent.id, sent.time, p.webhookID, crc32.ChecksumIEEE(raw))
	if !rsaHolds(cert.public, crypto.SHA256, []byte(content), sent.signature) {
		return verify.Identity{}, &verify.Error{Code: verify.SignatureMismatch, Component: payPalSignature}
	}
	p.certs.prove(sent.certURL)
	sum := sha256.Sum256([]byte(content))
	return verify.Identity{
		SignedAt: sent.at, NotBefore: cert.notBefore, Expires: cert.notAfter, ExpiredCode: verify.CertExpired,
		Covered: []string{"paypal-transmission-id", "paypal-transmission-time"}, Malleable: true, Signed: sum[:],
	}, nil
}

const payPalSignature = "paypal-transmission-sig"

// payPalHeader is the header of a delivery.
type payPalHeader struct {
	id, time, certURL string
	at                time.Time
	signature         []byte
}

func readPayPal(r *http.Request) (payPalHeader, error) {
	var head payPalHeader
	var encoded, alg string
	for _, want := range []struct {
		name  string
		value *string
		code  verify.Code
	}{
		{payPalSignature, &encoded, verify.SignatureMissing},
		{"paypal-auth-algo", &alg, verify.AlgorithmNotAllowed},
		{"paypal-transmission-id", &head.id, verify.IDMissing},
		{"paypal-transmission-time", &head.time, verify.TimestampMissing},
		{"paypal-cert-url", &head.certURL, verify.CertURLUntrusted},
	} {
		switch lines := r.Header.Values(want.name); {
		case len(lines) > 1:
			return head, &verify.Error{Code: verify.AmbiguousField, Component: want.name}
		case len(lines) == 0 || verify.TrimOWS(lines[0]) == "":
			return head, &verify.Error{Code: want.code, Component: want.name}
		default:
			*want.value = verify.TrimOWS(lines[0])
		}
	}
	if !strings.EqualFold(alg, "SHA256withRSA") {
		return head, &verify.Error{Code: verify.AlgorithmNotAllowed, Component: "paypal-auth-algo"}
	}
	if !isVendorURL(head.certURL, isPayPalHost) {
		return head, &verify.Error{Code: verify.CertURLUntrusted, Component: "paypal-cert-url"}
	}
	if strings.Contains(head.id, "|") {
		return head, &verify.Error{Code: verify.SignatureMalformed, Component: "paypal-transmission-id"}
	}
	var err error
	if head.at, err = time.Parse(time.RFC3339, head.time); err != nil {
		return head, &verify.Error{Code: verify.TimestampMalformed, Component: "paypal-transmission-time"}
	}
	var ok bool
	if head.signature, ok = decodeBase64Strict(encoded); !ok {
		return head, &verify.Error{Code: verify.SignatureMalformed, Component: payPalSignature}
	}
	return head, nil
}
