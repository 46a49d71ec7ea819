package preset

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// This file has vendors that sign nothing: a shared credential, or an address, authenticates them.

// WebEngage receives webhooks of WebEngage. Its URL contains the license code, the account, and as
// "secret" the MD5 of license code and secret key in hex: a shared credential, so the query
// is kept out of logs. Nothing is signed. The vendor accepts only 200; how long it retries is
// not documented.
//
// https://docs.webengage.com/docs/webhooks
func WebEngage(account string, secrets ...string) producer.Producer {
	return webEngage.producer(Settings{Account: []string{account}, Secrets: secrets})
}

var webEngage = Preset{
	Name: "webengage", Docs: "https://docs.webengage.com/docs/webhooks", Auth: "MD5 in the query", ID: "x-request-id",
	Wants: "200 only", Uses: []string{"account", "secret"},
	needs: map[string]any{"account": "~17"},
	like: producer.Producer{
		Key: producer.Header("x-request-id"), Type: producer.Query("eventType"), Window: 2 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		var sums []string
		for _, secret := range s.Secrets {
			sum := md5.Sum([]byte(s.account() + ":" + secret)) // the vendor's formula; it hides nothing
			sums = append(sums, hex.EncodeToString(sum[:]))
		}
		signedBy(p, verify.All{verify.QueryValue("licenseCode", s.account()), verify.QueryValue("secret", sums...)})
		if s.account() == "" || len(sums) == 0 || slices.Contains(s.Secrets, "") {
			p.Err = errors.New("set account, which is the license code, and secret, which is the secret key")
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
	ID: "event and object id", Wants: "200; 24h", needs: map[string]any{"allowed_ips": []string{"127.0.0.1/32"}},
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
