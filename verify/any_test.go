package verify_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// counted is a scheme with a fixed result that counts its verifications.
type counted struct {
	err   error
	calls int
	binds verify.Binding
}

func (c *counted) Verify(_ *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	c.calls++
	if _, err := body(); err != nil {
		return verify.Identity{}, err
	}
	return verify.Identity{KeyID: "k"}, c.err
}

func (c *counted) Binds() verify.Binding { return c.binds }

func refusal(code verify.Code) error { return &verify.Error{Code: code} }

// TestAnyRefusesOnceForBothSchemes: each scheme verifies at most once, and a scheme whose
// credential the request has explains the refusal.
func TestAnyRefusesOnceForBothSchemes(t *testing.T) {
	t.Parallel()
	missing, token := refusal(verify.SignatureMissing), refusal(verify.TokenMissing)
	mismatch, stale := refusal(verify.SignatureMismatch), refusal(verify.TimestampMissing)
	down := refusal(verify.KeysUnavailable)
	for name, tt := range map[string]struct {
		first, second, want error
		calls               int
	}{
		"the first":             {nil, mismatch, nil, 1},
		"the second":            {mismatch, nil, nil, 2},
		"neither credential":    {missing, token, missing, 2},
		"only the second":       {missing, mismatch, mismatch, 2},
		"only the first":        {mismatch, token, mismatch, 2},
		"both":                  {mismatch, stale, mismatch, 2},
		"keys of the second":    {mismatch, down, down, 2},
		"keys of the first":     {down, mismatch, down, 2},
		"keys, and a signature": {down, nil, nil, 2},
	} {
		one, other := &counted{err: tt.first}, &counted{err: tt.second}
		r := httptest.NewRequest(http.MethodPost, "https://hooks.example/x", nil)
		id, err := verify.Any{one, other}.Verify(r, func() ([]byte, error) { return nil, nil })
		if !errors.Is(err, tt.want) || one.calls+other.calls != tt.calls || (err == nil) != (id.KeyID == "k") {
			t.Errorf("%s: %v, %v after %d verifications", name, id, err, one.calls+other.calls)
		}
	}
	cut := errors.New("cut off")
	one, other := &counted{}, &counted{}
	_, err := verify.Any{one, other}.Verify(nil, func() ([]byte, error) { return nil, cut })
	if !errors.Is(err, cut) || other.calls != 0 {
		t.Errorf("a body that did not arrive: %v, %d verifications", err, other.calls)
	}
}

func TestAnyBindsWhatBothBind(t *testing.T) {
	t.Parallel()
	signed := &counted{binds: verify.Binding{
		Content: true, Time: true, Covered: []string{"@body", "webhook-id", "@path"}, Malleable: true,
	}}
	url := &counted{binds: verify.Binding{Content: true, Covered: []string{"@target-uri", "webhook-id"}}}
	b := verify.Any{signed, url}.Binds()
	if !b.Content || b.Time || !b.Malleable || !slices.Equal(b.Covered, []string{"webhook-id", "@path"}) {
		t.Errorf("it binds %+v", b)
	}
	if b = (verify.Any{signed, verify.BearerToken("x")}).Binds(); b.Content || len(b.Covered) > 0 {
		t.Errorf("with a token it binds %+v", b)
	}
	if err := (verify.Any{signed, nil}).Check(); err == nil {
		t.Error("one scheme is enough")
	}
	if err := (verify.Any{signed, verify.BearerToken()}).Check(); err == nil {
		t.Error("errors of the schemes are lost")
	}
	rotating := verify.Any{verify.BearerToken("x"), verify.Basic("a", "b")}
	if text := rotating.String(); text != "a fixed bearer token (RFC 6750), or basic authentication (RFC 7617)" {
		t.Error(text)
	}
	r := httptest.NewRequest(http.MethodPost, "https://hooks.example/x", nil)
	if err := rotating.Sign(r, nil, time.Now()); err != nil || r.Header.Get("Authorization") != "Bearer x" {
		t.Errorf("%v, %v", r.Header, err)
	}
}
