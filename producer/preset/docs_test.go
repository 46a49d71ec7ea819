package preset

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

var update = flag.Bool("update", false, "write the tables of docs/producers.md and docs/security.md")

// TestDocumentedTablesMatchThePresets compares the tables of docs/ with the presets, or writes
// them with -update.
func TestDocumentedTablesMatchThePresets(t *testing.T) {
	t.Parallel()
	documentTables(t, "producers.md", map[string]string{"presets": presetTable()})
	documentTables(t, "security.md", map[string]string{"captured": capturedTable(t)})
}

func documentTables(t *testing.T, name string, tables map[string]string) {
	t.Helper()
	file := filepath.Join("..", "..", "docs", name)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := string(raw)
	for name, table := range tables {
		begin, end := "<!-- "+name+": written by go test ./producer/preset -update -->\n", "<!-- end of "+name+" -->"
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
		t.Fatalf("%s does not match the presets: go test ./producer/preset -update writes its tables", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}

// signsTime reports whether the producer signs a time.
func signsTime(p *producer.Producer) bool {
	scheme, ok := p.Scheme.(verify.Binder)
	return ok && scheme.Binds().Time
}

// capturedTable lists how often a handler for every type may run for a captured delivery, with the
// presets of each case.
func capturedTable(t *testing.T) string {
	t.Helper()
	presets := map[string][]string{}
	for _, preset := range All() {
		p := preset.described()
		result := fmt.Sprintf("%s | %s | %s", p.Class(), capturedWithin(t, &p), capturedAfter(&p))
		presets[result] = append(presets[result], preset.Name)
	}
	var b strings.Builder
	b.WriteString("Class | Within the window | After it | Presets\n---|---|---|---\n")
	for _, result := range slices.Sorted(maps.Keys(presets)) {
		fmt.Fprintf(&b, "%s | %s\n", result, strings.Join(presets[result], ", "))
	}
	return b.String()
}

// repeatableBodies are signed bodies that two events may share, by preset.
var repeatableBodies = map[string]string{
	"github": `{"zen":"","hook_id":1}`, "twilio": "CallSid=CA17&Digits=1", "shopify": `{"shop_id":1,"shop_domain":"a"}`,
	"shopify-events": `{"shop_id":1,"shop_domain":"a"}`, "woocommerce": `{"id":1}`,
}

func capturedWithin(t *testing.T, p *producer.Producer) string {
	t.Helper()
	if p.Class() == producer.ClassUnsigned {
		return "any event under any new identifier: the credential is captured"
	}
	text := "once"
	if p.KeyedByType != nil {
		text += " for each topic that a handler names, and under at most 9 others"
	}
	if p.Repeatable == nil {
		return text
	}
	r := httptest.NewRequest(http.MethodPost, testHook, nil)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	repeats := p.Repeatable(&producer.Delivery{Request: r, Body: []byte(repeatableBodies[p.Preset])})
	if repeats.Max < 2 {
		t.Errorf("%s: repeatableBodies has no body that repeats", p.Preset)
	}
	text += fmt.Sprintf("; up to %d times with content that repeats", repeats.Max)
	if repeats.Within > 0 {
		text += fmt.Sprintf(", within %d h", int(repeats.Within.Hours()))
	}
	return text
}

func capturedAfter(p *producer.Producer) string {
	switch {
	case p.Class() == producer.ClassUnsigned:
		return "the same, until the credential is changed or a token ends"
	case p.Series != nil:
		return "once in each window, where the topic has moved on"
	case signsTime(p):
		past := p.Tolerance.WithDefaults().Past
		if past%time.Hour == 0 {
			return fmt.Sprintf("refused: older than %d h", past/time.Hour)
		}
		return fmt.Sprintf("refused: older than %d min", past/time.Minute)
	case p.Forgets:
		return "again, once in each window"
	}
	return "quarantined for 90 days more, then once again"
}

func presetTable() string {
	var b strings.Builder
	b.WriteString("Preset | Authentication | Identifier | Window | Answer within | Received, for how long | Settings\n")
	b.WriteString("---|---|---|---|---|---|---\n")
	for _, p := range All() {
		settings := " `" + strings.Join(p.Uses, "`, `") + "`"
		switch {
		case len(p.Uses) == 0:
			settings = " `allowed_ips`"
		case settings == " `secret`":
			settings = ""
		}
		fmt.Fprintf(&b, "[%s](%s) | %s | %s | %dh | %s | %s |%s\n", p.Name, p.Docs, p.Auth, p.ID,
			int(p.Window().Hours()), p.Deadline, p.Wants, settings)
	}
	return b.String()
}
