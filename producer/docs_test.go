package producer

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/producers.md")

// TestTheDocumentedTablesAreTrue compares docs/producers.md with the presets. With -update it writes them.
func TestTheDocumentedTablesAreTrue(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "docs", "producers.md")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := string(raw)
	for name, table := range map[string]string{"presets": presetTable(), "inbound": inboundTable()} {
		begin, end := "<!-- "+name+": written by go test ./producer -update -->\n", "<!-- end of "+name+" -->"
		before, rest, ok := strings.Cut(want, begin)
		_, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			t.Fatalf("%s has no place for the table %q", file, name)
		}
		want = before + begin + table + end + after
	}
	if want == string(raw) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the presets say: go test ./producer -update writes its tables", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}

func presetTable() string {
	var b strings.Builder
	b.WriteString("| Preset | Authentication | Identifier | Window | Answer within | What counts as received; how long it tries | Settings |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, p := range Presets() {
		deadline := p.Deadline
		if deadline == "" {
			deadline = "not known"
		}
		settings := "`allowed_ips`"
		if len(p.Uses) > 0 {
			settings = "`" + strings.Join(p.Uses, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| [%s](%s) | %s | %s | %d h | %s | %s | %s |\n",
			p.Name, p.Docs(), p.Auth, p.ID, int(p.Window().Hours()), deadline, p.Wants, settings)
	}
	return b.String()
}

func inboundTable() string {
	var b strings.Builder
	b.WriteString("| System | `key:` | Note |\n| --- | --- | --- |\n")
	for _, in := range Inbounds() {
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", in.System, in.Key, in.Note)
	}
	return b.String()
}
