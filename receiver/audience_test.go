package receiver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestADeliveryForAnotherReceiverIsRefused: a vendor signs for all of its customers with one key,
// and a secret may be that of several endpoints.
func TestADeliveryForAnotherReceiverIsRefused(t *testing.T) {
	t.Parallel()
	key, public := ed25519Pair(t)
	secret := verify.Signer{KeyID: "k1", Secret: []byte(secret17 + "own")}
	signed := func(name string, key verify.Key, audience producer.Extractor) producer.Producer {
		p := producer.Producer{Name: name, Scheme: &verify.RFC9421{Keys: verify.StaticKeys(key)},
			Key: producer.JSON("id"), Contract: producer.Webhook}
		if audience != nil {
			p.Audience = &producer.Audience{From: audience, Is: "us"}
		}
		return p
	}
	byBody, byField := producer.JSON("to"), producer.Header("X-To")
	const ours, theirs = `{"id":"e1","to":"us"}`, `{"id":"e1","to":"them"}`
	byMember, inField := signed("own", key, byBody), signed("own", key, byField)
	none, uncovered := []string{"content-digest"}, verify.InsufficientCoverage
	withTo := []string{"content-digest", "content-type", "x-to"}
	for name, tt := range map[string]struct {
		own    producer.Producer
		beside []producer.Producer
		signer verify.Signer
		covers []string // besides content-type
		url    string   // the host that is signed; defaults to ours
		field  string   // X-To
		body   string   // defaults to ours
		want   verify.Code
	}{
		"another customer's URL": {own: signed("own", key, nil), signer: public, url: "them.example",
			covers: []string{"@target-uri", "content-digest"}, want: "signature_invalid"},
		"no URL, a public key": {own: signed("own", key, nil), signer: public, covers: none, want: uncovered},
		"our member":           {own: byMember, signer: public, covers: none},
		"another member": {own: byMember, signer: public, covers: none,
			body: theirs, want: verify.AudienceMismatch},
		"no member": {own: byMember, signer: public, covers: none,
			body: `{"id":"e1"}`, want: verify.AudienceMismatch},
		"two members": {own: byMember, signer: public, covers: none,
			body: `{"id":"e1","to":"us","to":"them"}`, want: verify.AmbiguousField},
		"another member and URL": {own: byMember, signer: public, covers: []string{"@target-uri", "content-digest"},
			body: theirs, want: verify.AudienceMismatch},
		"our field":              {own: inField, signer: public, covers: withTo, field: "us"},
		"our field, not covered": {own: inField, signer: public, covers: none, field: "us", want: uncovered},
		"no field":               {own: inField, signer: public, covers: none, want: verify.AudienceMismatch},
		"a secret of ours alone": {own: signed("own", secretKey(t, "own"), nil), signer: secret, covers: none,
			beside: []producer.Producer{signed("other", key, nil)}},
		"a secret of two": {own: signed("own", secretKey(t, "own"), nil), signer: secret, covers: none,
			beside: []producer.Producer{signed("other", secretKey(t, "own"), nil)}, want: uncovered},
		"a member for two": {own: byMember, signer: public, covers: none,
			beside: []producer.Producer{signed("other", key, byField)}, want: uncovered},
	} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			handler := receiver.On("own", "*", func(context.Context, receiver.Event[[]byte]) error {
				runs++
				return nil
			})
			own := tt.own
			own.MediaTypes = []string{"application/json"}
			rx := opened(t, receiver.Config{
				Store: memstore.New(memstore.Options{}), Handlers: []receiver.Handler{handler},
				Producers: append([]producer.Producer{own}, tt.beside...),
			})
			body := tt.body
			if body == "" {
				body = ours
			}
			r := request(http.MethodPost, "/webhooks/own", body)
			if tt.field != "" {
				r.Header.Set("X-To", tt.field)
			}
			to := *r.URL
			if tt.url != "" {
				r.URL.Host, r.Host = tt.url, tt.url
			}
			signer := tt.signer
			signer.Components = tt.covers
			if err := signer.Sign(r, []byte(body), time.Now()); err != nil {
				t.Fatal(err)
			}
			r.URL, r.Host = &to, to.Host
			w := answer(rx, r)
			synctest.Wait()
			if want := tt.want; want == "" && (w.Code != http.StatusOK || runs != 1) {
				t.Errorf("%s: %d, %d runs: %s", name, w.Code, runs, w.Body)
			} else if want != "" && (w.Code/100 != 4 || runs != 0 || !strings.Contains(w.Body.String(), string(want))) {
				t.Errorf("%s: %d, %d runs: %s", name, w.Code, runs, w.Body)
			}
		})
	}
}

// TestAPathThatIsNotSignedIsNotShown: handlers get that of the endpoint, and functions behind
// Verified, which get the request, only a signed one.
func TestAPathThatIsNotSignedIsNotShown(t *testing.T) {
	t.Parallel()
	secret := verify.Signer{KeyID: "k1", Secret: []byte(secret17 + "own")}
	own := producer.Producer{Name: "own", Key: producer.JSON("id"), Contract: producer.Webhook,
		Scheme: &verify.RFC9421{Keys: verify.StaticKeys(secretKey(t, "own"))}}
	var seen []string
	handler := receiver.On("own", "*", func(_ context.Context, ev receiver.Event[[]byte]) error {
		seen = append(seen, ev.Target)
		return nil
	})
	send := func(rx http.Handler, id string, covers ...string) int {
		body := `{"id":"` + id + `"}`
		r := request(http.MethodPost, "/tenant-2/webhooks/own", body)
		signer := secret
		signer.Components = append(covers, "content-digest", "content-type")
		if err := signer.Sign(r, []byte(body), time.Now()); err != nil {
			t.Fatal(err)
		}
		r.RequestURI = "/tenant-2/webhooks/own"
		w := httptest.NewRecorder()
		http.StripPrefix("/tenant-2", rx).ServeHTTP(w, r)
		return w.Code
	}
	synctest.Test(t, func(t *testing.T) {
		config := receiver.Config{Store: memstore.New(memstore.Options{}), Producers: []producer.Producer{own},
			Handlers: []receiver.Handler{handler}}
		rx := opened(t, config).Handler()
		one := send(rx, "e1")
		synctest.Wait()
		other := send(rx, "e2", "@path")
		synctest.Wait()
		if one != 200 || other != 200 || !slices.Equal(seen, []string{"/webhooks/own", "/tenant-2/webhooks/own"}) {
			t.Error(one, other, seen)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		config := receiver.Config{Store: memstore.New(memstore.Options{}), Producers: []producer.Producer{own},
			Handlers: []receiver.Handler{receiver.Inline("own", "*")}}
		routed := opened(t, config)
		rx := routed.Verified("own")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		if none, both := send(rx, "e1"), send(rx, "e2", "@target-uri"); none != 401 || both != 200 {
			t.Error(none, both)
		}
	})
}
