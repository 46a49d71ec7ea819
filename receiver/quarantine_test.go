package receiver

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// fromGitHub delivers a signed body, and returns the status.
func fromGitHub(t *testing.T, s *site, id, typ, body string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://hooks.example/webhooks/github",
		strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-GitHub-Event", typ)
	if err := s.p.Scheme.(interface {
		Sign(r *http.Request, body []byte, now time.Time) error
	}).Sign(r, []byte(body), time.Now()); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.rx.Handler().ServeHTTP(w, r)
	return w.Code
}

// same returns the observed values of SameBytes.
func (o *observations) same() (all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ob := range o.all {
		if ob.SameBytes != "" {
			all = append(all, string(ob.SameBytes))
		}
	}
	return all
}

func TestQuarantinedDeliveriesAreLoggedAndCounted(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	s := serve(t, preset.GitHub("the-kettle-is-on-17"),
		func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) },
		On("github", "push", func(context.Context, Event[[]byte]) error { return nil }))
	const push = `{"ref":"refs/heads/main"}`
	fromGitHub(t, s, "first", "push", push)
	for i := range 14 {
		fromGitHub(t, s, "g"+strconv.Itoa(i), "push", push)
	}
	if n := strings.Count(log.String(), `level=WARN msg="delivery quarantined"`); n != sampledLines {
		t.Errorf("%d lines about 14 deliveries, want %d", n, sampledLines)
	}
	var original string
	quarantined := map[string]dedup.Record{}
	for rec, err := range s.store.List(t.Context(), dedup.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.QuarantineReason == "" {
			original = rec.Event
		} else {
			quarantined[rec.Payload.VendorID] = rec
		}
	}
	line := "endpoint=github reason=same_bytes event=" + quarantined["g3"].Event + " original=" + original +
		" vendor_id=g3 original_vendor_id=first type=push"
	if !strings.Contains(log.String(), line) {
		t.Errorf("no line %q in:\n%s", line, log.String())
	}
	if got := strings.Join(s.seen.same(), " "); got != strings.TrimSpace(strings.Repeat("quarantined ", 14)) {
		t.Errorf("observed %s", got)
	}
	if err := s.rx.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(),
		`level=WARN msg="delivery quarantined" endpoint=github reason=same_bytes more=4 `) {
		t.Errorf("the others are not counted at the end of the log:\n%s", log.String())
	}
}

func TestOccurrencesAreObserved(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	s := serve(t, preset.GitHub("the-kettle-is-on-17"),
		func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	const ping = `{"zen":"Design for failure.","hook_id":1}`
	fromGitHub(t, s, "a", "ping", ping)
	fromGitHub(t, s, "a", "ping", ping)
	fromGitHub(t, s, "b", "ping", ping)
	fromGitHub(t, s, "b", "push", `{"ref":"refs/heads/main"}`)
	fromGitHub(t, s, "c", "push", ping)
	if got := strings.Join(s.seen.same(), " "); got != "known again quarantined" {
		t.Errorf("observed %s", got)
	}
	for _, line := range []string{
		`level=INFO msg="another occurrence of known content" endpoint=github event=`,
		`level=WARN msg="delivery quarantined" endpoint=github reason=same_bytes event=`,
	} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("not one line %q in:\n%s", line, log.String())
		}
	}
	dead := 0
	for rec, err := range s.store.List(t.Context(),
		dedup.Filter{States: []dedup.State{dedup.Dead}, Reason: reasonSameBytes}) {
		if err != nil || rec.Payload.VendorID != "c" || len(rec.Tasks) != 0 {
			t.Errorf("%v, %+v", err, rec)
		}
		dead++
	}
	if dead != 1 {
		t.Errorf("%d dead letters, want the quarantined delivery without a handler", dead)
	}
}

func TestRefusedRepetitionsAreObserved(t *testing.T) {
	t.Parallel()
	p := preset.GitHub("the-kettle-is-on-17")
	p.SameSigned = producer.SameSignedRefuse
	s := serve(t, p, nil, On("github", "*", func(context.Context, Event[[]byte]) error { return nil }))
	fromGitHub(t, s, "a", "push", `{}`)
	status := fromGitHub(t, s, "b", "push", `{}`)
	if got := s.seen.same(); status != http.StatusUnauthorized || len(got) != 1 || got[0] != "refused" {
		t.Errorf("status %d, observed %v", status, got)
	}
}
