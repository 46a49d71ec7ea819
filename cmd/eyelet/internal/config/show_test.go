package config

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/httpserver"
	"github.com/eyelet-dev/eyelet/receiver"
)

func TestShownConfigurationLoads(t *testing.T) {
	t.Parallel()
	c := loadText(t, filepath.Join(t.TempDir(), "eyelet.yaml"), "limits: {max_body: 2MiB}\nproducers:\n"+
		"  gh: {preset: github, secret: [octo-secret]}\nhandlers:\n  - {producer: gh, type: \"*\", stdout: true}\n")
	plan, err := c.Build(t.Context(), BuildOptions{Stdout: io.Discard})
	check(t, err)
	defer plan.Close() //nolint:errcheck // it holds no key set that fetches
	shown, err := c.Effective(plan)
	check(t, err)
	first, err := yaml.Marshal(shown.YAML())
	check(t, err)
	again := strings.ReplaceAll(string(first), conf.Hidden, "octo-secret")
	s, err := Source{}.Parse("shown", []byte(again))
	if err != nil {
		t.Fatalf("the shown configuration does not load: %v\n%s", err, again)
	}
	if s.Limits.MaxBody != 2<<20 || s.Limits.Attempts != 16 ||
		len(s.Producers) != 1 || s.Producers[0].common.MaxBody == 0 {
		t.Errorf("loaded %+v", s)
	}
}

func TestASettingIsShownAsItIsOverridden(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	text := "store: postgres://u:${A B}@h/db\nproducers:\n  gh: {preset: github, secret: octo-secret}\n"
	check(t, os.WriteFile(file, []byte(text), 0o600))
	c, err := Source{File: file, Environ: []string{"EYELET_STORE=badger:x"}}.Load()
	check(t, err)
	plan, err := c.Build(t.Context(), BuildOptions{Stdout: io.Discard})
	check(t, err)
	defer plan.Close() //nolint:errcheck // it holds no key set that fetches
	shown, err := c.Effective(plan)
	check(t, err)
	if got := shown.Plain().(map[string]any)["store"]; got != "badger:x" { //nolint:forcetypeassert // a mapping
		t.Errorf("store is shown as %v", got)
	}
}

// TestDefaultsAreThoseOfTheLibrary: the tags of the settings repeat the defaults of packages.
func TestDefaultsAreThoseOfTheLibrary(t *testing.T) {
	t.Parallel()
	c, err := parse(t, "log: {level: info}\n")
	check(t, err)
	l := c.Limits
	got := []any{
		c.Listen, c.Operations, l.MaxBody, l.BodyBudget, l.Head, l.HeaderTimeout, l.IdleTimeout,
		l.BodyTimeout, l.Attempts, l.BackoffBase, l.BackoffCap, l.PostponeMax, l.HandlerTimeout,
		l.InFlightWait, l.Lease, l.RetryAfter, l.Drain, l.RememberSignatures.For, int64(l.RememberSignatures.Max),
	}
	want := []any{
		DefaultListen, DefaultOperations, int64(receiver.DefaultMaxBody), int64(receiver.DefaultBodyBudget),
		int64(DefaultHead), httpserver.DefaultHeaderTimeout, httpserver.DefaultIdleTimeout,
		receiver.DefaultBodyTimeout, receiver.DefaultAttempts,
		receiver.DefaultBackoffBase, receiver.DefaultBackoffCap, receiver.DefaultPostponeMax,
		receiver.DefaultHandlerTimeout, receiver.DefaultInFlightWait,
		receiver.DefaultLease, receiver.DefaultRetryAfter, httpserver.DefaultDrain, dedup.DefaultRememberFor,
		int64(dedup.DefaultRememberMax),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// TestDefaultsAreDescribed: the page has the defaults of the tags.
func TestDefaultsAreDescribed(t *testing.T) {
	t.Parallel()
	defaults := conf.NewMapping()
	defaults.AddDefaults(reflect.TypeFor[Settings]())
	seen := 0
	for section, prefix := range map[string]string{"Settings": "", "Limits": "limits."} {
		for _, row := range conf.Describe(settingsText)[section] {
			for i, name := range row.Names {
				n := defaults.Find(prefix + name)
				if n == nil || n.Kind != conf.Scalar {
					continue
				}
				seen++
				plain := strings.NewReplacer("`", "", " MiB", "MiB", " KiB", "KiB").Replace(row.Default)
				words := strings.Split(plain, ", ")
				text, _, _ := strings.Cut(words[min(i, len(words)-1)], ";")
				if size, err := conf.ParseSize(text); err == nil {
					text = strconv.FormatInt(size, 10)
				} else if d, err := duration.Parse(text); err == nil {
					text = duration.Format(d)
				}
				if text != n.Text {
					t.Errorf("%s%s is %q by default, and is described as %q", prefix, name, n.Text, row.Default)
				}
			}
		}
	}
	if seen < 25 {
		t.Errorf("only %d defaults were found", seen)
	}
}
