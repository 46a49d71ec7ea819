package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/replay"
)

func TestCountsHaveTheirPlural(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n          int
		what, want string
	}{
		{1, "remembered key", "1 remembered key"},
		{2, "remembered key", "2 remembered keys"},
		{0, "event", "0 events"},
		{2, "delivery", "2 deliveries"},
		{2, "alias", "2 aliases"},
	} {
		if got := count(tt.n, tt.what); got != tt.want {
			t.Errorf("%d of %q is %q, want %q", tt.n, tt.what, got, tt.want)
		}
	}
}

// TestTextDoesNotFollowTheLineOfAProgress on a terminal: the line is removed first.
func TestTextDoesNotFollowTheLineOfAProgress(t *testing.T) {
	t.Parallel()
	screen := &bytes.Buffer{}
	p := &program{Out: screen, Err: screen}
	g := &progress{program: p, verb: "sent", total: 2, rewrite: true, out: [2]io.Writer{screen, screen}}
	p.Out, p.Err = clearing{screen, g}, clearing{screen, g}
	g.at(1)
	p.printf("a.http: 200\n")
	p.eprintf("eyelet: refused\n")
	g.at(2)
	g.end(2)
	p.printf("done\n")
	text := regexp.MustCompile(` \(\d+/s\)`).ReplaceAllString(screen.String(), "")
	const erase = "\r\x1b[K"
	if want := erase + "sent 1 of 2" + erase + "a.http: 200\neyelet: refused\n" + erase + "sent 2 of 2" + erase +
		"sent 2 of 2\ndone\n"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
}

// TestSuccessesOfManyDeliveriesAreNotPrinted on a terminal, but what needs a look is.
func TestSuccessesOfManyDeliveriesAreNotPrinted(t *testing.T) {
	t.Parallel()
	screen := &bytes.Buffer{}
	p := &program{Out: screen}
	for _, tt := range []struct {
		file   string
		result replay.Result
		err    error
	}{
		{"a", replay.Result{Status: 202}, nil},
		{"b", replay.Result{Status: 200, Replayed: true}, nil},
		{"c", replay.Result{Status: 200, Body: []byte(`{"status":"quarantined"}`)}, nil},
		{"d", replay.Result{Status: 401, Code: "signature_missing"}, nil},
		{"e", replay.Result{}, fmt.Errorf("%w: no answer", replay.ErrNoAnswer)},
	} {
		rec := &replay.Recording{Name: tt.file}
		sent{rec, time.Time{}, tt.result, tt.err, outcomeOf(rec, tt.result, tt.err)}.printLine(p, true)
	}
	const want = "c: 200 quarantined\nd: 401 terminal: signature_missing\ne: failed: no complete response: no answer\n"
	if screen.String() != want {
		t.Errorf("%q, want %q", screen, want)
	}
	many := &progress{program: p, total: screenful + 1, rewrite: true, out: [2]io.Writer{screen, screen}}
	if many.hides() {
		t.Error("lines are missing in what is not a terminal")
	}
}

// TestCommandsAreInGroups, and names of other programs lead to ours.
func TestCommandsAreInGroups(t *testing.T) {
	t.Parallel()
	for _, c := range (&program{}).command().Commands() {
		others := []string{"completion", "help"}
		if c.GroupID == "" && !c.Hidden && !slices.Contains(others, c.Name()) {
			t.Errorf("%s has no group", c.Name())
		}
	}
	for args, want := range map[string]string{
		"logs": "hint: write eyelet events tail", "tail": "hint: write eyelet events tail",
		"sent": `did you mean "send"?`,
		"trigger stripe invoice.paid --url http://127.0.0.1:9": "hint: run `eyelet listen 3000 stripe`",
	} {
		if code, _, errs := run(t, strings.Fields(args)...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", args, code, errs)
		}
	}
}

// TestOnlyAGivenWaitIsATime by which a producer must repeat: conform decides so by zero.
func TestOnlyAGivenWaitIsATime(t *testing.T) {
	t.Parallel()
	c, _, err := (&program{}).command().Find([]string{"conform"})
	check(t, err)
	if f := c.Flags().Lookup("max-wait"); f.DefValue != "0s" {
		t.Errorf("--max-wait is %s by default", f.DefValue)
	}
}

// TestOldNamesOfCommandsRun as their present forms do, also with flags.
func TestOldNamesOfCommandsRun(t *testing.T) {
	t.Parallel()
	for _, name := range oldNames {
		old, _ := command(t, exitOK, "", append(strings.Fields(name.old), "--help")...)
		now, _ := command(t, exitOK, "", append(strings.Fields(name.now), "--help")...)
		if old != now || !strings.Contains(old, "Usage:") {
			t.Errorf("%s: %s", name.old, old)
		}
	}
	if schema, _ := command(t, exitOK, "", "config", "schema"); !strings.Contains(schema, `"$schema"`) {
		t.Error(schema)
	}
}

// TestCommandsPrintJSON: -o is missing only where the output is files or a text for programs.
func TestCommandsPrintJSON(t *testing.T) {
	t.Parallel()
	texts := []string{"demo", "man", "mcp", "serve", "completion"}
	for _, c := range allCommands((&program{}).command()) {
		name := strings.TrimPrefix(c.CommandPath(), "eyelet ")
		other := slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(name, text) })
		if !c.HasSubCommands() && !other && c.Flags().Lookup("output") == nil {
			t.Errorf("%s has no -o", name)
		}
	}
	dir := t.TempDir()
	other, file := filepath.Join(dir, "other.secret"), filepath.Join(dir, "eyelet.yaml")
	for args, want := range map[string]string{
		"version": `"go":"go1.`, "keygen --keyid k1 --dir " + dir: `"id":"k1"`,
		"keygen --alg hmac-sha256 --name other --dir " + dir: `"secret":"` + other,
		"init github --operations off --config " + file:      `"secrets":{"github":`,
	} {
		out, _ := command(t, exitOK, "", append(strings.Fields(args), "-o", "json")...)
		if all := objects(t, out); len(all) != 1 || !strings.Contains(out, want) {
			t.Errorf("%s: %s", args, out)
		}
	}
	if text, err := os.ReadFile(file); !strings.Contains(string(text), `operations: "off"`) {
		t.Errorf("%v: %s", err, text)
	}
}
