package config

import (
	"strings"
	"testing"
	"time"
)

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
		"refused: {mode: disk, max: 5MiB}":       {true, 5 << 20, 24 * time.Hour},
		"refused: {for: 1h}\nredact: [query:k]":  {true, 0, time.Hour},
		"refused: {mode: memory}\nhosts: [a.io]": {true, 0, 24 * time.Hour},
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
