package deduptest

import (
	"bytes"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

func key(id string) dedup.Key {
	return dedup.Key{Principal: "shop", Endpoint: "orders", ID: id}
}

func fingerprint(b byte) dedup.Fingerprint {
	return dedup.Fingerprint{0: 1, dedup.FingerprintLeast - 1: b}
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
		Response: dedup.Response{Status: 202, Body: []byte("accepted")},
		Tasks:    []dedup.NewTask{{Handler: "ship"}},
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

// brief is an event without tasks. Its window is an hour and starts at once.
func brief(id string) dedup.Claim { return windowed(handled(id), hour) }

func windowed(c dedup.Claim, window time.Duration) dedup.Claim {
	c.Window = window
	return c
}

// bulky is an ordinary event with a large response.
func bulky(id string) dedup.Claim {
	c := delivery(id)
	c.Response.Body = bytes.Repeat([]byte("a response "), 15<<10)
	return c
}

// altered is the claim of another payload under the same key.
func altered(c dedup.Claim) dedup.Claim {
	c.Fingerprint = fingerprint(2)
	return c
}

// asking is the claim with OnlyKnown.
func asking(c dedup.Claim) dedup.Claim {
	c.OnlyKnown = true
	return c
}

// held is an ordinary event whose handler answers the request itself, for a minute.
func held(id string) dedup.Claim {
	c := delivery(id)
	c.Response, c.Hold, c.Lease = dedup.Response{}, true, minute
	return c
}

func signed(id string) dedup.Key {
	return dedup.Key{Principal: "shop", Endpoint: "orders", Space: dedup.SpaceSigned, ID: id}
}

func nonce(id string) dedup.Key {
	return dedup.Key{Principal: "shop", Endpoint: "orders", Space: dedup.SpaceNonce, ID: id}
}

// laned is an event whose only task is in a lane.
func laned(id, lane string) dedup.Claim {
	c := delivery(id)
	c.Tasks = []dedup.NewTask{{Handler: "ship", Lane: lane}}
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

func slot(id string) dedup.Key {
	return dedup.Key{Principal: "shop", Endpoint: "orders", Space: dedup.SpaceSlot, ID: id}
}
