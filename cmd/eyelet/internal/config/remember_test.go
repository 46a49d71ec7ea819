package config

import (
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

func TestTheMemoryBeyondTheWindowIsWrittenInOneWay(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]dedup.Retention{
		"limits: {attempts: 3}": {}, "limits: {remember_signatures: off}": {For: -1}, `limits: {remember_signatures: "off"}`: {For: -1},
		"limits: {remember_signatures: {for: 30d}}":            {For: 30 * 24 * time.Hour},
		"limits: {remember_signatures: {for: 90d, max: 1000}}": {For: 90 * 24 * time.Hour, Max: 1000},
	} {
		set, err := Source{}.Parse("eyelet.yaml", []byte(text+"\n"))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := set.storeOptions(nil).Remember; got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"limits: {remember_signatures: on}":             `limits.remember_signatures is "on", want off or a mapping`,
		"limits: {remember_signatures: 90d}":            `limits.remember_signatures is "90d", want off or a mapping`,
		"limits: {remember_signatures: {for: 1h}}":      "less than a day",
		"limits: {remember_signatures: {for: 0d}}":      "limits.remember_signatures.for is 0",
		"limits: {remember_signatures: {max: -1}}":      "limits.remember_signatures.max is less than 0",
		"limits: {remember_signatures: {days: 90}}":     `unknown setting "days"`,
		"limits:\n  remember_signatures: [90d, 1000]\n": "eyelet.yaml:2",
	} {
		_, err := Source{}.Parse("eyelet.yaml", []byte(text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "eyelet.yaml:") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
