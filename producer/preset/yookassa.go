package preset

import (
	"errors"
	"net/netip"

	"github.com/eyelet-dev/eyelet/producer"
)

// YooKassa receives notifications of YooKassa. They are not authenticated at all: list the
// addresses that the vendor publishes, and have handlers ask the vendor's API for the object
// before they act. All facts here are general knowledge, not re-read.
//
// https://yookassa.ru/developers/using-api/webhooks
func YooKassa(allowed ...netip.Prefix) producer.Producer {
	return yooKassa.producer(Settings{AllowedIPs: allowed})
}

var yooKassa = Preset{
	Name: "yookassa", Docs: "https://yookassa.ru/developers/using-api/webhooks",
	Auth: "none: addresses only", ID: "event and object id", Wants: "200; 24h",
	key: producer.Join(producer.JSON("event"), producer.JSON("object.id")), kind: producer.JSON("event"),
	window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		p.AllowedIPs = s.AllowedIPs
		if len(s.AllowedIPs) == 0 {
			p.Err = errors.New("notifications are not signed: allowed_ips must list the vendor's addresses")
		}
	},
}
