package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand(p *program) *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	format := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		return p.result(*format, map[string]any{"version": version(), "go": runtime.Version(), "os": runtime.GOOS,
			"arch": runtime.GOARCH}, "%s\n", versionLine())
	}
	return c
}

// versionLine is the line of `eyelet version` and of --version.
func versionLine() string {
	return "eyelet " + version() + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}

// version returns the module's version, or the revision that the binary was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	revision, dirty := "devel", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	return revision + dirty
}
