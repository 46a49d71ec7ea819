package config

import (
	"cmp"
	"strings"
	"testing"
	"time"
)

func TestSettingsOfRefusedDeliveries(t *testing.T) {
	t.Parallel()
	const base = "producers:\n  gh: {preset: github, secret: 0123456789abcdef}\n"
	for text, want := range map[string]string{
		"":               "",
		"refused: disk":  "",
		"refused: off\n": "",
		"refused: {keep: disk, max: 4MiB, for: 7d}\nredact: [header:X-A, query:k, json:a.b]": "",
		"refused: paper":                  "e.yaml:3: refused.keep is not memory, disk or off",
		"refused: {max: 64MiB}":           "e.yaml:3: refused.max is for files | leave it out, or write keep: disk",
		"refused: {keep: disk, max: 1kB}": "e.yaml:3: refused.max is less than 4MiB",
		"refused: {for: 0s}":              "e.yaml:3: refused.for is 0 | leave it out for its default",
		"redact: [body:x]": `e.yaml:3: redact: "body:x" is neither header:NAME, query:NAME nor json:MEMBER | ` +
			"write header:X-Token, query:token or json:card.number",
		"inspector: {redact: [header:X-A, json:a.b]}": "",
		"inspector:\n  redact: [card]": `e.yaml:4: inspector.redact: "card" names nothing | ` +
			"write header:X-Token, query:token or json:card.number",
		"redact: [\"json:a..b\"]": `e.yaml:3: redact: "json:a..b" names nothing | ` +
			"write header:X-Token, query:token or json:card.number",
	} {
		dir := t.TempDir()
		got := strings.ReplaceAll(withHints(buildText(t, dir, base+text)), dir+"/", "")
		if got != cmp.Or(want, "<nil>") {
			t.Errorf("%s: %s\nwant %s", text, got, want)
		}
	}
}

func TestOptionsOfRefusedDeliveries(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		kept bool
		max  int64
		age  time.Duration
	}{
		"log: {level: info}":                     {true, 0, 24 * time.Hour},
		"operations: off":                        {},
		"refused: off":                           {},
		"refused: disk\noperations: off":         {true, 64 << 20, 24 * time.Hour},
		"refused: {keep: disk, max: 5MiB}":       {true, 5 << 20, 24 * time.Hour},
		"refused: {for: 1h}\nredact: [query:k]":  {true, 0, time.Hour},
		"refused: {keep: memory}\nhosts: [a.io]": {true, 0, 24 * time.Hour},
	} {
		s, err := parse(t, text+"\n")
		check(t, err)
		o := RefusedOptions(s)
		if (o != nil) != want.kept || o != nil && (o.Max != want.max || o.For != want.age) {
			t.Errorf("%s: %+v", text, o)
		}
		if o != nil && strings.Contains(text, "redact") != (len(o.Rules.Params) == 1) {
			t.Errorf("%s: %+v", text, o.Rules)
		}
	}
}
