package forward_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestTheReplyOfAFailingTargetIsKeptWithoutCredentials has a target that echoes what it gets.
func TestTheReplyOfAFailingTargetIsKeptWithoutCredentials(t *testing.T) {
	t.Parallel()
	const token = "t0ken/with+signs"
	large := strings.Repeat("x", forward.MaxResponse+9)
	for name, row := range map[string]struct {
		status int
		coding string
		body   string
		omit   bool
		want   string // "" is none, else a part
	}{
		"an error":        {status: 500, body: "database is locked\x00\x1b[1m", want: "database is locked\x00\x1b[1m"},
		"a refusal":       {status: 422, body: "no such order", want: "no such order"},
		"not UTF-8":       {status: 500, body: "a\xffb", want: "a\uFFFDb"},
		"a large page":    {status: 502, body: large, want: large[:2<<10]},
		"an echo":         {status: 500, body: "you sent Bearer " + token + " to ?key=s3cret-in-url", want: "REDACTED"},
		"a coded body":    {status: 500, coding: "gzip", body: "\x1f\x8b"},
		"accepted":        {status: 200, body: "thanks"},
		"switched off":    {status: 500, body: "database is locked", omit: true},
		"without content": {status: 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if row.coding != "" {
					w.Header().Set("Content-Encoding", row.coding)
				}
				w.WriteHeader(row.status)
				_, _ = w.Write([]byte(row.body))
			}))
			defer srv.Close()
			target, err := forward.New(forward.Config{
				Name: "t", URL: srv.URL + "/?key=s3cret-in-url", State: forward.NewState(), OmitReplies: row.omit,
				Credentials: func(context.Context, bool) (forward.Credentials, error) {
					return forward.Credentials{Authorization: verify.Secret("Bearer " + token)}, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close() //nolint:errcheck // it only closes connections
			r := target.Deliver(t.Context(), forward.Event{Key: `"k"`, Body: []byte("{}")})
			if row.want == "" && r.Reply != "" || !strings.Contains(r.Reply, row.want) {
				t.Errorf("kept %.80q, want %.80q", r.Reply, row.want)
			}
			if strings.Contains(r.Reply, token) || strings.Contains(r.Reply, "s3cret") {
				t.Errorf("kept %q", r.Reply)
			}
		})
	}
}
