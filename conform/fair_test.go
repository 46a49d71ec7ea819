package conform

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// honest are ways to be right that are not usual.
var honest = []struct{ profile, way string }{
	{"github", "limits its rate"},
	{"webhooks", "wants a User-Agent"},
	{"github", "wants a UUID"},
	{"key", "shows a page"},
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// insists returns the refusal of a reference that wants more than others.
func (s *reference) insists(r *http.Request) *reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	switch {
	case s.is("limits its rate") && s.requests%20 == 0:
		return refusal(429, "rate", "Retry-After", "1", "Cache-Control", "no-store")
	case s.is("wants a User-Agent") && r.Header.Get("User-Agent") == "",
		s.is("wants a UUID") && !uuid.MatchString(r.Header.Get("X-Github-Delivery")):
		return refusal(403, "no")
	}
	return nil
}

func TestHonestProgramsHold(t *testing.T) {
	t.Parallel()
	var numbers []string
	for _, c := range checksOf(Consumer) {
		if !slices.Contains(slow, c.number) {
			numbers = append(numbers, c.number)
		}
	}
	for _, one := range honest {
		t.Run(one.way, func(t *testing.T) {
			t.Parallel()
			r := checked(t, one.profile, one.way, numbers...)
			for _, result := range r.Results {
				if result.Verdict == Fails || strings.Contains(result.Reason, " got ") {
					t.Errorf("%s %s: %s: %s", result.Check, result.Title, result.Verdict, result.Reason)
				}
			}
			if n := r.Count(Holds, ""); n < 30 {
				t.Error("too little holds:", r.Summary())
			}
		})
	}
}

// TestOldServersNeedNot100: HTTP/1.0 has no such status.
func TestOldServersNeedNot100(t *testing.T) {
	t.Parallel()
	if one := checked(t, "github", "speaks HTTP/1.0", "C208").Results[0]; one.Verdict != NotApplicable {
		t.Errorf("%s: %s", one.Verdict, one.Reason)
	}
}

// TestAnOddDuplicateIsNotJudgedAlone where each duplicate is handled again.
func TestAnOddDuplicateIsNotJudgedAlone(t *testing.T) {
	t.Parallel()
	for _, sabotage := range []string{"handles duplicates later", "no memory"} {
		r := checked(t, "webhooks", sabotage, "C109", "C111")
		if odd, plain := r.Results[0], r.Results[1]; odd.Verdict != NotJudged || plain.Verdict != Fails {
			t.Errorf("%s: C109 %s, C111 %s: %s", sabotage, odd.Verdict, plain.Verdict, odd.Reason)
		}
	}
}

// TestOptionalKeysMayBeMalformed, as RFC 9651 section 4.2 has recipients ignore such a field.
func TestOptionalKeysMayBeMalformed(t *testing.T) {
	t.Parallel()
	for _, one := range checked(t, "key", "optional keys", "C103", "C104", "C105").Results {
		if one.Verdict != NotApplicable {
			t.Errorf("%s %s: %s", one.Check, one.Verdict, one.Reason)
		}
	}
}

func TestAnyBodyIsChanged(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{"{}": `{"a":1,}`, "id=x": "id=x&a=1"} {
		if got := (&delivery{body: []byte(body)}).member("a", "1").body; string(got) != want {
			t.Errorf("%s becomes %s, want %s", body, got, want)
		}
	}
}

func TestAddressesWithoutLettersHaveNoCase(t *testing.T) {
	t.Parallel()
	s := &session{p: &Profile{Scheme: "none"}, url: &url.URL{Scheme: "http", Host: "[::1]:8080", Path: "/"}}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := authority(t.Context(), &run{session: s})
	if u, ok := errors.AsType[undecided](err); !ok || u.verdict != NotApplicable {
		t.Error(err)
	}
}

// TestAnotherPortIsNotJudged: deliveries are sent to one address only.
func TestAnotherPortIsNotJudged(t *testing.T) {
	t.Parallel()
	_, p, url := start(t, "github", "secret: a secret of the profile\nother_url: http://localhost:1/other", "")
	r, err := Run(t.Context(), Options{Role: Consumer, URL: url, Profile: p, Only: []string{"C704"}})
	if err != nil {
		t.Fatal(err)
	}
	if one := r.Results[0]; one.Verdict != NotJudged {
		t.Errorf("%s: %s", one.Verdict, one.Reason)
	}
}

func TestARunThatIsEndedWaitsForNoEffect(t *testing.T) {
	t.Parallel()
	s := &session{p: &Profile{Scheme: "none", Settle: time.Hour, Effects: &Effects{File: t.Name()}}}
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.open(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	done := make(chan error, 1)
	go func() {
		_, err := (&run{session: s}).settled(ctx, "x", 1)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits for an effect")
	}
}

// TestARefusalOfAllConformsToNothing, also where effects cannot be seen.
func TestARefusalOfAllConformsToNothing(t *testing.T) {
	t.Parallel()
	for sabotage, want := range map[string]Verdict{"": NotJudged, "refuses everything": Fails} {
		_, p, url := start(t, "github", "secret: a secret of the profile", sabotage)
		p.Effects = nil
		url = strings.Replace(url, "//", "//user:password@", 1)
		r, err := Run(t.Context(), Options{Role: Consumer, URL: url, Profile: p, Only: []string{"C110", "C243"}})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(r.Target, "password") {
			t.Error("the report has the password of the URL")
		}
		if got := r.Results[0].Verdict; got != want || r.Conforms() == (want == Fails) {
			t.Errorf("%q: C110 %s, conforms: %v", sabotage, got, r.Conforms())
		}
	}
}

// TestNoWaitIsTooLong asks for more seconds than a duration has.
func TestNoWaitIsTooLong(t *testing.T) {
	t.Parallel()
	s := &session{p: &Profile{}}
	for _, seconds := range []string{"301", "9999999999", "-1", "0", "soon"} {
		a := &answer{status: 429, Response: &http.Response{Header: http.Header{"Retry-After": {seconds}}}}
		if s.yields(t.Context(), a) || s.yielded != 0 {
			t.Errorf("it waits %s seconds", seconds)
		}
	}
}

// TestAConflictWithoutEffectsIsNotJudged where the profile takes a success for it.
func TestAConflictWithoutEffectsIsNotJudged(t *testing.T) {
	t.Parallel()
	_, p, url := start(t, "standard-webhooks", "secret: whsec_Y29uZm9ybWNvbmZvcm1jb25mb3Jt", "no memory")
	p.Effects = nil
	r, err := Run(t.Context(), Options{Role: Consumer, URL: url, Profile: p, Only: []string{"C113"}})
	if err != nil || r.Results[0].Verdict != NotJudged {
		t.Errorf("%v: %v", err, r)
	}
}
