package config

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
)

// readQuota loads a file with one producer of these settings and returns the producer, or the mistakes.
func readQuota(t *testing.T, lines string) (producer.Producer, string) {
	t.Helper()
	text := "store: \"memory:\"\nproducers:\n  p: {" + lines + "}\n"
	s, err := Source{}.Parse(filepath.Join(t.TempDir(), "eyelet.yaml"), []byte(text))
	if err != nil {
		return producer.Producer{}, err.Error()
	}
	made, err := s.Build(t.Context(), BuildOptions{Stdout: io.Discard})
	if err != nil {
		return producer.Producer{}, err.Error()
	}
	t.Cleanup(func() { _ = made.Close() })
	return made.Producers[0], ""
}

const github = "preset: github, secrets: [another-long-secret], "

func TestQuotaOfTheConfiguration(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]producer.Rate{
		github + "rate: 100/s":             {Events: 100, Per: time.Second},
		github + "rate: 6000/m, burst: 10": {Events: 6000, Per: time.Minute, Burst: 10},
		github + "rate: 5 / h":             {Events: 5, Per: time.Hour},
		github + "concurrency: 7":          {},
		"preset: cloudevents, bearer: long-token-0123456, origins: [o.example], rate: 120":  {Events: 120, Per: time.Minute},
		"preset: cloudevents, bearer: long-token-0123456, origins: [o.example], rate: 10/s": {Events: 10, Per: time.Second},
	} {
		p, errs := readQuota(t, lines)
		if errs != "" || p.Rate != want || (p.Concurrency == 7) != strings.Contains(lines, "concurrency") {
			t.Errorf("%s: %+v, %d, %s", lines, p.Rate, p.Concurrency, errs)
		}
	}
	for lines, want := range map[string]string{
		github + "rate: 100":        "rate is a number without its time",
		github + "rate: 100/d":      `rate is "100/d", want a number of events in a time`,
		github + "rate: 0/s":        `rate is "0/s"`,
		github + "rate: -1/s":       `rate is "-1/s"`,
		github + "rate: fast":       `rate is "fast"`,
		github + "burst: 5":         "a burst without a rate",
		github + "concurrency: -1":  "concurrency is not negative",
		github + "empty_body: what": "empty_body is \"what\"",
	} {
		if _, errs := readQuota(t, lines); !strings.Contains(errs, want) {
			t.Errorf("%s: %q", lines, errs)
		}
	}
}
