package preset

import (
	"errors"
	"net/netip"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
)

// YooKassa receives notifications of YooKassa. They are not authenticated at all, so the addresses that the vendor
// publishes must be listed, and a careful handler asks the vendor's API for the object before it acts. All facts
// here are general knowledge, not re-read.
//
// https://yookassa.ru/developers/using-api/webhooks
func YooKassa(allowed ...netip.Prefix) producer.Producer {
	p := webhook("yookassa", "https://yookassa.ru/developers/using-api/webhooks")
	p.AllowedIPs = allowed
	if len(allowed) == 0 {
		p.Err = errors.New("notifications are not signed: allowed_ips must list the vendor's addresses")
	}
	p.Key = producer.Join(producer.JSON("event"), producer.JSON("object.id"))
	p.Type = producer.JSON("event")
	p.Window = 48 * time.Hour
	return p
}
