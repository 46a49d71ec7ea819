package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/commands.md")

// TestTheTableOfCommandsIsComplete compares docs/commands.md with the commands, or writes its table
// with -update.
func TestTheTableOfCommandsIsComplete(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../docs/commands.md", "<!-- commands -->\n", "<!-- end -->"
	var table strings.Builder
	table.WriteString(begin + "command | what\n---|---\n")
	for _, c := range allCommands((&program{}).command()) {
		if c.HasSubCommands() || !hasManual(c) || c.Parent().Name() == "completion" {
			continue
		}
		use := strings.NewReplacer("eyelet ", "", " [flags]", "", "|", `\|`).Replace(c.UseLine())
		fmt.Fprintf(&table, "`%s` | %s\n", use, c.Short)
	}
	raw, err := os.ReadFile(file)
	check(t, err)
	before, rest, _ := strings.Cut(string(raw), begin)
	_, after, ok := strings.Cut(rest, end)
	if !ok || strings.Count(table.String(), "\n") < 25 {
		t.Fatalf("%s has no place for the table, or it is short:\n%s", file, &table)
	}
	want := before + table.String() + end + after
	if want != string(raw) && !*update {
		t.Fatalf("%s differs from the commands: go test ./cmd/eyelet -run TableOfCommands -update writes it", file)
	}
	if *update {
		check(t, os.WriteFile(file, []byte(want), 0o600))
	}
}
