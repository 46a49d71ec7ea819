package eyelet_test

import (
	"os"
	"strings"
	"testing"
)

// tableOf returns the rows of the table that docs/producers.md has between two marks, its head left out.
func tableOf(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("docs/producers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- "+name+":")
	table, _, ok := strings.Cut(rest, "<!-- end of "+name+" -->")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if !ok || len(lines) < 4 {
		t.Fatalf("docs/producers.md has no table %q", name)
	}
	return lines[3:] // the rest of the mark, the head, and the line under it
}

// TestTheTablesOfTheReadmeAreThoseOfTheProducersPage holds README's short tables to the page that is held to
// the presets.
func TestTheTablesOfTheReadmeAreThoseOfTheProducersPage(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range tableOf(t, "presets") {
		if short := shortRow(row); !strings.Contains(string(readme), short) {
			t.Errorf("README lacks %s", short)
		}
	}
	for _, row := range tableOf(t, "inbound") {
		if !strings.Contains(string(readme), row) {
			t.Errorf("README lacks %s", row)
		}
	}
}

// shortRow keeps the first four columns.
func shortRow(row string) string {
	cells := strings.SplitN(row, " | ", 5)
	return strings.Join(cells[:4], " | ") + " |"
}
