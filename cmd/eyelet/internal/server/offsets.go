package server

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/refused"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// maxOffsets is how many other deliveries are shown beside one whose time is off.
const maxOffsets = 8

// timeCodes are the codes of deliveries that were refused for nothing but their time. Their
// signatures are good.
var timeCodes = []verify.Code{verify.TimestampTooOld, verify.TimestampTooNew}

// signedTimes knows when verified deliveries were signed.
type signedTimes struct {
	store   dedup.Store
	ring    *refused.Ring            // may be nil
	schemes map[string]verify.Scheme // by endpoint
}

func newSignedTimes(store dedup.Store, ring *refused.Ring, c *receiver.Config) *signedTimes {
	s := &signedTimes{store, ring, map[string]verify.Scheme{}}
	for i := range c.Producers {
		p := c.Producers[i].WithDefaults()
		s.schemes[p.Name] = p.Scheme
	}
	return s
}

// signed is a verified delivery with a signed time.
type signed struct {
	arrived time.Time
	offset  time.Duration // from the signed time to the arrival
}

// offsets returns how long before their arrival the other deliveries of the producer were signed,
// the newest first: those that the store has, and those that were refused for their time. It
// returns none beside a delivery whose time is not off.
func (s *signedTimes) offsets(ctx context.Context, f *receiver.Refused) (all []time.Duration) {
	scheme := s.schemes[f.Endpoint]
	if scheme == nil || !slices.Contains(timeCodes, f.Code) {
		return nil
	}
	var others []signed
	add := func(r *http.Request, arrived time.Time) {
		for _, c := range verify.ClaimedIn(scheme, r, nil) {
			if !c.SignedAt.IsZero() {
				others = append(others, signed{arrived, arrived.Sub(c.SignedAt)})
				return
			}
		}
	}
	for rec, err := range s.store.List(ctx, dedup.Filter{Endpoint: f.Endpoint, Limit: maxOffsets}) {
		if err != nil {
			break
		}
		r := &http.Request{Method: rec.Payload.Method, URL: &url.URL{}, Header: rec.Payload.Header}
		add(r, rec.Accepted)
	}
	for _, one := range s.refusedForTime(f) {
		add(one.Request, one.Time)
	}
	slices.SortStableFunc(others, func(a, b signed) int { return b.arrived.Compare(a.arrived) })
	for _, one := range others[:min(len(others), maxOffsets)] {
		all = append(all, one.offset)
	}
	return all
}

// refusedForTime returns the newest kept deliveries to the endpoint that were refused for their
// time, without the delivery itself.
func (s *signedTimes) refusedForTime(f *receiver.Refused) (all []receiver.Refused) {
	if s.ring == nil {
		return nil
	}
	for _, line := range s.ring.Refused() {
		if line.Endpoint != f.Endpoint || !slices.Contains(timeCodes, verify.Code(line.Code)) {
			continue
		}
		one, kept := s.ring.Kept(line.Number)
		if kept && !one.Time.Equal(f.Time) {
			all = append(all, one)
		}
		if len(all) == maxOffsets {
			break
		}
	}
	return all
}
