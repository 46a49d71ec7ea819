package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestTargetsAreShownWithSchemeAndHostOnly: many receivers have a secret in the path or the query.
func TestTargetsAreShownWithSchemeAndHostOnly(t *testing.T) {
	t.Parallel()
	file := configured(t, "handlers:\n"+
		"  - {producer: gh, type: a, forward: \"https://hooks.example/services/T0/s3cr\"}\n"+
		"  - {producer: gh, type: b, forward: \"https://u:s3cr@hooks.example/?s3cr\"}\n"+
		"  - {producer: gh, type: c, forward: \"http://127.0.0.1:9000/\"}\n"+
		"  - {producer: gh, type: d, forward: \"https://hooks.example/s3cr/${PART}\"}\n"+
		"  - {producer: gh, type: e, forward: \"${WHOLE}\"}\n"+
		"  - {producer: gh, type: f, forward: \"${BASE}/s3cr\"}\n")
	environ := []string{"PART=s3cr", "WHOLE=https://hooks.example/s3cr", "BASE=https://base.example/s3cr"}
	for _, format := range []string{"text", "json"} {
		var out, errs bytes.Buffer
		p := &program{Out: &out, Err: &errs, Environ: environ}
		if code := p.Run(t.Context(), "config", "show", "--config", file, "-o", format); code != exitOK {
			t.Fatal(errs.String())
		}
		got := out.String()
		for _, want := range []string{
			"https://hooks.example/<secret>", "https://<secret>@hooks.example/<secret>", "http://127.0.0.1:9000/",
			"${WHOLE}", "https://base.example/<secret>",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s is not shown", format, want)
			}
		}
		if n := strings.Count(got, "https://hooks.example/<secret>"); n != 2 || strings.Contains(got, "s3cr") {
			t.Errorf("%s: %s", format, got)
		}
	}
}
