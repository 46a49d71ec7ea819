package verify

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestToleranceCheck(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) time.Time { return testNow.Add(d) }
	for _, c := range []struct {
		name string
		tol  Tolerance
		id   Identity
		code Code
	}{
		{"no times", Tolerance{}, Identity{}, ""},
		{"now", Tolerance{}, Identity{SignedAt: testNow}, ""},
		{"5 minutes ago", Tolerance{}, Identity{SignedAt: at(-5 * time.Minute)}, ""},
		{"more than 5 minutes ago", Tolerance{}, Identity{SignedAt: at(-5*time.Minute - time.Second)}, TimestampTooOld},
		{"a minute ahead", Tolerance{}, Identity{SignedAt: at(time.Minute)}, ""},
		{"more than a minute ahead", Tolerance{}, Identity{SignedAt: at(61 * time.Second)}, TimestampTooNew},
		{"long ago without a limit", Tolerance{Past: NoLimit}, Identity{SignedAt: time.Unix(0, 0)}, ""},
		{"long ahead without a limit", Tolerance{Future: NoLimit}, Identity{SignedAt: time.Unix(1<<40, 0)}, ""},
		{"as late as a signature can name", Tolerance{},
			Identity{SignedAt: time.Unix(999_999_999_999_999, 0)}, TimestampTooNew},
		{"as late, without a limit", Tolerance{Future: NoLimit},
			Identity{SignedAt: time.Unix(999_999_999_999_999, 0)}, ""},
		{"before its start, without a limit", Tolerance{Future: NoLimit}, Identity{NotBefore: time.Unix(1<<40, 0)}, ""},
		{"at its expiry", Tolerance{}, Identity{SignedAt: testNow, Expires: testNow}, ""},
		{"after its expiry", Tolerance{}, Identity{SignedAt: testNow, Expires: at(-time.Second)}, TokenExpired},
		{"a minute after its expiry", Tolerance{End: time.Minute}, Identity{Expires: at(-time.Minute)}, ""},
		{"longer after it", Tolerance{End: time.Minute}, Identity{Expires: at(-61 * time.Second)}, TokenExpired},
		{"after its expiry, with a code", Tolerance{},
			Identity{Expires: at(-time.Second), ExpiredCode: CertExpired}, CertExpired},
		{"before its start", Tolerance{}, Identity{NotBefore: at(61 * time.Second)}, TokenNotYetValid},
		{"a little before its start", Tolerance{}, Identity{NotBefore: at(60 * time.Second)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := c.tol.Check(c.id, testNow); CodeOf(err) != c.code {
				t.Errorf("got %v, want %q", err, c.code)
			}
		})
	}
}

func TestErrorsNameCodeKeyAndComponent(t *testing.T) {
	t.Parallel()
	err := error(&Error{Code: InsufficientCoverage, KeyID: "k\n", Component: "content-type", Err: io.EOF})
	if got, want := err.Error(), `insufficient coverage: "content-type" (key "k\n"): EOF`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !errors.Is(err, &Error{Code: InsufficientCoverage}) ||
		errors.Is(err, &Error{Code: KeyUnknown}) || !errors.Is(err, io.EOF) {
		t.Error("errors.Is goes by the code and the cause")
	}
	if CodeOf(errors.Join(io.EOF, err)) != InsufficientCoverage || CodeOf(io.EOF) != "" || CodeOf(nil) != "" {
		t.Error("CodeOf does not find the code, or finds one where there is none")
	}
	long := (&Error{Code: KeyUnknown, KeyID: strings.Repeat("k", 8000)}).Error()
	if len(long) > 200 {
		t.Errorf("a sender can write %d bytes into our log", len(long))
	}
}

// What a request says is known although nothing of it is valid, for every form of credential.
func TestClaimsOfARefusedRequest(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.pair.sign(t, s.r, s.body)
	s.r.Method = http.MethodPut
	claimed := ClaimedIn(s.scheme, s.r, []byte(s.body))
	if _, err := s.verify(); CodeOf(err) != SignatureMismatch || len(claimed) != 1 {
		t.Fatalf("%v: %+v", err, claimed)
	}
	if c := claimed[0]; c.Label != "sig1" || c.KeyID != "k" || c.SignedAt.IsZero() || !c.Expires.IsZero() ||
		!slices.Contains(c.Covered, "@method") {
		t.Errorf("%+v", c)
	}
	h := &HMAC{Headers: []string{"X-Sig"}, TimestampHeaders: []string{"X-Time"}, Encoding: Hex,
		Content: "{timestamp}.{body}", Secrets: Secrets(hmacSecret)}
	r := request("X-Time: 1700000000", "X-Sig: "+strings.Repeat("0", 64))
	at := time.Unix(1700000000, 0)
	claimed = ClaimedIn(Any{h, h}, r, nil)
	if len(claimed) != 2 || !claimed[1].SignedAt.Equal(at) || !slices.Contains(claimed[1].Covered, "@body") {
		t.Errorf("%+v", claimed)
	}
	if none := ClaimedIn(h, request("X-Sig: x"), nil); none != nil {
		t.Errorf("%+v", none)
	}
	j := bearerScheme()
	token := newIssuer().sign(t, "RS256", "r", nil, map[string]any{"iss": "x", "iat": 1700000000, "exp": 1700000060})
	claimed = ClaimedIn(j, bearer(token), nil)
	if len(claimed) != 1 || claimed[0].KeyID != "r" || claimed[0].Alg != "RS256" || !claimed[0].SignedAt.Equal(at) ||
		claimed[0].Expires.Sub(at) != time.Minute {
		t.Errorf("%+v", claimed)
	}
	if none := ClaimedIn(j, bearer("a.b"), nil); none != nil {
		t.Errorf("%+v", none)
	}
}
