package main

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
)

// TestPlantedRecordings explains recorded deliveries that note their cause. EYELET_PLANTED names
// another folder of the same form: eyelet.yaml, and *.http files with the note expect-cause.
func TestPlantedRecordings(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(os.Getenv("EYELET_PLANTED"), "testdata/planted")
	files, err := filepath.Glob(filepath.Join(dir, "*.http"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no *.http files, %v", dir, err)
	}
	_, plan, err := buildPlan(t.Context(), config.Source{File: filepath.Join(dir, "eyelet.yaml")}, true)
	check(t, err)
	defer plan.Close()
	named, first := 0, 0
	for _, file := range files {
		rec, err := readRecording(file)
		check(t, err)
		at, err := arrival(rec, "")
		check(t, err)
		report, err := explainRecording(t.Context(), plan, rec, rec.Note("producer"), at, nil)
		check(t, err)
		var got []string
		for _, f := range report.Findings {
			got = append(got, string(f.Cause))
		}
		want := strings.Fields(strings.ReplaceAll(rec.Note("expect-cause"), ",", " "))
		missing := slices.ContainsFunc(want, func(c string) bool { return !slices.Contains(got, c) })
		if missing || len(want) == 0 {
			t.Errorf("%s: found %v, planted %v", file, got, want)
			continue
		}
		if named++; slices.Contains(want, got[0]) {
			first++
		}
		t.Logf("%-40s %4d trials  %v", filepath.Base(file), report.Trials, got)
	}
	t.Logf("%d planted, %d named, %d first", len(files), named, first)
}

// TestARecordingThatIsCutIsAnErrorOrExplained cuts a recording at every byte.
func TestARecordingThatIsCutIsAnErrorOrExplained(t *testing.T) {
	t.Parallel()
	_, plan, err := buildPlan(t.Context(), config.Source{File: "testdata/planted/eyelet.yaml"}, true)
	check(t, err)
	defer plan.Close()
	whole, err := os.ReadFile("testdata/planted/rewritten.http")
	check(t, err)
	explained := 0
	for n := range whole {
		rec, err := parseRecording("cut.http", whole[:n])
		if err != nil {
			continue
		}
		at, err := arrival(rec, "1795319382")
		check(t, err)
		if n%16 != 0 && os.Getenv("EYELET_LARGE") == "" {
			continue
		}
		report, err := explainRecording(t.Context(), plan, rec, "stripe", at, nil)
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if len(report.Findings) > 0 && report.Findings[0].Proved && report.Findings[0].Cause != "body_not_signed" {
			t.Errorf("cut at %d: %+v", n, report.Findings)
		}
		explained++
	}
	if explained == 0 {
		t.Error("nothing was explained")
	}
}

func TestSecretFilesAreChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path, text, 0o600))
		return path
	}
	for path, want := range map[string]string{
		dir: "is not a file", filepath.Join(dir, "none"): "no such file", write("empty", []byte("\n")): "is empty",
		write("large", bytes.Repeat([]byte("s"), 10<<20)): "is larger than 64 KiB",
	} {
		if _, err := readSecrets([]string{path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	got, err := readSecrets([]string{write("good", []byte("s3cret\r\n"))})
	if err != nil || len(got) != 1 || string(got[0].Secret) != "s3cret" || got[0].Name != "the secret of good" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestTheServerExplainsWhatItRefused refuses a signed push with a newline after its body.
func TestTheServerExplainsWhatItRefused(t *testing.T) {
	t.Parallel()
	file := configured(t, "explain: log\n")
	s := launch(t, "serve", "--config", file, "--log-level", "warn")
	r := pushRequest(t, s.deliveries, "1", `{"a":1}`)
	status := refuse(t, r.URL.String(), "{\"a\":1}\n", "X-Hub-Signature-256", r.Header.Get("X-Hub-Signature-256"),
		"X-GitHub-Delivery", "1", "X-GitHub-Event", "push", "Content-Type", "application/json")
	if status != 401 {
		t.Fatal("status", status)
	}
	refusedLines(t, 1, "--config", file)
	out, _ := command(t, 0, "", "explain", "1", "--config", file)
	if !strings.Contains(out, "proved: White space") || !strings.Contains(out, "body_newline") {
		t.Error(out)
	}
	saved, _ := command(t, 0, "", "explain", "1", "--config", file, "--producer", "gh", "-o", "json")
	if !strings.Contains(saved, `"cause":"body_newline","proved":true`) {
		t.Error(saved)
	}
	eventually(t, "the cause is in the log", func() bool {
		return strings.Contains(s.errs.String(), "cause=body_newline proved=true")
	})
	if all := out + saved + s.errs.String(); strings.Contains(all, "octo-secret") {
		t.Error("the secret is in an output")
	}
	refuse(t, s.deliveries+"/webhooks/g", "{}")
	refusedLines(t, 2, "--config", file)
	if out, _ := command(t, 1, "", "explain", "2", "--config", file); !strings.Contains(out,
		"refused: not_found\nno endpoint has this path") {
		t.Error(out)
	}
	if _, errs := command(t, 1, "", "explain", "99", "--config", file); !strings.Contains(errs,
		"no refused delivery 99") {
		t.Error(errs)
	}
}
