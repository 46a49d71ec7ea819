package conform

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// produce runs the checks of producers on the reference with a fault.
func produce(t *testing.T, p *Profile, fault string, only ...string) (*Report, []string) {
	t.Helper()
	s := &sender{fault: fault}
	defer s.done.Wait()
	return runPeer(t, Options{Role: Producer, Profile: p, Only: only, Waiting: func(text string) {
		_, url, _ := strings.Cut(text, "to http://")
		s.event("http://" + url)
	}})
}

func TestTheReferenceProducerHolds(t *testing.T) {
	t.Parallel()
	for habit, only := range map[string][]string{
		"": nil, "asks first": {"P101", "P107"}, "sends others": {"P106", "P108"},
	} {
		t.Run(habit, func(t *testing.T) {
			t.Parallel()
			r, failed := produce(t, peerProfile(t), habit, only...)
			if len(failed) > 0 || r.Count(Holds, "") != len(r.Results) {
				t.Errorf("%v fail: %s", failed, r.Summary())
			}
		})
	}
}

// TestOnlyAGivenTimeIsLate: a producer that repeats after hours is not wrong.
func TestOnlyAGivenTimeIsLate(t *testing.T) {
	t.Parallel()
	for _, given := range []time.Duration{0, time.Second} {
		o := Options{Role: Producer, Profile: peerProfile(t), MaxWait: given}
		if _, err := o.complete(); err != nil {
			t.Fatal(err)
		}
		err := (&run{session: &session{o: o}}).late("no retry")
		if u, ok := errors.AsType[undecided](err); ok != (given == 0) || ok && u.verdict != NotJudged {
			t.Errorf("%s: %v", given, err)
		}
	}
}

func TestFaultsOfProducersAreFound(t *testing.T) {
	t.Parallel()
	p := peerProfile(t)
	for fault, number := range map[string]string{
		"put": "P101", "no type": "P101", "bad signature": "P102", "key not covered": "P103",
		"method not covered": "P103", "old clock": "P104", "bare key": "P105", "one key": "P105", "no key": "P105",
		"new key": "P106", "new body": "P106", "500 is final": "P106", "cut is final": "P107", "409 is final": "P108",
		"hasty": "P109", "retries accepted": "P110", "retries 404": "P111", "retries 410": "P112",
		"goes on after 410": "P112", "bare new key": "P106",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			if _, failed := produce(t, p, fault, number); !slices.Contains(failed, number) {
				t.Errorf("%s is not found by %s: %v fail", fault, number, failed)
			}
		})
	}
}
