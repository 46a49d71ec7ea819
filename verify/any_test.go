package verify_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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

// TestAnyNamesAMessageAlikeWhicheverSchemeAccepts removes each of two signatures of a message.
func TestAnyNamesAMessageAlikeWhicheverSchemeAccepts(t *testing.T) {
	t.Parallel()
	hmac := func(n, content, clock string) *verify.HMAC {
		h := &verify.HMAC{Headers: []string{"X-Signature-" + n}, Encoding: verify.Hex, Content: content,
			Secrets: verify.Secrets("the-kettle-is-on-" + n)}
		if strings.Contains(content, "{timestamp}") {
			h.TimestampHeaders = []string{clock}
		}
		if strings.Contains(content, "{id}") {
			h.IDHeaders = []string{"X-Id"}
		}
		return h
	}
	for name, tt := range map[string]struct {
		one, other verify.Scheme
		covers     string // beside the body
		timed      bool
	}{
		"body, id": {one: hmac("1", "{body}", ""), other: hmac("2", "{id}.{timestamp}.{body}", "X-Time")},
		"id, id":   {hmac("1", "{id}.{body}", ""), hmac("2", "{id}.{timestamp}.{body}", "X-Time"), "x-id", false},
		"one clock": {
			hmac("1", "{timestamp}.{body}", "X-Time"), hmac("2", "{body}.{timestamp}", "X-Time"), "x-time", true,
		},
		"two clocks": {
			one: hmac("1", "{timestamp}.{body}", "X-Time"), other: hmac("2", "{body}.{timestamp}", "X-Date"),
		},
		"canonical, body": {one: hmac("1", "{jcs}", ""), other: hmac("2", "{body}", "")},
		"token, body":     {verify.BearerToken("t"), hmac("2", "{body}", ""), "-", false},
		"all, body": {
			one:   verify.All{verify.HeaderValue("X-Token", "t"), hmac("1", "{id}.{body}", "")},
			other: hmac("2", "{body}", ""),
		},
		"all with one clock": {
			verify.All{hmac("1", "{timestamp}.{body}", "X-Time"), hmac("3", "{body}", "")},
			hmac("2", "{id}.{timestamp}.{body}", "X-Time"), "x-time", true,
		},
	} {
		now, body := time.Unix(1_700_000_000, 0), []byte(`{"n": 1}`)
		r := httptest.NewRequest(http.MethodPost, "https://hooks.example/x", nil)
		r.Header.Set("X-Id", "e1")
		if err := (verify.All{tt.one, tt.other}).Sign(r, body, now); err != nil {
			t.Fatal(name, err)
		}
		same := verify.Any{tt.one, tt.other}
		var ids []verify.Identity
		for _, stripped := range [][]string{{}, {"X-Signature-1", "Authorization"}, {"X-Signature-2"}} {
			without := r.Clone(t.Context())
			for _, field := range stripped {
				without.Header.Del(field)
			}
			id, err := same.Verify(without, func() ([]byte, error) { return body, nil })
			if err != nil {
				t.Fatal(name, err)
			}
			slices.Sort(id.Covered)
			id.Covered = slices.Compact(id.Covered)
			ids = append(ids, id)
		}
		for _, id := range ids {
			if !bytes.Equal(id.Signed, ids[0].Signed) || !bytes.Equal(id.Stable, ids[0].Stable) ||
				!slices.Equal(id.Covered, ids[0].Covered) || id.Timed() != tt.timed || id.Principal != "" {
				t.Errorf("%s: %+v and %+v", name, ids[0], id)
			}
		}
		for _, part := range []string{"x-id", "x-time"} {
			if ids[0].Covers(part) != (tt.covers == part) {
				t.Errorf("%s: covered %q", name, ids[0].Covered)
			}
		}
		if (ids[0].Signed == nil) != (tt.covers == "-") {
			t.Errorf("%s: %+v", name, ids[0])
		}
	}
}

func TestAnyBindsWhatBothBind(t *testing.T) {
	t.Parallel()
	signed := &counted{binds: verify.Binding{
		Content: true, Time: true, Covered: []string{"@body", "webhook-id", "@path"}, Malleable: true,
	}}
	url := &counted{binds: verify.Binding{Content: true, Covered: []string{"@target-uri", "webhook-id"}}}
	b := verify.Any{signed, url}.Binds()
	if b.Content || b.Time || !b.Malleable || !slices.Equal(b.Covered, []string{"webhook-id", "@path"}) {
		t.Errorf("it binds %+v", b)
	}
	if b = (verify.Any{signed, verify.BearerToken("x")}).Binds(); b.Content || len(b.Covered) > 0 {
		t.Errorf("with a token it binds %+v", b)
	}
	if err := (verify.Any{url, nil}).Check(); err == nil {
		t.Error("one scheme is enough")
	}
	if err := (verify.Any{url, signed}).Check(); err == nil {
		t.Error("content without boundaries has no common name")
	}
	if err := (verify.Any{url, verify.BearerToken()}).Check(); err == nil {
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
