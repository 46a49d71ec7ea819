package producer

import (
	"github.com/eyelet-dev/eyelet/verify"
)

// Signed describes a producer of your own: it signs its requests as RFC 9421 says, names each event in the
// Idempotency-Key field, and is answered as the Idempotency-Key draft says (the API contract). The event type
// is the member "type" of a JSON body; other bodies have none.
//
// The signature must cover what [verify.Coverage] lists and every header field that Key and Type read, also
// when they are changed afterwards. Identifiers are scoped to the signed URL, its query included, except the
// parameters in ScopeIgnores.
func Signed(name string, keys verify.KeySet) Producer {
	return Producer{
		Name:        name,
		Scheme:      &verify.RFC9421{Keys: keys},
		Contract:    API,
		Key:         IdempotencyKey{},
		KeyRequired: true,
		Type:        JSON("type"),
		SignsURL:    true,
		QueryScope:  true,
	}
}
