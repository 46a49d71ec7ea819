package inspect

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/receiver"
)

const (
	maxSeen       = 1024 // deliveries without an event of their own that are remembered
	maxReaders    = 16
	readerBacklog = 256 // rows that a slow reader may be behind; it loses those beyond
	maxEndpoints  = 512 // endpoints come from the configuration
)

// seen is a delivery or an attempt.
type seen struct {
	at time.Time
	receiver.Observation
}

// activity is what the receiver did recently, in memory. New events are in the store; duplicates
// and refused deliveries are nowhere else.
type activity struct {
	mu      sync.Mutex
	seen    []seen // newest last
	history *history
	traffic map[string]*Traffic
	readers map[chan seen]bool
}

// Traffic is what came to an endpoint since the start of the process.
type Traffic struct {
	Accepted   int `json:"accepted"`
	Duplicates int `json:"duplicates"`
	Refused    int `json:"refused"`
	// Last is the time of the last verified delivery, LastAccepted that of the last new event of
	// one, and LastRefused that of the last refusal, with its status and precise code.
	Last          time.Time `json:"last,omitzero"`
	LastAccepted  time.Time `json:"last_accepted,omitzero"`
	LastRefused   time.Time `json:"last_refused,omitzero"`
	RefusedStatus int       `json:"refused_status,omitempty"`
	RefusedCode   string    `json:"refused_code,omitempty"`
	// Secrets are the secrets or keys that verified deliveries, in their order, where the scheme
	// says which.
	Secrets []SecretUse `json:"secrets,omitempty"`
	// Age is how long before its arrival the last delivery with a signed time was signed, in
	// seconds, and OldestAge the longest of all; negative if the clock of the sender is ahead.
	Age       *float64 `json:"signed_age,omitempty"`
	OldestAge *float64 `json:"signed_age_max,omitempty"`
}

// SecretUse is what a secret or key of a producer verified.
type SecretUse struct {
	Secret     int       `json:"secret"` // its position, from 1
	Deliveries int       `json:"deliveries"`
	Last       time.Time `json:"last"`
}

// maxSecrets bounds the secrets that are counted; their positions come from the configuration.
const maxSecrets = 64

// verified notes the secret and the signed time of a verified delivery.
func (t *Traffic) verified(s seen) {
	if s.Secret > 0 {
		i, found := slices.BinarySearchFunc(t.Secrets, s.Secret, func(u SecretUse, n int) int { return u.Secret - n })
		if !found && len(t.Secrets) < maxSecrets {
			t.Secrets, found = slices.Insert(t.Secrets, i, SecretUse{Secret: s.Secret}), true
		}
		if found {
			t.Secrets[i].Deliveries++
			t.Secrets[i].Last = s.at
		}
	}
	if s.Signed {
		age := s.SignedAge.Seconds()
		if t.Age = &age; t.OldestAge == nil || age > *t.OldestAge {
			t.OldestAge = &age
		}
	}
}

func newActivity(h *history) *activity {
	return &activity{history: h, traffic: map[string]*Traffic{}, readers: map[chan seen]bool{}}
}

// observe never blocks.
func (a *activity) observe(_ context.Context, o receiver.Observation) {
	if o.Kind != receiver.KindDelivery && o.Kind != receiver.KindAttempt {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := seen{time.Now().UTC(), o}
	a.history.count(&s)
	if o.Kind == receiver.KindDelivery {
		a.count(s)
		if s.verdict() == duplicate || s.verdict() == refused {
			if len(a.seen) == maxSeen {
				a.seen = slices.Delete(a.seen, 0, maxSeen/4)
			}
			a.seen = append(a.seen, s)
		}
	}
	for r := range a.readers {
		select {
		case r <- s:
		default:
		}
	}
}

// verdict is the result of a delivery.
type verdict string

const (
	accepted    verdict = "accepted"
	duplicate   verdict = "duplicate"
	quarantined verdict = "quarantined"
	handshake   verdict = "handshake"
	refused     verdict = "refused"
)

func (s *seen) verdict() verdict {
	switch {
	case s.Status >= 400:
		return refused
	case s.Code == "replayed":
		return duplicate
	case s.Code == "quarantined":
		return quarantined
	case s.Code == "accepted" || s.Code == "answered":
		return accepted
	}
	return handshake
}

// count adds a delivery to its endpoint.
func (a *activity) count(s seen) {
	h := a.traffic[s.Endpoint]
	if h == nil {
		if h = (&Traffic{}); len(a.traffic) < maxEndpoints {
			a.traffic[s.Endpoint] = h
		}
	}
	h.verified(s)
	switch s.verdict() {
	case refused:
		h.Refused++
		h.LastRefused, h.RefusedStatus, h.RefusedCode = s.at, s.Status, string(s.Code)
		return
	case accepted:
		h.Accepted++
		if !s.Unverified {
			h.LastAccepted = s.at
		}
	case duplicate, quarantined:
		h.Duplicates++
	case handshake:
	}
	if !s.Unverified {
		h.Last = s.at
	}
}

// recent returns the duplicates and refused deliveries that are remembered, newest first.
func (a *activity) recent() []seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := slices.Clone(a.seen)
	slices.Reverse(out)
	return out
}

// of returns the traffic of an endpoint.
func (a *activity) of(endpoint string) Traffic {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.traffic[endpoint]; h != nil {
		t := *h
		t.Secrets = slices.Clone(t.Secrets)
		return t
	}
	return Traffic{}
}

// add adds a reader; nil if there are too many.
func (a *activity) add() chan seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.readers) >= maxReaders {
		return nil
	}
	r := make(chan seen, readerBacklog)
	a.readers[r] = true
	return r
}

func (a *activity) remove(r chan seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.readers, r)
}
