package deduptest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
)

func key(id string) dedup.Key { return named("", id) }

// nonce is an alias.
func nonce(id string) dedup.Key { return named(dedup.SpaceNonce, id) }

func named(space, id string) dedup.Key {
	return dedup.Key{Principal: "shop", Endpoint: "orders", Space: space, ID: id}
}

func fingerprint(b byte) dedup.Fingerprint {
	return dedup.Fingerprint{0: 1, 15: b}
}

// delivery is an ordinary event with one task.
func delivery(id string) dedup.Claim {
	return dedup.Claim{
		Key:         key(id),
		Fingerprint: fingerprint(1),
		Payload: dedup.Payload{
			Producer: "shop", Endpoint: "orders", Type: "order.paid", KeyField: `"` + id + `"`,
			Method: http.MethodPost, Target: "/webhooks/orders?x=%41",
			Header:     http.Header{"Content-Type": {"application/json"}},
			Attributes: map[string]string{"source": "till 7"},
			Body:       []byte("body of " + id),
		},
		Response: dedup.Response{
			Status: 202, Header: http.Header{"Location": {"/a"}}, Body: []byte("accepted"),
		},
		Tasks: []dedup.NewTask{{Handler: "ship"}},
	}
}

// aliased is an ordinary event with aliases.
func aliased(id string, aliases ...dedup.Key) dedup.Claim {
	c := delivery(id)
	c.Aliases = aliases
	return c
}

// handled is an ordinary event with a task for each handler.
func handled(id string, handlers ...string) dedup.Claim {
	c := delivery(id)
	c.Tasks = nil
	for _, h := range handlers {
		c.Tasks = append(c.Tasks, dedup.NewTask{Handler: h})
	}
	return c
}

// laned is an event whose only task is in a lane.
func laned(id, lane string) dedup.Claim {
	c := delivery(id)
	c.Tasks[0].Lane = lane
	return c
}

// held is an ordinary event whose handler answers the request itself, for a minute.
func held(id string) dedup.Claim {
	c := delivery(id)
	c.Response, c.Hold, c.Lease = dedup.Response{}, true, minute
	return c
}

// digested is a claim of a named occurrence, whose key is a digest of its content.
func digested(digest, name string, most int) dedup.Claim {
	c := delivery(digest)
	c.Payload.VendorID = name
	c.Occurrence = &dedup.Occurrence{Name: name, Max: most}
	return c
}

// content is a claim of a series without tasks, with a window of an hour.
func content(id, series string) dedup.Claim {
	c := windowed(handled(id), hour)
	c.Series = named(dedup.SpaceSeries, series)
	return c
}

// remembered is an event without tasks that happened at a time, which may be unknown. Its window is
// an hour, and its key is remembered.
func remembered(id string, at time.Time) dedup.Claim {
	c := windowed(handled(id), hour)
	c.Remember = &dedup.Remember{Time: at}
	return c
}

// quarantineOf is another payload of the original's key, numbered n.
func quarantineOf(original dedup.Record, n, most int) dedup.Claim {
	c := delivery(original.Key.ID)
	c.Fingerprint = fingerprint(byte(n))
	c.Key.Space = fmt.Sprint(dedup.SpaceQuarantine, n)
	c.Quarantine = &dedup.Quarantine{Reason: "conflict", Of: original.Event, Max: most}
	return c
}

func windowed(c dedup.Claim, window time.Duration) dedup.Claim {
	c.Window = window
	return c
}

// altered is the claim of another payload under the same key.
func altered(c dedup.Claim) dedup.Claim {
	c.Fingerprint = fingerprint(2)
	return c
}

func done() dedup.Result { return dedup.Result{Kind: dedup.ResultDone} }

func dead() dedup.Result {
	return dedup.Result{Kind: dedup.ResultDead, Reason: "exhausted", Err: "no more attempts"}
}

func release() dedup.Result { return dedup.Result{Kind: dedup.ResultRelease} }

func retry(after time.Duration) dedup.Result {
	return dedup.Result{Kind: dedup.ResultRetry, After: after, Reason: "failed", Err: "connection refused"}
}

func answer(status int, body string) dedup.Result {
	return dedup.Result{Kind: dedup.ResultDone, Response: dedup.Response{
		Status: status, Body: []byte(body),
		Header: http.Header{"Content-Type": {"text/plain"}, "Location": {"/orders/1"}},
	}}
}

// resultsOf gives each task the result.
func resultsOf(r dedup.Result, ws ...dedup.Work) (all []dedup.LeaseResult) {
	for _, w := range ws {
		all = append(all, dedup.LeaseResult{Lease: w.Lease, Result: r})
	}
	return all
}

// wanting is a Want of one task. Handlers are missing after an hour.
func wanting(handlers ...string) dedup.Want {
	return dedup.Want{Tasks: 1, Bytes: 1 << 30, Lease: minute, Handlers: handlers, OrphanAfter: hour}
}
