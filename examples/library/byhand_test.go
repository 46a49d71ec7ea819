package library

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	echov4 "github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/receivertest"
)

// TestRoutesBehindAReceiverReplaceThoseByHand: both refuse what is not GitHub's, and only one of
// them runs once.
func TestRoutesBehindAReceiverReplaceThoseByHand(t *testing.T) {
	t.Parallel()
	const secret = "a long secret"
	for name, row := range map[string]struct {
		route func(*receiver.Receiver, func(string) error) (http.Handler, error)
		runs  int
	}{
		"v4 by hand": {func(_ *receiver.Receiver, deploy func(string) error) (http.Handler, error) {
			e := echov4.New()
			routeByHand(e, []byte(secret), deploy)
			return e, nil
		}, 2},
		"v5 by hand": {func(_ *receiver.Receiver, deploy func(string) error) (http.Handler, error) {
			e := echov5.New()
			routeByHandV5(e, []byte(secret), deploy)
			return e, nil
		}, 2},
		"v4": {func(rx *receiver.Receiver, deploy func(string) error) (http.Handler, error) {
			e := echov4.New()
			return e, routeVerified(e, rx, deploy)
		}, 1},
		"v5": {func(rx *receiver.Receiver, deploy func(string) error) (http.Handler, error) {
			e := echov5.New()
			return e, routeVerifiedV5(e, rx, deploy)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rx := receivertest.New(t, receiver.Config{
				Producers: []producer.Producer{preset.GitHub(secret)},
				Handlers:  []receiver.Handler{receiver.Inline("github", "push")},
			})
			var refs []string
			route, err := row.route(rx.Receiver, func(ref string) error { refs = append(refs, ref); return nil })
			if err != nil {
				t.Fatal(err)
			}
			signed := rx.Request("github", "push", push{Ref: "main"})
			body, err := io.ReadAll(signed.Body)
			for _, sent := range []struct {
				body   []byte
				status int
			}{{body, 204}, {body, 204}, {append([]byte(" "), body...), 401}} {
				r := httptest.NewRequest("POST", "/hooks/github", bytes.NewReader(sent.body))
				r.Header = signed.Header.Clone()
				w := httptest.NewRecorder()
				if route.ServeHTTP(w, r); w.Code != sent.status {
					t.Errorf("%d, want %d: %s", w.Code, sent.status, w.Body)
				}
			}
			if err != nil || len(refs) != row.runs || refs[0] != "main" {
				t.Errorf("deployed %v, want %d times: %v", refs, row.runs, err)
			}
		})
	}
}
