package producer

import (
	"github.com/eyelet-dev/eyelet/verify"
)

// Signed describes a producer of your own. It signs requests with RFC 9421, identifies each
// event in the field Idempotency-Key, and gets the responses of the Idempotency-Key draft (the
// API contract). The event type is the member "type" of a JSON body; other bodies have none.
//
// The signature must cover what [verify.Coverage] lists and every header field that Key and
// Type read, even if they are changed later. Identifiers are scoped to the signed URL,
// including its query without ScopeIgnores.
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
