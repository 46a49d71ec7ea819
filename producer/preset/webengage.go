package preset

import (
	"crypto/md5"
	"encoding/hex"
	"errors"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// WebEngage receives webhooks of WebEngage. Its URL contains the license code and, as "secret",
// the MD5 of licenseCode:secretKey in hex: a shared credential that never changes, so the query
// is kept out of logs. Nothing is signed. The vendor accepts only 200; how long it retries is
// not documented.
//
// https://docs.webengage.com/docs/webhooks
func WebEngage(licenseCode, secretKey string) producer.Producer {
	return webEngage.producer(Settings{LicenseCode: licenseCode, SecretKey: secretKey})
}

var webEngage = Preset{
	Name: "webengage", Docs: "https://docs.webengage.com/docs/webhooks",
	Auth: "MD5 in the query", ID: "x-request-id", Wants: "200 only",
	Uses: []string{"license_code", "secret_key"},
	key:  producer.Header("x-request-id"), kind: producer.Query("eventType"), window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		sum := md5.Sum([]byte(s.LicenseCode + ":" + s.SecretKey)) // the vendor's formula; it hides nothing
		signedBy(p, verify.All{
			verify.QueryValue("licenseCode", s.LicenseCode), verify.QueryValue("secret", hex.EncodeToString(sum[:])),
		})
		if s.LicenseCode == "" || s.SecretKey == "" {
			p.Err = errors.New("license code and secret key must both be set")
		}
		p.SecretQuery = []string{"secret", "licenseCode"}
	},
}
