package main

import (
	"runtime/debug"
	"testing"
)

// TestTheVersionNamesTheCommit has what the go command writes into a binary; ops/check.sh builds
// some.
func TestTheVersionNamesTheCommit(t *testing.T) {
	t.Parallel()
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}
	clean, modified := debug.BuildSetting{Key: "vcs.modified", Value: "false"},
		debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	tests := []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"(devel)", nil, "devel (commit unknown)"}, // go run
		{"", nil, "devel (commit unknown)"},
		{"v1.2.3", nil, "v1.2.3"}, // go install PATH@v1.2.3
		{"(devel)", []debug.BuildSetting{revision, clean}, "devel (commit abc)"},
		{"v1.2.4-0.2026", []debug.BuildSetting{revision, modified}, "v1.2.4-0.2026 (commit abc, changed)"},
	}
	for _, test := range tests {
		info := debug.BuildInfo{Main: debug.Module{Version: test.version}, Settings: test.settings}
		if got := buildOf(&info).String(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
