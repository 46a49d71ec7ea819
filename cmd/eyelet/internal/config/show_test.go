package config

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/internal/conf"
)

func TestShownConfigurationLoads(t *testing.T) {
	t.Parallel()
	c := loadText(t, filepath.Join(t.TempDir(), "eyelet.yaml"), "limits: {max_body: 2MiB}\nproducers:\n"+
		"  gh: {preset: github, secrets: [octo-secret]}\nhandlers:\n  - {producer: gh, type: \"*\", stdout: true}\n")
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

func TestDefaultsOfLimitsAreShown(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, row := range defaultRows(&Settings{}) {
		shown[row[0]] = true
		if last := strings.LastIndex(row[0], "."); last >= 0 {
			shown[row[0][:last]] = true // a setting with members
		}
	}
	rows := conf.Describe(settingsText)["Limits"]
	for _, row := range rows {
		if row.Default == "none" || strings.HasPrefix(row.Default, "the larger") || row.Names[0] == "backlog_events" {
			continue // set by the store
		}
		for _, name := range row.Names {
			if name = "limits." + name; !shown[name] {
				t.Errorf("%s has a default, and config show does not show it", name)
			}
		}
	}
	if len(rows) < 15 {
		t.Errorf("only %d limits found", len(rows))
	}
}
