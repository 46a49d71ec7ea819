package inspect_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

func TestUnverifiedEventsAreRedAndCannotBeSignedAgain(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	page := inspect.Page(inspect.Options{
		Store: store, Token: token,
		Producers: []producer.Producer{{Name: "shop", MonitorUntil: time.Now().Add(time.Hour)}},
		Send:      func(context.Context, dedup.Record, []byte) (inspect.Sent, error) { return inspect.Sent{}, nil },
	})
	t.Cleanup(page.Close)
	cookie := enter(page, "POST", "/ui/login", "", "token="+token).Header().Get("Set-Cookie")
	show := func(path string) string { return enter(page, "GET", path, cookie, "").Body.String() }
	for _, code := range []string{"signature_mismatch", ""} {
		decisions, err := store.Claim(t.Context(), dedup.Claim{
			Key:      dedup.Key{Principal: "shop", Endpoint: "shop", ID: "id" + code},
			Response: dedup.Response{Status: 202}, Payload: dedup.Payload{
				Producer: "shop", Endpoint: "shop", Method: "POST", Target: "/webhooks/shop", Body: []byte("{}"),
				Header:     http.Header{"Content-Type": {"application/json"}, inspect.FieldEdited: {"true"}},
				Attributes: map[string]string{receiver.UnverifiedAttribute: code},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		text := show("/ui/events/" + decisions[0].Record.Event)
		for part, unverified := range map[string]bool{
			">unverified</span></div>": true, "Not verified, and stored": true, "Verified and stored": false,
			"Edit and send": false, "Edited and sent from the inspector": false,
		} {
			if strings.Contains(text, part) != (unverified == (code != "")) {
				t.Errorf("%q: %q: %s", code, part, text)
			}
		}
	}
	for _, unverified := range []bool{true, false} {
		page.Observe(t.Context(), receiver.Observation{Kind: receiver.KindDelivery, Endpoint: "shop",
			Status: 202, Code: "accepted", New: true, Unverified: unverified})
		s := page.ProducerStates(t.Context())[0]
		if s.Last.IsZero() != unverified || s.LastAccepted.IsZero() != unverified {
			t.Errorf("after unverified deliveries only (%t): %+v", unverified, s.Traffic)
		}
	}
	if list := show("/ui/"); strings.Count(list, `<span class="bad">unverified</span>`) != 1 {
		t.Error(list)
	}
	if text := show("/ui/producers"); !strings.Contains(text, `<p class="fault">Until `) {
		t.Error(text)
	}
}
