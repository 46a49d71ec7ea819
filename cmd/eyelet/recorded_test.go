package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// recordedAt is the time of the recorded deliveries.
var recordedAt = time.Unix(1782635400, 0)

// TestRecordedDeliveriesMeetTheirExpectations sends recorded deliveries of every preset, of every
// scheme, and of systems without a preset to producers of a configuration file.
func TestRecordedDeliveriesMeetTheirExpectations(t *testing.T) {
	t.Parallel()
	presets := filepath.Join("..", "..", "testdata", "presets")
	for name, tt := range map[string]struct {
		folder, config string
		least          int
	}{
		"presets": {presets, filepath.Join(presets, "eyelet.yaml"), 44},
		"schemes": {"testdata/schemes", "testdata/schemes/eyelet.yaml", 68},
		"callers": {"testdata/callers", documentedCallers(t), 19},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := run(t, "dev", "--once", "--config", tt.config, tt.folder)
			if n := strings.Count(out, "\nok ") + 1; code != exitOK || strings.Contains(out, "FAIL") || n < tt.least {
				t.Errorf("exit %d, %d of %d: %s%s", code, n, tt.least, out, errs)
			}
		})
	}
}

// TestEveryPresetHasARecordedDelivery, unless only the vendor has its key: those are vectors.
// EYELET_RECORD=1 writes missing ones.
func TestEveryPresetHasARecordedDelivery(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "testdata", "presets")
	s, err := config.Source{File: filepath.Join(dir, "eyelet.yaml")}.Load()
	check(t, err)
	settings := map[string]preset.Settings{}
	for i := range s.Producers {
		settings[s.Producers[i].Name] = s.Producers[i].PresetSettings
	}
	for _, vendor := range preset.All() {
		set, ok := settings[vendor.Name]
		if vendor.KeySigned() {
			continue
		}
		found, err := filepath.Glob(filepath.Join(dir, vendor.Name, "*.http"))
		check(t, err)
		if len(found) == 0 && ok && os.Getenv("EYELET_RECORD") != "" {
			recordSample(t, dir, vendor, set)
		} else if len(found) == 0 || !ok {
			t.Errorf("%s: no delivery or no producer in %s; EYELET_RECORD=1 go test ./cmd/eyelet -run Recorded "+
				"writes the delivery", vendor.Name, dir)
		}
	}
}

func recordSample(t *testing.T, dir string, vendor preset.Preset, set preset.Settings) {
	t.Helper()
	kind, status := vendor.Types()[0], 200
	if accepted := vendor.Open(set).Accepted.Status; accepted != 0 {
		status = accepted
	}
	r, body, err := vendor.Sample(set, "https://hooks.example/webhooks/"+vendor.Name, kind, "1700000000017", recordedAt)
	check(t, err)
	rec := recordingOf(vendor.Name, r.URL.RequestURI(), r, body)
	for _, note := range [][2]string{
		{"about", "a sample of " + vendor.Name}, {"producer", vendor.Name},
		{"now", strconv.FormatInt(recordedAt.Unix()+1, 10)}, {"expect", fmt.Sprint("new ", status)}, {"type", kind},
	} {
		rec.SetNote(note[0], note[1])
	}
	name := strings.NewReplacer("/", "-", ":", "-", " ", "-").Replace(kind)
	path := filepath.Join(dir, vendor.Name, strings.ReplaceAll(name, "--", "-")+".http")
	check(t, os.MkdirAll(filepath.Dir(path), 0o750))
	check(t, os.WriteFile(path, rec.Bytes(), 0o600))
}

// documentedCallers writes the configuration of docs/producers.md for systems that send an
// identifier with API calls, with the keys that it names.
func documentedCallers(t *testing.T) (file string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/producers.md")
	check(t, err)
	_, rest, found := strings.Cut(string(page), "\n## Systems that send an identifier with API calls\n")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	yaml, _, ok := strings.Cut(rest, "```")
	if !found || !ok {
		t.Fatal("docs/producers.md has no configuration of such systems")
	}
	dir := t.TempDir()
	file = filepath.Join(dir, "eyelet.yaml")
	for name, from := range map[string]string{"wallet.pub.pem": "wallet.pub.pem", "jwks.json": "jwks.txt"} {
		key, err := os.ReadFile(filepath.Join("testdata", "callers", from))
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dir, name), key, 0o600))
	}
	yaml = regexp.MustCompile(`\$\{[A-Z0-9_]+\}`).ReplaceAllString(yaml, "secret-0123456789")
	check(t, os.WriteFile(file, []byte(yaml), 0o600))
	s, err := config.Source{File: file}.Load()
	check(t, err)
	plan, err := s.Build(t.Context(), config.BuildOptions{})
	check(t, err)
	defer plan.Close() //nolint:errcheck // it holds no key set that fetches
	if n := len(plan.Producers); n < 20 {
		t.Errorf("only %d systems", n)
	}
	return file
}
