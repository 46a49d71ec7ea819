package receiver_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestAnEventIsADuplicateAfterItsProducerIsConfiguredOtherwise has a sender with several
// credentials, and each pair of configurations that verify one or two of them, before and after a
// reload or a restart.
func TestAnEventIsADuplicateAfterItsProducerIsConfiguredOtherwise(t *testing.T) {
	t.Parallel()
	forms := []string{
		"{body}", "{timestamp}.{body}", "{id}.{timestamp}.{body}", "{header:X-Event-Id}.{body}", "rfc9421", "bearer",
	}
	var signers []combined
	configured := map[string]verify.Scheme{}
	for i, form := range forms {
		s := combinedScheme(t, form, i)
		configured[form] = s.scheme
		for k, other := range signers {
			configured["any "+form+", "+forms[k]] = verify.Any{s.scheme, other.scheme}
			if form == "bearer" {
				configured["all bearer, "+forms[k]] = verify.All{other.scheme, s.scheme}
			}
		}
		signers = append(signers, s)
	}
	single := func(name string) bool { return slices.Contains(forms, name) }
	for before, old := range configured {
		for after, scheme := range configured {
			for _, how := range []string{"reload", "restart"} {
				if how == "restart" && !single(before) && !single(after) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %s", how, before, after), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { reconfigure(t, old, scheme, how == "restart", signers) })
				})
			}
		}
	}
}

func reconfigure(t *testing.T, before, after verify.Scheme, restarts bool, signers []combined) {
	clock, ran := deduptest.NewClock(), &runs{all: map[string]int{}, each: map[string]int{}}
	config := receiver.Config{
		Store: dedup.NewMemory(dedup.MemoryOptions{Clock: clock}), Clock: clock.Now,
		Handlers: []receiver.Handler{ran.handler("own", "*")},
	}
	of := func(scheme verify.Scheme) []producer.Producer {
		return []producer.Producer{{
			Name: "own", Scheme: scheme, Key: producer.Header("X-Event-Id"), Contract: producer.Webhook, SignsURL: true,
		}}
	}
	send := func(rx *receiver.Receiver, id, body, want string) {
		t.Helper()
		r := post("own", body, "Content-Type", "application/json", "X-Event-Id", id)
		for _, s := range signers {
			if err := s.sign(r, []byte(body), clock.Now()); err != nil {
				t.Fatal(err)
			}
		}
		w := answer(rx, r)
		got := "new"
		if w.Header().Get("Idempotency-Replayed") != "" {
			got = "known"
		}
		if w.Code != http.StatusOK || got != want {
			t.Errorf("%s, %s: %d, %s, want %s: %s", id, body, w.Code, got, want, w.Body)
		}
		synctest.Wait()
	}
	config.Producers = of(before)
	rx := opened(t, config)
	send(rx, "e1", `{"n":1}`, "new")
	send(rx, "e2", `{"n":2}`, "new")
	send(rx, "sha256:17", `{"n":17}`, "new")
	config.Producers = of(after)
	if restarts {
		if err := rx.Close(); err != nil {
			t.Fatal(err)
		}
		config.URL = publicBase
		next, err := receiver.Open(config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := next.Close(); err != nil {
				t.Error(err)
			}
		}()
		rx = next
	} else {
		rx = replaced(t, rx, config)
	}
	clock.Advance(time.Minute)
	for range 2 {
		send(rx, "e1", `{"n":1}`, "known")
		send(rx, "e2", `{"n":2}`, "known")
		send(rx, "sha256:17", `{"n":17}`, "known")
	}
	send(rx, "e3", `{"n":3}`, "new")
	want := 4
	if config.Producers[0].Class() == producer.ClassIDSigned { // else it may be a replay
		send(rx, "e4", `{"n":1}`, "new")
		want++
	}
	if ran.all["*"] != want {
		t.Errorf("%d runs, want %d", ran.all["*"], want)
	}
}
