package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/inspect"
)

// memoryClient returns a client of a store in memory, and functions that accept an event in it,
// and end the task that is due.
func memoryClient(t *testing.T) (client *opsclient.Client, accept func(dedup.Claim) string, end func(dedup.Result)) {
	t.Helper()
	store := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = store.Close() })
	accept = func(c dedup.Claim) string {
		t.Helper()
		d, err := store.Claim(t.Context(), c)
		if err != nil || d[0].Verdict != dedup.New {
			t.Fatal(d, err)
		}
		return d[0].Record.Event
	}
	end = func(r dedup.Result) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w, err := store.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
		if err == nil {
			err = store.Finish(t.Context(), w[0].Lease, r)
		}
		check(t, err)
	}
	return opsclient.New(inspect.API(store)), accept, end
}

func refClaim(endpoint, id, vendor string) dedup.Claim {
	return dedup.Claim{
		Key:     dedup.Key{Principal: endpoint, Endpoint: endpoint, ID: id},
		Payload: dedup.Payload{Producer: endpoint, Endpoint: endpoint, VendorID: vendor, Body: []byte("body of " + id)},
		Tasks:   []dedup.NewTask{{Handler: "h"}},
	}
}

func TestEventsAreNamedByIdentifierOrPrefix(t *testing.T) {
	t.Parallel()
	client, accept, end := memoryClient(t)
	first := accept(refClaim("shop", "order-1", ""))
	end(dedup.Result{Kind: dedup.ResultDead, Reason: "exhausted"})
	second := accept(refClaim("gh", "order-1", "guid-1"))
	third := accept(refClaim("gh", "order-3", "guid-3"))
	var errs bytes.Buffer
	p := &program{Err: &errs}
	for _, tc := range []struct{ ref, state, want string }{
		{first, "", first}, {first, "pending", first}, {third[:12], "", third}, {"guid-1", "", second},
		{"order-3", "", third}, {"order-3", "dead", third}, {"order-1", "dead", first}, {"order-1", "pending", second},
		{third[:3], "", third[:3]}, {"nothing", "", "nothing"},
	} {
		got, err := resolve(t.Context(), p, client, tc.ref, tc.state)
		if got != tc.want || err != nil {
			t.Errorf("%q in state %q is %q, %v, want %q", tc.ref, tc.state, got, err, tc.want)
		}
	}
	if errs.Len() > 0 {
		t.Error(errs.String())
	}
	_, err := resolve(t.Context(), p, client, "order-1", "")
	if err == nil || err.Error() != "order-1 is the name of 2 events: name one by its id" {
		t.Error(err)
	}
	for _, want := range []string{"EVENT", first, second} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%s is not listed:\n%s", want, errs.String())
		}
	}
}

func TestForgettingErasesTheQuarantinedCopies(t *testing.T) {
	t.Parallel()
	client, accept, end := memoryClient(t)
	event := accept(refClaim("shop", "order-1", ""))
	aside := func(id string) string {
		c := refClaim("shop", id, "")
		c.Key.Space = dedup.SpaceQuarantine + "same_bytes"
		c.Quarantine = &dedup.Quarantine{Reason: "same_bytes", Of: event}
		return accept(c)
	}
	aside("copy-1")
	aside("copy-2")
	forget := func() (why string) {
		order := inspect.JobRequest{Action: "forget", Events: []string{event}}
		check(t, client.Job(t.Context(), order, func(line inspect.JobLine) error {
			why += line.Error
			return nil
		}))
		return why
	}
	if why := forget(); why != dedup.ErrOpen.Error() {
		t.Errorf("an open event: %q", why)
	}
	end(dedup.Result{Kind: dedup.ResultDone})
	other := accept(refClaim("shop", "order-2", ""))
	if why := forget(); why != "" {
		t.Error(why)
	}
	var left []string
	_, err := client.Each(t.Context(), nil, func(_ []byte, e inspect.Event) error {
		left = append(left, e.Event)
		return nil
	})
	if err != nil || len(left) != 1 || left[0] != other {
		t.Errorf("left are %v, %v", left, err)
	}
	if again := accept(refClaim("shop", "order-1", "")); again == event {
		t.Error("its id is used again")
	}
}
