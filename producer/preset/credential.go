package preset

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"net/netip"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// This file has vendors that sign nothing: a shared credential, or an address, authenticates them.

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
	Name: "webengage", Docs: "https://docs.webengage.com/docs/webhooks", Auth: "MD5 in the query", ID: "x-request-id",
	Wants: "200 only", Uses: []string{"license_code", "secret_key"},
	like: producer.Producer{
		Key: producer.Header("x-request-id"), Type: producer.Query("eventType"), Window: 2 * day,
	},
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

// YooKassa receives notifications of YooKassa. They are not authenticated at all: list the
// addresses that the vendor publishes, and have handlers ask the vendor's API for the object
// before they act. All facts here are general knowledge, not re-read.
//
// https://yookassa.ru/developers/using-api/webhooks
func YooKassa(allowed ...netip.Prefix) producer.Producer {
	return yooKassa.producer(Settings{AllowedIPs: allowed})
}

var yooKassa = Preset{
	Name: "yookassa", Docs: "https://yookassa.ru/developers/using-api/webhooks", Auth: "none: addresses only",
	ID: "event and object id", Wants: "200; 24h",
	like: producer.Producer{
		Key: producer.Join(producer.JSON("event"), producer.JSON("object.id")), Type: producer.JSON("event"),
		Window: 2 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		p.AllowedIPs = s.AllowedIPs
		if len(s.AllowedIPs) == 0 {
			p.Err = errors.New("notifications are not signed: allowed_ips must list the vendor's addresses")
		}
	},
}
