package config

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/conf"
)

var update = flag.Bool("update", false, "write the tables of docs/config.md")

// described is a setting in the schema.
type described struct{ name, sentence string }

// TestEverySettingIsDescribed compares settings.txt with the schema. Settings that have members are
// described by these.
func TestEverySettingIsDescribed(t *testing.T) {
	t.Parallel()
	seen := map[described]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			settings, _ := v["properties"].(map[string]any)
			for name, form := range settings {
				mapping, _ := form.(map[string]any)
				sentence, _ := mapping["description"].(string)
				seen[described{name, sentence}] = true
				nested := conf.Members(form) != nil || mapping["additionalProperties"] != nil || mapping["items"] != nil
				if sentence == "" && !nested && name != "preset" && name != "scheme" {
					t.Errorf("settings.txt does not describe %s", name)
				}
			}
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(schemaAsJSON(t))
	if len(seen) < 150 {
		t.Fatalf("only %d settings found", len(seen))
	}
	for section, rows := range conf.Describe(settingsText) {
		for _, row := range rows {
			if !strings.HasSuffix(row.Sentence, ".") || strings.Contains(row.Sentence, ". ") {
				t.Errorf("[%s] %v: %q is not one sentence", section, row.Names, row.Sentence)
			}
			for _, name := range row.Names {
				if !seen[described{name[strings.LastIndex(name, ".")+1:], row.Sentence}] {
					t.Errorf("[%s] describes %s, which is not a setting", section, name)
				}
			}
		}
	}
}

// settingsTable is a place for the table of a section on the page.
var settingsTable = regexp.MustCompile(`(?s)(<!-- settings of ([\w. ]+) -->\n).*?(<!-- end -->)`)

// TestTheTablesOfThePageAreTheSettings compares the tables of docs/config.md with settings.txt, or
// writes them with -update.
func TestTheTablesOfThePageAreTheSettings(t *testing.T) {
	t.Parallel()
	const file = "../../../../docs/config.md"
	page, err := os.ReadFile(file)
	check(t, err)
	sections, shown := conf.Describe(settingsText), map[string]bool{}
	want := settingsTable.ReplaceAllStringFunc(string(page), func(place string) string {
		part := settingsTable.FindStringSubmatch(place)
		shown[part[2]] = true
		return part[1] + tableOf(sections[part[2]]) + part[3]
	})
	for section := range sections {
		if !shown[section] {
			t.Errorf("docs/config.md has no place for the settings of %s", section)
		}
	}
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatal("docs/config.md differs from settings.txt: go test ./cmd/eyelet/internal/config -update writes it")
	}
	check(t, os.WriteFile(file, []byte(want), 0o600))
}

// tableOf returns the table of a section.
func tableOf(rows []conf.Row) string {
	var b strings.Builder
	defaults := slices.ContainsFunc(rows, func(r conf.Row) bool { return r.Default != "" })
	if b.WriteString("setting | what\n---|---\n"); defaults {
		b.Reset()
		b.WriteString("setting | default | what\n---|---|---\n")
	}
	for _, row := range rows {
		cells := []string{"`" + strings.Join(row.Names, "`, `") + "`", row.Sentence}
		if defaults {
			cells = slices.Insert(cells, 1, row.Default)
		}
		b.WriteString(strings.ReplaceAll(strings.Join(cells, " | "), "|  |", "| |") + "\n")
	}
	return b.String()
}
