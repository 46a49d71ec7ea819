package config

import (
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/tracing"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/verify"
)

// Tracing says where the spans of deliveries and attempts go.
type Tracing struct {
	Node   *conf.Node
	URL    string        `conf:"url"` // the base URL of a collector
	Bearer verify.Secret `conf:"bearer"`
	Sample string        `conf:"sample"` // the share of deliveries with spans, such as 10%
}

// TracingOptions returns the options of tracing, which Build has checked.
func TracingOptions(s *Settings) tracing.Options {
	share, _ := s.Tracing.share()
	return tracing.Options{Endpoint: s.Tracing.URL, Bearer: s.Tracing.Bearer, Sample: share}
}

// share parses Sample; 0 if there is none.
func (t *Tracing) share() (share float64, ok bool) {
	if t.Sample == "" {
		return 0, true
	}
	number, ok := strings.CutSuffix(t.Sample, "%")
	percent, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	return percent / 100, ok && err == nil && percent > 0 && percent <= 100
}

// checkTracing validates the setting tracing, and the environment.
func checkTracing(s *Settings) (found usage.Errors) {
	t := &s.Tracing
	if _, ok := t.share(); !ok {
		found.Add(t.Node.Place("sample"), "write 10%, or leave it out for all",
			"tracing.sample is not a share of deliveries")
	}
	if err := TracingOptions(s).Check(); err != nil {
		found.Add(s.Place("tracing"), "", "tracing: %v", err)
	}
	return found
}
