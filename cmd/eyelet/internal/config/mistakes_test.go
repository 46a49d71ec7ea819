package config

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/testdata"
)

// validShop is a configuration without errors, to which tests add some.
const validShop = "producers:\n  shop:\n    scheme: rfc9421\n" +
	"    keys: [{id: k, alg: hmac-sha256, secret: 0123456789abcdefghij}]\nurl: http://x\n"

// TestMistakesAreReportedWithTheirLine builds the configurations of testdata/mistakes.txtar, whose
// files are named after what is around them.
func TestMistakesAreReportedWithTheirLine(t *testing.T) {
	t.Parallel()
	around := map[string]string{
		"configurations":                    "%s",
		"producers":                         "producers:\n%s",
		"settings of the producer shop":     strings.Replace(validShop, "rfc9421\n", "rfc9421\n    %s", 1),
		"settings beside the producer shop": validShop + "%s",
		"handlers of the producer shop":     validShop + "handlers:\n%s",
		"handlers of the producer gh": "url: http://x\nproducers:\n" +
			"  gh: {preset: github, secret: [octo-secret]}\nhandlers:\n%s",
		"settings beside the producer gh": "producers:\n  gh: {preset: github, secret: 0123456789abcdef}\n%s",
		"schemes":                         "url: https://hooks.example\nproducers:\n  x: {%s}\n",
	}
	const golden = "testdata/mistakes.txtar"
	data, err := os.ReadFile(golden)
	check(t, err)
	archive, text := txtar.Parse(data), string(data)
	quoted := func(lines string) string {
		return "\n> " + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\n> ")
	}
	dir := t.TempDir()
	check(t, os.CopyFS(dir, testdata.Files()))
	for file, text := range map[string]string{"bad.pem": "nonsense", "empty": " \n"} {
		check(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	for _, file := range archive.Files {
		form, ok := around[file.Name]
		if !ok {
			t.Fatalf("%s: no such place", file.Name)
		}
		for settings, want := range mistakesIn(t, string(file.Data)) {
			settings = strings.TrimSuffix(settings, "\n")
			end := "\n"
			if file.Name == "schemes" {
				end = ""
			}
			err := buildText(t, dir, strings.Replace(form, "%s", settings+end, 1))
			got := strings.ReplaceAll(withHints(err)+"\n", dir+string(filepath.Separator), "")
			if *update {
				text = strings.Replace(text, settings+quoted(want), settings+quoted(got), 1)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s:\n%serrors (-want +got):\n%s", file.Name, settings, diff)
			}
		}
	}
	if *update {
		check(t, os.WriteFile(golden, []byte(text), 0o600))
	}
}

// mistakesIn returns settings with the lines that follow them after ">". A second entry for the
// same settings would hide the first.
func mistakesIn(t *testing.T, text string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for text != "" {
		settings, rest, _ := strings.Cut(text, "\n> ")
		mistakes := ""
		for text = "> " + rest; strings.HasPrefix(text, "> "); {
			line, after, _ := strings.Cut(text[2:], "\n")
			mistakes, text = mistakes+line+"\n", after
		}
		if _, twice := all[settings+"\n"]; twice {
			t.Errorf("twice:\n%s", settings)
		}
		all[settings+"\n"] = mistakes
	}
	return all
}

// buildText loads and builds a configuration.
func buildText(t *testing.T, dir, yaml string, environ ...string) error {
	t.Helper()
	c, err := Source{Environ: environ}.Parse(filepath.Join(dir, "e.yaml"), []byte(yaml))
	if err != nil {
		return err
	}
	_, err = c.Build(context.Background(), BuildOptions{Stdout: os.Stdout})
	return err
}

// withHints returns a line for each error: ERROR | HINT.
func withHints(err error) string {
	ms, ok := usage.Find(err)
	if err == nil {
		return "good"
	} else if !ok {
		return err.Error()
	}
	var lines []string
	for _, m := range ms {
		line := m.Error()
		if m.Hint != "" {
			line += " | " + m.Hint
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
