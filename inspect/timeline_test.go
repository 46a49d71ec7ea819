package inspect_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// tags are what is left out of a page to read its text.
var tags = regexp.MustCompile(`<[^>]*>`)

// attempts runs the only open task of the store, which fails with each error.
func attempts(t *testing.T, store dedup.Store, errs ...string) {
	t.Helper()
	for i, text := range errs {
		work, err := store.Take(t.Context(), dedup.Want{Tasks: 1, Lease: time.Hour})
		if err != nil || len(work) != 1 {
			t.Fatalf("took %v, %v", work, err)
		}
		result := dedup.Result{Kind: dedup.ResultRetry, Reason: "failed", Err: text, Reply: "reply " + text}
		if i == len(errs)-1 {
			result.After = 48 * time.Hour
		}
		if err := store.Finish(t.Context(), work[0].Lease, result); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAttemptsThatFailAlikeAreOneMoment(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	s.login(token)
	rec := claim(t, s.store, "k", "order.paid", []byte("{}"))
	attempts(t, s.store, "it answered 500", "it answered 500", "it answered 500", "it answered 400", "<b>\nline 2",
		"<b>\nline 2")
	_, page := s.get("/ui/events/" + rec.Event)
	for _, want := range []string{
		"<details><summary>Attempts 1 to 3: it answered 500</summary><ol><li>", "Attempt 1: failed",
		"reply it answered 500",
		"Attempt 2: failed", "Attempt 3: failed", "</ol></details>",
		"<div>Attempt 4: failed", `<pre class="err">it answered 400</pre>`, "reply it answered 400",
		"<summary>Attempts 5 to 6: &lt;b&gt;</summary><pre class=\"err\">&lt;b&gt;\nline 2</pre>",
		"<time></time><i></i><div>Next attempt on ",
	} {
		before, rest, ok := strings.Cut(page, want)
		if !ok {
			t.Fatalf("%q is missing, or not in order: %s", want, page)
		}
		if page = rest; want == "Attempt 2: failed" && strings.Contains(before, "it answered 500</pre><") {
			t.Errorf("the error is repeated: %s", before)
		}
	}
}

// TestAFutureMomentHasNoTimeOfThePast reads the entries of the timeline of an event that is done.
func TestAFutureMomentHasNoTimeOfThePast(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	s.login(token)
	rec := buried(t, s.store, "k")
	_, page := s.get("/ui/events/" + rec.Event)
	_, line, _ := strings.Cut(page, `<ol class="line">`)
	moments := strings.Split(strings.Split(line, "</ol>")[0], "<li")
	last := slices.IndexFunc(moments, func(m string) bool { return strings.Contains(m, "Its key is forgotten on ") })
	if last < 0 || !strings.Contains(moments[last], "<time></time>") ||
		!strings.Contains(moments[last-1], "<time datetime") {
		t.Errorf("the moments are %q", moments)
	}
}

// TestTheIDOfTheSenderIsFirst has an event whose identifier is a digest.
func TestTheIDOfTheSenderIsFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	s.login(token)
	got, err := s.store.Claim(t.Context(), dedup.Claim{
		Key:     dedup.Key{Principal: "shop", Endpoint: "shop", ID: "sha256:digest"},
		Payload: dedup.Payload{Producer: "shop", Endpoint: "shop", VendorID: "evt-7", Body: []byte("{}")},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, page := s.get("/ui/events/" + got[0].Record.Event)
	facts, rest, _ := strings.Cut(page[strings.Index(page, "<dl"):], "<summary>More</summary>")
	facts, rest = tags.ReplaceAllString(facts, " "), rest[:strings.Index(rest, "</details>")]
	if !strings.HasPrefix(strings.Join(strings.Fields(facts), " "), "sender’s id evt-7 endpoint shop") ||
		strings.Contains(facts, "digest") {
		t.Errorf("the first facts are %s", facts)
	}
	s.in(rest, "sha256:digest", got[0].Record.Event)
}
