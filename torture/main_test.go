package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/torture/internal/campaign"
)

// TestTortureIsACommand runs it as `go run -C torture` does: the directory is relative to that of
// the shell.
func TestTortureIsACommand(t *testing.T) {
	shell := t.TempDir()
	t.Setenv("PWD", shell)
	var out bytes.Buffer
	var errs lines
	p := program{out: &out, err: &errs}
	if code := p.run(t.Context(), []string{"--rounds", "3", "--dir", "here", "-o", "json"}); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	var sum campaign.Tally
	if err := json.Unmarshal(out.Bytes(), &sum); err != nil || sum.Rounds != 3 || sum.Acknowledged == 0 ||
		sum.Broken() {
		t.Errorf("%s: %v", out.String(), err)
	}
	if !strings.Contains(errs.String(), "round 3 of 3") || !strings.Contains(errs.String(), "seed ") {
		t.Errorf("progress: %s", errs.String())
	}
	if left, err := os.ReadDir(filepath.Join(shell, "here")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWrongArgumentsAreUsageErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		want string
	}{
		{"", "--dir is missing"},
		{"--dir d --rounds 0", "must be at least 1"},
		{"--dir d --clients 0", "must be at least 1"},
		{"--dir d -o yaml", `unknown output "yaml"`},
		{"--dir d --server-stops 1", "add --store postgres"},
		{"--dir d --rounds many", "many"},
		{"--dir d --strange", "strange"},
		{"--dir d 7", `"7" is not a flag`},
		{"--dir " + file, "choose another --dir"},
	} {
		var out bytes.Buffer
		var errs lines
		code := program{out: &out, err: &errs}.run(t.Context(), strings.Fields(tc.args))
		said := errs.String()
		if code != exitUsage || !strings.HasPrefix(said, "torture: ") || !strings.Contains(said, tc.want) ||
			!strings.Contains(said, "\n  hint: ") || out.Len() > 0 {
			t.Errorf("%s: exit %d, %s%s", tc.args, code, out.String(), said)
		}
	}
}

func TestTheHelpListsTheFlags(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	code := program{out: &out, err: &errs}.run(t.Context(), []string{"--help"})
	for _, want := range []string{"every acknowledged event", "-rounds number", "-handlers effects", "-dir directory"} {
		if code != exitOK || errs.Len() > 0 || !strings.Contains(out.String(), want) {
			t.Errorf("exit %d, %s, not %q in %s", code, errs.String(), want, out.String())
		}
	}
}

func TestTheTableHasTheCounts(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := printTally(&out, campaign.Tally{Rounds: 7, Lost: 1}); err != nil ||
		!strings.Contains(out.String(), "lost  1") {
		t.Errorf("the table: %q, %v", out.String(), err)
	}
}
