package receiver

import (
	"net/http"
	"time"
)

// Event is what a handler gets.
type Event[T any] struct {
	// ID is the idempotency identifier, as the producer chose it. Pass it on to make effects of your own
	// idempotent.
	ID string
	// EventID is our own opaque id of the event; it is never used again.
	EventID string
	// Producer, Endpoint and Principal say who sent it to where.
	Producer, Endpoint, Principal string
	// Type is the event type.
	Type string
	// Attempt is 1 the first time the handler sees the event.
	Attempt int
	// Accepted is when the event was first accepted; it stays the same over retries and reopening.
	Accepted time.Time
	// KeyField is the field value that carried the identifier, octet for octet; empty where none did.
	KeyField string
	// Header holds the kept header fields; Authorization and Cookie never are.
	Header http.Header
	// Attributes are facts that the producer's description reads from the delivery, such as source, subject
	// and time of a CloudEvent.
	Attributes map[string]string
	// Body is the payload exactly as it arrived.
	Body []byte
	// Data is the payload decoded.
	Data T
}

// Response is what an Answer handler sends back. It is stored and repeated to duplicates.
type Response struct {
	// Status is 200 to 299 or 400 to 599, but not 207. Defaults to 200, or, without a body, to 204 under the
	// API contract (several vendors accept only 200). 408, 425, 429 and 5xx are sent but not stored: the next
	// delivery runs the handler again.
	Status int
	// Header fields to send; Content-Type defaults to application/json.
	Header http.Header
	// Body of at most 1 MiB.
	Body []byte
}
