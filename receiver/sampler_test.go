package receiver

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// sampledLog returns a sampler and its output.
func sampledLog(level slog.Level) (*sampler, *syncBuffer) {
	out := &syncBuffer{}
	return newSampler(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))), out
}

func TestLinesOfOneKindAreSampled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, out := sampledLog(slog.LevelInfo)
		write := func(n int, endpoint string, code verify.Code) {
			for i := range n {
				s.write(t.Context(), slog.LevelInfo, sampledKind{text: "delivery", endpoint: endpoint, code: code},
					slog.Int("i", i))
			}
		}
		write(25, "gh", "signature_mismatch")
		write(3, "gh", "signature_missing")
		write(3, "shop", "signature_mismatch")
		seen := 0 // bytes of the output
		since := func() string {
			text := out.String()[seen:]
			seen += len(text)
			return text
		}
		if got := since(); strings.Count(got, "\n") != 10+3+3 {
			t.Errorf("at first:\n%s", got)
		}
		time.Sleep(sampledFor)
		synctest.Wait()
		if got := since(); strings.Count(got, "\n") != 1 ||
			!strings.Contains(got, "level=INFO msg=delivery endpoint=gh code=signature_mismatch more=15 within=1m0s") {
			t.Errorf("after the minute:\n%s", got)
		}
		write(11, "gh", "signature_mismatch")
		if got := since(); strings.Count(got, "\n") != 10 {
			t.Errorf("in the next minute:\n%s", got)
		}
		s.close()
		s.close()
		if got := since(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "more=1 ") {
			t.Errorf("at the end:\n%s", got)
		}
		time.Sleep(2 * sampledFor)
		if len(s.minute) != 0 {
			t.Errorf("%d kinds are remembered", len(s.minute))
		}
	})
}

func TestDebugHasEverySampledLine(t *testing.T) {
	t.Parallel()
	s, out := sampledLog(slog.LevelDebug)
	for range 25 {
		s.write(t.Context(), slog.LevelWarn, sampledKind{text: "delivery", endpoint: "gh", code: "busy"})
	}
	if warn, debug := strings.Count(out.String(), "level=WARN"), strings.Count(out.String(),
		"level=DEBUG"); warn != 10 || debug != 15 {
		t.Errorf("%d at WARN and %d at DEBUG", warn, debug)
	}
	s.close()
}

func TestRefusalsAreSampledInTheLogAndCountedInFull(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	s := serve(t, apiProducer(), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for i := range 40 {
		bad := req{id: strconv.Itoa(i), header: http.Header{"Sig": {"signature_mismatch"}}}
		if answer := s.send(bad); answer.status != http.StatusUnauthorized {
			t.Fatalf("%d: %d", i, answer.status)
		}
	}
	if n := strings.Count(log.String(), "signature_mismatch"); n == 0 || n > sampledLines {
		t.Errorf("%d lines for 40 refusals", n)
	}
	if err := s.rx.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "more=30 ") {
		t.Errorf("the others are not counted at the end of the log:\n%s", log.String())
	}
	if n := len(s.seen.codes("delivery")); n != 40 {
		t.Errorf("%d of 40 refusals were observed", n)
	}
}
