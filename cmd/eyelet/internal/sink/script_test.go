package sink

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/receiver"
)

func TestAScriptThatCannotRunIsExplained(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no interpreter lines")
	}
	for text, want := range map[string]string{
		"#!/bin/sh\nexit 0\n": "", "#! /bin/sh -e\nexit 0\n": "", "#!/usr/bin/env sh\nexit 0\n": "",
		"#!/bin/sh\r\nexit 0\r\n":       "ends with CRLF",
		"#!/no/such/bash\nexit 0\n":     "its interpreter /no/such/bash is not there",
		"#!/usr/bin/env no-such-word\n": "its interpreter no-such-word is not in PATH",
		"!#/bin/sh\nexit 0\n":           "does not begin with #!",
		"#!\nexit 0\n":                  "#! and no interpreter",
	} {
		name := filepath.Join(t.TempDir(), "script.sh")
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
		err := (&Exec{Argv: []string{name}, Dir: filepath.Dir(name)}).Deliver(t.Context(), receiver.Event[[]byte]{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := CheckScript("/proc/self/exe"); err != nil {
		t.Error(err)
	}
}
