package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// The problem has a type, a Link to the policy and no-store, is the same for duplicates, and has
// a constant title (RFC 9457 section 3.1.3).
func TestARefusalOfAHandlerIsAProblem(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		for name, tt := range map[string]struct {
			response     Response
			err          error
			status       int
			code, detail string
		}{
			"rejected": {Response{Refusal: &Refusal{Detail: "sold out"}}, nil, 422, "rejected", "sold out"},
			"without words": {Response{Status: 451, Refusal: &Refusal{}}, nil, 451, "rejected",
				problemFor("rejected").Detail},
			"by the target": {Response{Status: 413,
				Refusal: &Refusal{ByTarget: true, Detail: "The target refused the event with status 413."}}, nil, 413,
				"target_refused", "The target refused the event with status 413."},
			"by Reject": {Response{}, Reject(errors.New("secret-reason")), 422, "rejected",
				problemFor("rejected").Detail},
			"not a refusal":     {Response{Status: 200, Refusal: &Refusal{}}, nil, 503, "answer_failed", ""},
			"nothing for good":  {Response{Status: 429, Refusal: &Refusal{}}, nil, 503, "answer_failed", ""},
			"a failing service": {Response{Status: 500, Refusal: &Refusal{}}, nil, 503, "answer_failed", ""},
		} {
			s := serve(t, p, nil, Answer("shop", "*",
				func(context.Context, Event[[]byte]) (Response, error) { return tt.response, tt.err }))
			for _, again := range []bool{false, true} {
				g := s.send(req{id: "k1"})
				t.Log(name)
				if !g.replayed() {
					wantProblem(t, g, tt.status, tt.code)
				}
				var body struct{ Title, Detail string }
				if err := json.Unmarshal([]byte(g.body), &body); err != nil ||
					tt.detail != "" && body.Detail != tt.detail ||
					body.Title != problemFor(verify.Code(tt.code)).Title {
					t.Errorf("%s: %s", name, g.body)
				}
				if g.status != tt.status || g.header.Get("Cache-Control") != "no-store" ||
					tt.status != 503 && g.replayed() != again {
					t.Errorf("%s: %v", name, g.header)
				}
			}
		}
	})
}
