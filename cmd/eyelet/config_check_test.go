package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfigCheckLoadsTheCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "e.yaml")
	text := "producers:\n  shop:\n    scheme: rfc9421\n    keys: [{id: k, alg: hmac-sha256, secret: " +
		"0123456789abcdefghij}]\nurl: http://x\n" + "tls: {cert_file: none.pem, key_file: none.pem}\nlog: {format: x}\n"
	check(t, os.WriteFile(file, []byte(text), 0o600))
	var out, errs bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: &out, Err: &errs}
	code := p.Run(t.Context(), "config", "check", "--config", file)
	if code != exitUsage || !strings.Contains(errs.String(), "tls: ") ||
		!strings.Contains(errs.String(), "log.format") {
		t.Errorf("exit %d, standard output %q, standard error\n%s", code, out.String(), errs.String())
	}
	var served bytes.Buffer
	p = &program{In: strings.NewReader(""), Out: &out, Err: &served}
	if code := p.Run(t.Context(), "serve", "--config", file); code != exitUsage || served.String() != errs.String() {
		t.Errorf("serve: exit %d, standard error\n%s", code, served.String())
	}
}

// checked runs config check over a file, and returns its exit code and its output.
func checked(t *testing.T, text string, args ...string) (code int, out, errs string) {
	t.Helper()
	return overFile(t, text, append([]string{"config", "check"}, args...)...)
}

// overFile runs a command over a file, and returns its exit code and its output.
func overFile(t *testing.T, text string, args ...string) (code int, out, errs string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "e.yaml")
	check(t, os.WriteFile(file, []byte(text), 0o600))
	var stdout, stderr bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: &stdout, Err: &stderr}
	code = p.Run(t.Context(), append(args, "--config", file)...)
	return code, stdout.String(), strings.ReplaceAll(stderr.String(), filepath.Dir(file)+string(filepath.Separator), "")
}

// TestConfigCheckReportsEveryMistakeAtOnce: also those that are found only when settings are built,
// beside settings that cannot be read, and nothing that follows from those. Other commands report
// the same.
func TestConfigCheckReportsEveryMistakeAtOnce(t *testing.T) {
	t.Parallel()
	const text = `producers:
  a: {preset: gihub, secret: 0123456789abcdef}
  b:
    preset: github
    secrets: ["${EYELET_UNSET}"]
  c:
    preset: strip
    secrett: x
  d: {preset: github, secret: 0123456789abcdef}
handlers:
  - {producer: d, type: push, exec: [/nowhere/program]}
  - {producer: nobody, type: push, exec: [/bin/true]}
  - {producr: d, type: push, exec: [/bin/true]}
  - {producer: d, typ: push}
log: {format: x}
`
	code, _, errs := checked(t, text)
	var got []string
	for line := range strings.Lines(errs) {
		if !strings.HasPrefix(line, "  hint: ") {
			place, what, _ := strings.Cut(strings.TrimPrefix(line, "eyelet: "), ": ")
			got = append(got, place+" "+strings.Join(strings.Fields(what)[:2], " "))
		}
	}
	want := []string{
		"e.yaml:2 unknown preset", "e.yaml:5 variable EYELET_UNSET", "e.yaml:7 unknown preset",
		"e.yaml:8 unknown setting",
		"e.yaml:11 no program", "e.yaml:12 handler for", "e.yaml:13 unknown setting", "e.yaml:14 unknown setting",
		"e.yaml:15 log.format is",
	}
	if diff := cmp.Diff(want, got); code != exitUsage || diff != "" {
		t.Errorf("exit %d: %s\n%s", code, diff, errs)
	}
	for _, command := range []string{"serve", "config show"} {
		code, out, more := overFile(t, text, strings.Fields(command)...)
		if code != exitUsage || out != "" || more != errs {
			t.Errorf("%s: exit %d: %s%s", command, code, out, more)
		}
	}
	code, out, errs := checked(t, text, "-o", "json")
	result := objects(t, out)[0]
	if all, ok := result["errors"].([]any); code != exitUsage || errs != "" || !ok || len(all) != len(want) ||
		result["good"] != false || all[3].(map[string]any)["hint"] == nil {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestConfigCheckWarnsOfProbableMistakes(t *testing.T) {
	t.Parallel()
	const sid = "AC0123456789abcdef0123456789abcdef"
	text := `url: https://hooks.example/webhooks/calls/
producers:
  gh: {preset: github, secret: 0123456789abcdef}
  calls: {preset: twilio, secret: ` + sid + `}
  pay: {preset: paddle, secret: 0123456789abcdef}
  own: {preset: github, secret: 0123456789abcdef, type: "json:kind"}
handlers:
  - {producer: gh, type: pushed, exec: [/bin/true]}
  - {producer: gh, type: "push*", exec: [/bin/true]}
  - {producer: gh, type: workflow_job, exec: [/bin/true]}
  - {producer: pay, type: "order.*", exec: [/bin/true]}
  - {producer: pay, type: "transaction.*", exec: [/bin/true]}
  - {producer: pay, type: "transactoin.*", exec: [/bin/true]}
  - {producer: own, type: pushed, exec: [/bin/true]}
`
	code, out, errs := checked(t, text)
	var got []string
	for line := range strings.Lines(errs) {
		if what, ok := strings.CutPrefix(line, "eyelet: warning: e.yaml:"); ok {
			got = append(got, strings.Join(strings.Fields(what)[:5], " "))
		}
	}
	want := []string{
		`4: producer "calls" has no`, `8: type "pushed" matches none`, `13: type "transactoin.*" matches none`,
		"1: url ends in /webhooks/calls,", `4: producer "calls": a secret`,
	}
	if diff := cmp.Diff(want, got); code != exitOK || diff != "" || !strings.Contains(out, "good: 4 producers") {
		t.Errorf("exit %d: %s\n%s%s", code, diff, out, errs)
	}
	if strings.Contains(errs, sid) || !strings.Contains(errs, `did you mean "push"?`) ||
		!strings.Contains(errs, `did you mean "transaction.*"?`) {
		t.Error(errs)
	}
	code, out, errs = checked(t, text, "-o", "json")
	result := objects(t, out)[0]
	if all, ok := result["warnings"].([]any); code != exitOK || errs != "" || !ok || len(all) < len(want) ||
		result["good"] != true || result["producers"] != 4.0 || result["handlers"] != 7.0 {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
