package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
)

func TestVariablesOverrideSectionsThatAreOneValue(t *testing.T) {
	t.Parallel()
	type kept struct {
		Keep string
		Max  int64
		For  time.Duration
	}
	for name, tt := range map[string]struct {
		yaml    string
		environ []string
		want    kept
	}{
		"its member":     {"refused: disk\n", []string{"EYELET_REFUSED_MODE=off"}, kept{"off", 0, 24 * time.Hour}},
		"another member": {"refused: disk\n", []string{"EYELET_REFUSED_FOR=2h"}, kept{"disk", 0, 2 * time.Hour}},
		"the whole":      {"refused: disk\n", []string{"EYELET_REFUSED=off"}, kept{"off", 0, 24 * time.Hour}},
		"a whole mapping": {
			"refused: {mode: disk, max: 8MiB}\n", []string{"EYELET_REFUSED=off"}, kept{"off", 0, 24 * time.Hour},
		},
		"nothing before": {"url: a\n", []string{"EYELET_REFUSED=disk"}, kept{"disk", 0, 24 * time.Hour}},
		"an unset value": {"refused: ${NONE}\n", []string{"EYELET_REFUSED_MODE=off"}, kept{"off", 0, 24 * time.Hour}},
		"both": {
			"refused: off\n", []string{"EYELET_REFUSED_MAX=8MiB", "EYELET_REFUSED=disk"},
			kept{"disk", 8 << 20, 24 * time.Hour},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := parse(t, tt.yaml, tt.environ...)
			check(t, err)
			if diff := cmp.Diff(tt.want, kept{c.Refused.Mode, c.Refused.Max, c.Refused.For}); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVariablesOverrideWhatIsRemembered(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		yaml, variable string
		want           dedup.Retention
	}{
		"a member over off": {
			"limits: {remember_signatures: off}\n", "_FOR=30d",
			dedup.Retention{For: 30 * day, Max: dedup.DefaultRememberMax},
		},
		"off":              {"limits: {workers: 2}\n", "=off", dedup.Retention{For: -1}},
		"off over members": {"limits: {remember_signatures: {for: 9d, max: 7}}\n", "=off", dedup.Retention{For: -1}},
		"one of two members": {
			"limits: {remember_signatures: {for: 9d, max: 7}}\n", "_FOR=30d", dedup.Retention{For: 30 * day, Max: 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := parse(t, tt.yaml, "EYELET_LIMITS_REMEMBER_SIGNATURES"+tt.variable)
			check(t, err)
			if got := c.Limits.RememberSignatures.retention(); got != tt.want {
				t.Errorf("retention is %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestOfASecretAndItsFileTheOverrideCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"first": "of-first", "second": "of-second"} {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, tt := range []struct{ yaml, variable, want string }{
		{"tracing: {bearer_file: first}\n", "EYELET_TRACING_BEARER=x", "x"},
		{"tracing: {bearer_file: first}\n", "EYELET_TRACING_BEARER_FILE=second", "of-second"},
		{"tracing: {bearer: x}\n", "EYELET_TRACING_BEARER_FILE=second", "of-second"},
		{"tracing: {bearer: x}\n", "EYELET_TRACING_BEARER=y", "y"},
		{"url: a\n", "EYELET_TRACING_BEARER_FILE=first", "of-first"},
	} {
		c, err := Source{Environ: []string{tt.variable}}.Parse(filepath.Join(dir, "eyelet.yaml"), []byte(tt.yaml))
		if err != nil {
			t.Errorf("%q with %s: %v", tt.yaml, tt.variable, err)
		} else if got := string(c.Tracing.Bearer); got != tt.want {
			t.Errorf("%q with %s: the token is %s, want %s", tt.yaml, tt.variable, got, tt.want)
		}
	}
}

// TestAnOverrideHidesNoMistake: a value that the file cannot have stays an error.
func TestAnOverrideHidesNoMistake(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"log: text\n": "eyelet.yaml:1: log is a single value, want a mapping",
		"tls: {cert: x}\n": `eyelet.yaml:1: unknown setting "cert" in tls` +
			` | known here: ca_file, cert_file, key_file`,
		"refused: [disk]\n": "eyelet.yaml:1: refused is a list, want a mapping",
	} {
		_, err := parse(t, yaml, "EYELET_LOG_LEVEL=warn", "EYELET_TLS_CERT_FILE=y", "EYELET_REFUSED_MODE=off",
			"EYELET_LIMITS_REMEMBER_SIGNATURES_FOR=30d")
		if diff := cmp.Diff(want, withHints(err)); diff != "" {
			t.Errorf("%q: errors (-want +got):\n%s", yaml, diff)
		}
	}
}
