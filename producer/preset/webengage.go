package preset

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// WebEngage receives webhooks of WebEngage. Its URL carries the license code, and as "secret" the MD5 of
// licenseCode:secretKey in hex: a shared credential that never changes, so the query is kept out of logs.
// Nothing is signed. The vendor wants 200, nothing else; how long it tries was not found written.
//
// https://docs.webengage.com/docs/webhooks
func WebEngage(licenseCode, secretKey string) producer.Producer {
	p := webhook("webengage", "https://docs.webengage.com/docs/webhooks")
	sum := md5.Sum([]byte(licenseCode + ":" + secretKey)) // the vendor's formula; it hides nothing
	p = signedBy(p, verify.All{
		verify.QueryValue("licenseCode", licenseCode), verify.QueryValue("secret", hex.EncodeToString(sum[:])),
	})
	if licenseCode == "" || secretKey == "" {
		p.Err = errors.New("license code and secret key must both be set")
	}
	p.Key = producer.Header("x-request-id")
	p.Type = producer.Query("eventType")
	p.SecretQuery = []string{"secret", "licenseCode"}
	p.Window = 48 * time.Hour
	return p
}
