package verify

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"slices"
	"testing"
	"time"
)

func TestTheTimeOfASignatureIsWhereTheSchemeSays(t *testing.T) {
	t.Parallel()
	field := func(s *scene) { s.scheme.TimestampHeader = "X-Signed-At" }
	milliseconds := func(s *scene) { field(s); s.scheme.TimestampUnit = Milliseconds }
	dated := func(s *scene) { field(s); s.scheme.TimestampUnit = RFC3339 }
	byDate := func(s *scene) { s.scheme.TimestampHeader = "date" }
	date := func(zone string) func(*scene) { return withLine("Date", "Tue, 14 Nov 2023 22:13:20 "+zone) }
	none := func(s *scene) { s.scheme.NoTime = true }
	at := func(value string) func(*scene) { return withLine("X-Signed-At", value) }
	stamped := at("1700000000")
	twice := func(s *scene) {
		stamped(s)
		s.r.Header.Add("X-Signed-At", "1700000000")
	}
	milli := func(n int64) time.Time { return time.UnixMilli(1700000000000 + n) }
	for name, row := range map[string]struct {
		scheme, before, after func(*scene)
		covered               []string
		want                  time.Time
		code                  Code
		component             string
	}{
		"created":                {scheme: func(*scene) {}, want: testNow},
		"seconds":                {scheme: field, before: at("1700000000"), want: time.Unix(1700000000, 0)},
		"milliseconds":           {scheme: milliseconds, before: at("1700000000123"), want: milli(123)},
		"a date-time":            {scheme: dated, before: at("2023-11-14T22:13:20.5Z"), want: milli(500)},
		"Date":                   {scheme: byDate, before: date("GMT"), want: testNow},
		"Date of another zone":   {scheme: byDate, before: date("+0000"), code: TimestampMalformed},
		"no Date":                {scheme: byDate, code: TimestampMissing},
		"another form":           {scheme: field, before: at("2023-11-14T22:13:20Z"), code: TimestampMalformed},
		"a sign":                 {scheme: field, before: at("+1700000000"), code: TimestampMalformed},
		"a date without a zone":  {scheme: dated, before: at("2023-11-14T22:13:20"), code: TimestampMalformed},
		"no field":               {scheme: field, code: TimestampMissing},
		"two lines":              {scheme: field, before: twice, code: AmbiguousField},
		"a field, not covered":   {scheme: field, before: stamped, covered: allComponents, code: InsufficientCoverage},
		"a field, changed":       {scheme: field, before: stamped, after: at("1700000001"), code: SignatureMismatch},
		"none, although created": {scheme: none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			row.scheme(s)
			if row.before != nil {
				row.before(s)
			}
			covered := row.covered
			if covered == nil {
				covered = allComponents
				if len(s.r.Header["X-Signed-At"]) > 0 {
					covered = append([]string{"x-signed-at"}, allComponents...)
				} else if len(s.r.Header["Date"]) > 0 {
					covered = append([]string{"date"}, allComponents...)
				}
			}
			s.resign(t, covered...)
			if row.after != nil {
				row.after(s)
			}
			id, err := s.verify()
			if CodeOf(err) != row.code {
				t.Fatalf("%v, want %q", err, row.code)
			}
			if err != nil {
				if got := componentOf(err); row.code == InsufficientCoverage && got != "x-signed-at" {
					t.Errorf("the component is %q", got)
				}
				return
			}
			if !id.SignedAt.Equal(row.want) || s.scheme.Binds().Time == row.want.IsZero() {
				t.Errorf("signed at %v, want %v; %+v", id.SignedAt, row.want, s.scheme.Binds())
			}
			if created := !s.scheme.NoTime && s.scheme.TimestampHeader == ""; id.Created.IsZero() != created {
				t.Errorf("created %v", id.Created)
			}
		})
	}
}

// TestOtherTimesAreChecked: a signature whose time is in a field, or nowhere, may have created too.
func TestOtherTimesAreChecked(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.scheme.NoTime = true
	s.resign(t, allComponents...)
	id, err := s.verify()
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]Code{
		0: "", 5 * time.Minute: "", 6 * time.Minute: TimestampTooOld, -2 * time.Minute: TimestampTooNew,
	} {
		id.SignedAt = testNow.Add(after)
		if err := (Tolerance{}).Check(id, id.SignedAt); CodeOf(err) != want {
			t.Errorf("after %v: %v, want %q", after, err, want)
		}
	}
}

// TestWithoutATimeTheContentNamesAnEvent signs one message again in ways that a sender, or a client
// that removes one of two signatures, has. None makes another event; another content does.
func TestWithoutATimeTheContentNamesAnEvent(t *testing.T) {
	t.Parallel()
	identify := func(change func(s *scene), more ...string) []byte {
		s := newScene(t)
		s.scheme.NoTime = true
		s.scheme.Coverage = Coverage{Required: []string{"x-order", "date"}, Pinned: Pinned{Method: "POST", Query: true}}
		s.r.Header.Set("X-Order", "7")
		s.r.Header.Set("Date", "Tue, 14 Nov 2023 22:13:19 GMT")
		s.r.URL.RawQuery = ""
		if change != nil {
			change(s)
		}
		s.resign(t, slices.Concat(allComponents, []string{"x-order", "date"}, more)...)
		id, err := s.verify()
		if err != nil {
			t.Fatal(err)
		}
		if id.Timed() || !bytes.Equal(id.Signed, id.Stable) {
			t.Errorf("%+v", id)
		}
		return id.Stable
	}
	first := identify(nil)
	for name, same := range map[string][]byte{
		"another nonce":  identify(func(s *scene) { s.pair.signer.Nonce = "n-2" }),
		"expires":        identify(func(s *scene) { s.pair.signer.Expires = time.Hour }),
		"another label":  identify(func(s *scene) { s.pair.signer.Label = "other" }),
		"more is signed": identify(withLine("X-More", "1"), "x-more"),
		"a date":         identify(withLine("Date", "Tue, 14 Nov 2023 22:13:20 GMT")),
		"another key": identify(func(s *scene) {
			s.pair = newPair(t, "k2", Ed25519)
			s.scheme.Keys = StaticKeys(s.pair.key)
		}),
		"no identifier":     identify(withLine("Idempotency-Key", `"other"`)),
		"a query":           identify(target("?a=1")),
		"the type":          identify(withLine("Content-Type", "text/plain")),
		"another digest":    identify(sha512Digest),
		"like the receiver": identify(func(s *scene) { s.pair.signer.Like = s.scheme }),
	} {
		if !bytes.Equal(first, same) {
			t.Errorf("%s: another event", name)
		}
	}
	for name, other := range map[string][]byte{
		"a component": identify(withLine("X-Order", "8")),
		"a path":      identify(func(s *scene) { s.r.URL.Path += "/other" }),
		"a host":      identify(func(s *scene) { s.r.URL.Host, s.r.Host = "other.example", "other.example" }),
		"a body":      identify(otherBody),
	} {
		if bytes.Equal(first, other) {
			t.Errorf("%s: the same event", name)
		}
	}
}

func otherBody(s *scene) {
	s.body = `{"id":"other"}`
	s.r.ContentLength = int64(len(s.body))
	s.r.Header.Del("Content-Digest")
}

func sha512Digest(s *scene) {
	sum := sha512.Sum512([]byte(s.body))
	s.r.Header.Set("Content-Digest", "sha-512=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
}
