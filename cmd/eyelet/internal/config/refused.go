package config

import (
	"cmp"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/refused"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// Refused are the settings of the ring of refused deliveries.
type Refused struct {
	Node *conf.Node
	Mode string        `conf:"mode,short,memory|disk|off" default:"memory"`
	Max  int64         `conf:"max"` // of the files
	For  time.Duration `conf:"for" default:"24h"`
}

const (
	keepMemory        = "memory"
	keepDisk          = "disk"
	keepOff           = "off"
	defaultRefusedMax = 64 << 20
	minRefusedMax     = 4 << 20
)

// ExplainLog is the value of the setting explain that explains refused deliveries in the log.
const ExplainLog = "log"

// checkRefused checks the settings of refused deliveries, and those of redact.
func checkRefused(s *Settings) (found usage.Errors) {
	r := &s.Refused
	switch {
	case r.Max != 0 && r.Mode != keepDisk:
		found.Add(r.Node.Place("max"), "leave it out, or write mode: disk", "refused.max is for files")
	case r.Max != 0 && r.Max < minRefusedMax:
		found.Add(r.Node.Place("max"), "", "refused.max is less than 4MiB")
	}
	checkRules := func(at usage.Place, setting string, rules []string) {
		for _, rule := range rules {
			if err := (&refused.Options{}).Rules.Add(rule); err != nil {
				found.Add(at, "write header:X-Token, query:token or json:card.number", "%s: %v", setting, err)
			}
		}
	}
	checkRules(s.Place("redact"), "redact", s.Redact)
	checkRules(s.Inspector.Node.Place("redact"), "inspector.redact", s.Inspector.Redact)
	return found
}

// RefusedOptions returns the options of the ring of refused deliveries, or nil if none are kept:
// without an operations port nothing could read those in memory. Max is 0 unless files are
// written.
func RefusedOptions(s *Settings) *refused.Options {
	r := s.Refused
	if r.Mode == keepOff || r.Mode == keepMemory && s.Operations == operationsOff {
		return nil
	}
	o := &refused.Options{For: r.For}
	if r.Mode == keepDisk {
		o.Max = cmp.Or(r.Max, defaultRefusedMax)
	}
	for _, rule := range s.Redact {
		_ = o.Rules.Add(rule) // was checked
	}
	return o
}
