package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
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
				nested := members(form) != nil || mapping["additionalProperties"] != nil || mapping["items"] != nil
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
	for section, rows := range settingRows() {
		for _, row := range rows {
			if !strings.HasSuffix(row.sentence, ".") || strings.Contains(row.sentence, ". ") {
				t.Errorf("[%s] %v: %q is not one sentence", section, row.names, row.sentence)
			}
			for _, name := range row.names {
				if !seen[described{name[strings.LastIndex(name, ".")+1:], row.sentence}] {
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
	sections, shown := settingRows(), map[string]bool{}
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
func tableOf(rows []settingRow) string {
	var b strings.Builder
	defaults := slices.ContainsFunc(rows, func(r settingRow) bool { return r.fallback != "" })
	if b.WriteString("setting | what\n---|---\n"); defaults {
		b.Reset()
		b.WriteString("setting | default | what\n---|---|---\n")
	}
	for _, row := range rows {
		cells := []string{"`" + strings.Join(row.names, "`, `") + "`", row.sentence}
		if defaults {
			cells = slices.Insert(cells, 1, row.fallback)
		}
		b.WriteString(strings.ReplaceAll(strings.Join(cells, " | "), "|  |", "| |") + "\n")
	}
	return b.String()
}

// TestDocumentedHMACProducerVerifies signs with both secrets of the producer in docs/producers.md.
func TestDocumentedHMACProducerVerifies(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/producers.md")
	check(t, err)
	_, rest, _ := strings.Cut(string(text), "## A producer that has no preset")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/producers.md has no example")
	}
	s, err := Source{
		Environ: []string{"TABAPAY_SECRET=new-0123456789abcdef", "TABAPAY_OLD_SECRET=old-0123456789abcdef"},
	}.Parse("e.yaml", []byte(example))
	check(t, err)
	p, err := s.Build(t.Context(), BuildOptions{Stdout: io.Discard})
	check(t, err)
	defer p.Close() //nolint:errcheck // it holds no key set that fetches
	const body = `{"eventType":"transaction.completed"}`
	for _, version := range []string{"v1=new", "v2=old", "v3=new", "v1=bad"} {
		name, secret, _ := strings.Cut(version, "=")
		mac := hmac.New(sha256.New, []byte(secret+"-0123456789abcdef"))
		mac.Write([]byte("1784000000." + body))
		r := httptest.NewRequest("POST", "https://hooks.example/webhooks/tabapay", nil)
		r.Header.Set("Idempotency-Key", "tp-17")
		r.Header.Set("X-HMAC-Signature", fmt.Sprintf("t=1784000000,%s=%x", name, mac.Sum(nil)))
		made := &p.Producers[0]
		id, err := made.Scheme.Verify(r, func() ([]byte, error) { return []byte(body), nil })
		if good := version == "v1=new" || version == "v2=old"; (err == nil) != good {
			t.Errorf("%s: %v", version, err)
			continue
		} else if !good {
			continue
		}
		items, err := made.Items(&producer.Delivery{Request: r, Body: []byte(body), Identity: id})
		if err != nil || items[0].ID != "tp-17" || items[0].Type != "transaction.completed" ||
			id.SignedAt.Unix() != 1784000000 {
			t.Errorf("%s: %+v, %v", version, items, err)
		}
	}
}
