package preset

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// This file has vendors that sign nothing: a shared credential, or an address, authenticates them.

var webEngage = Preset{
	Name: "webengage",
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

var yooKassa = Preset{
	Name: "yookassa", needs: map[string]any{"allowed_ips": []string{"127.0.0.1/32"}},
	build: func(p *producer.Producer, s Settings) {
		p.AllowedIPs = s.AllowedIPs
		if len(s.AllowedIPs) == 0 {
			p.Err = errors.New("notifications are not signed: allowed_ips must list the vendor's addresses")
		}
	},
}
