package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// recordedAt is the time of the deliveries in testdata/presets.
var recordedAt = time.Unix(1782635400, 0)

// TestRecordedDeliveriesOfPresetsAreAccepted: testdata/presets has a delivery of every preset that
// needs no key of the vendor, and `eyelet dev` accepts each. EYELET_RECORD=1 writes missing ones.
func TestRecordedDeliveriesOfPresetsAreAccepted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "testdata", "presets")
	file := filepath.Join(dir, "eyelet.yaml")
	s, err := config.Source{File: file}.Load()
	check(t, err)
	settings := map[string]preset.Settings{}
	for i := range s.Producers {
		settings[s.Producers[i].Name] = s.Producers[i].PresetSettings
	}
	for _, vendor := range preset.All() {
		if vendor.KeySigned() {
			continue // testdata/vectors/producers has theirs
		}
		set, ok := settings[vendor.Name]
		if !ok {
			t.Errorf("%s has no producer %s", file, vendor.Name)
			continue
		}
		found, err := filepath.Glob(filepath.Join(dir, vendor.Name, "*.http"))
		check(t, err)
		if len(found) == 0 && os.Getenv("EYELET_RECORD") != "" {
			recordSample(t, dir, vendor, set)
		} else if len(found) == 0 {
			t.Errorf("%s: no delivery in %s; EYELET_RECORD=1 go test ./cmd/eyelet -run Recorded writes it",
				vendor.Name, dir)
		}
	}
	code, out, errs := run(t, "dev", "--once", "--config", file, dir)
	if code != exitOK || strings.Contains(out, "FAIL") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func recordSample(t *testing.T, dir string, vendor preset.Preset, set preset.Settings) {
	t.Helper()
	kind := vendor.Types()[0]
	r, body, err := vendor.Sample(set, "https://hooks.example/webhooks/"+vendor.Name, kind, "1700000000017", recordedAt)
	check(t, err)
	rec := recordingOf(vendor.Name, r.URL.RequestURI(), r, body)
	for _, note := range [][2]string{
		{"about", "a sample of " + vendor.Name}, {"producer", vendor.Name},
		{"now", strconv.FormatInt(recordedAt.Unix()+1, 10)},
		{"expect", "new " + strconv.Itoa(acceptedStatus(vendor, set))}, {"type", kind},
	} {
		rec.SetNote(note[0], note[1])
	}
	name := strings.NewReplacer("/", "-", ":", "-", " ", "-").Replace(kind)
	path := filepath.Join(dir, vendor.Name, strings.ReplaceAll(name, "--", "-")+".http")
	check(t, os.MkdirAll(filepath.Dir(path), 0o750))
	check(t, os.WriteFile(path, rec.Bytes(), 0o600))
}

// acceptedStatus is the status with which the vendor's deliveries are accepted.
func acceptedStatus(vendor preset.Preset, set preset.Settings) int {
	if status := vendor.Open(set).Accepted.Status; status != 0 {
		return status
	}
	return 200
}
