package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// program is the binary without its process, so that tests can run it. Run may be called once.
type program struct {
	In       io.Reader
	Out, Err io.Writer
	Environ  []string // NAME=value
	// Starting, when set, is called with the addresses once they answer, before the store is
	// opened.
	Starting func(listen, operations string)
	// Serving, when set, is called with the addresses once deliveries are accepted.
	Serving func(listen, operations string)
	// Looks, when set, says when to look for changed files of the configuration.
	Looks <-chan time.Time
	// OnHangup, when set, is called with what a SIGHUP does; nil stops the program.
	OnHangup func(reload func())
}

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the command did not succeed
	exitUsage  = 2 // the arguments, the configuration or the machine must be changed first
	// exitTransient means that the same delivery may succeed later: EX_TEMPFAIL of sysexits.h.
	exitTransient = 75
)

// failure ends the program with its code and its message, if any.
type failure struct {
	what string
	code int // 0 is exitFailed
}

func (f *failure) Error() string { return f.what }

// failf ends the program with exitFailed and a message.
func failf(format string, args ...any) error {
	return &failure{what: usage.OneLine(fmt.Sprintf(format, args...))}
}

// explain prints an error: one line "eyelet: what is wrong", without a full stop or a stack, and
// the hint on a line of its own.
func (p *program) explain(err error) int {
	if err == nil {
		return exitOK
	}
	var f *failure
	if errors.As(err, &f) {
		if f.what != "" {
			p.eprintf("%s\n", "eyelet: "+f.what)
		}
		return cmp.Or(f.code, exitFailed)
	}
	if ms, ok := usage.Find(err); ok {
		for _, m := range ms {
			p.eprintf("%s\n", "eyelet: "+usage.OneLine(m.Error()))
			if m.Hint != "" {
				p.eprintf("%s\n", "  hint: "+usage.OneLine(m.Hint))
			}
		}
		return exitUsage
	}
	p.eprintf("%s\n", "eyelet: "+usage.OneLine(err.Error()))
	return exitFailed
}

// printf writes to standard output, and eprintf to standard error. Write errors are ignored: data,
// such as events and verdicts, is written where errors are handled.
func (p *program) printf(format string, args ...any) { _, _ = fmt.Fprintf(p.Out, format, args...) }

func (p *program) eprintf(format string, args ...any) { _, _ = fmt.Fprintf(p.Err, format, args...) }

// outputFlag adds -o.
func outputFlag(c *cobra.Command) *string {
	return c.Flags().StringP("output", "o", "text", "text or json")
}

// listFlag adds -o of a command that prints lists.
func listFlag(c *cobra.Command) *string {
	return c.Flags().StringP("output", "o", "text", "text, wide (all columns, nothing cut) or json")
}

// table returns a list, which fits the width of a terminal unless the format is wide.
func (p *program) table(format string, heads ...string) *table.Table {
	t := &table.Table{Heads: heads, Colour: p.terminal(p.Out), Now: time.Now()}
	if isTerminal(p.Out) && format != "wide" {
		t.Width = p.width()
	}
	return t
}

// result prints the result of a command: the object in JSON, or the text.
func (p *program) result(format string, object map[string]any, text string, args ...any) error {
	if format != "json" {
		_, err := fmt.Fprintf(p.Out, text, args...)
		return err
	}
	return p.encode(object)
}

// encode prints a line of JSON in which "<secret>" is readable.
func (p *program) encode(value any) error {
	e := json.NewEncoder(p.Out)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

// checkOutput checks -o of the commands that have it.
func checkOutput(c *cobra.Command, _ []string) error {
	f := c.Flags().Lookup("output")
	if f == nil || slices.Contains([]string{"text", "json"}, f.Value.String()) ||
		slices.Contains(append([]string{"wide", "junit"}, copyFormats...), f.Value.String()) &&
			strings.Contains(f.Usage, f.Value.String()) {
		return nil
	}
	return usage.Errorf("write -o text or -o json", "unknown output %q", f.Value.String())
}

// isTerminal reports whether a file, if it is one, is a terminal.
func isTerminal(file any) bool {
	f, ok := file.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// terminal reports whether w is a terminal that shows colours.
func (p *program) terminal(w io.Writer) bool {
	_, no := (config.Source{Environ: p.Environ}).Lookup("NO_COLOR")
	return p.hasCursor(w) && !no
}

// hasCursor reports whether w is a terminal whose cursor can move.
func (p *program) hasCursor(w io.Writer) bool {
	kind, _ := (config.Source{Environ: p.Environ}).Lookup("TERM")
	return isTerminal(w) && kind != "dumb"
}

// width returns that of the terminal, or COLUMNS.
func (p *program) width() int {
	columns, _ := (config.Source{Environ: p.Environ}).Lookup("COLUMNS")
	n, _ := strconv.Atoi(columns)
	if f, ok := p.Out.(*os.File); ok && n <= 0 {
		n, _, _ = term.GetSize(int(f.Fd())) // 0 where it is not a terminal
	}
	if n <= 0 {
		return 80
	}
	return n
}

// sanitize returns text of a client for a terminal: without control characters, and "-" if it is
// empty.
func sanitize(text string) string {
	if text == "" {
		return "-"
	}
	return strings.Map(printable, strings.ToValidUTF8(text, "?"))
}

// printable replaces control characters, which could steer a terminal.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// count returns "1 event", "2 events", "2 deliveries", "2 keys" or "2 aliases".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok && !strings.ContainsAny(stem[len(stem)-1:], "aeiou") {
		what = stem + "ie"
	} else if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// configFlag adds --config, which the environment can set too.
func configFlag(c *cobra.Command) *string {
	return c.Flags().String("config", "", "configuration file (default "+config.DefaultFile+", or EYELET_CONFIG)")
}

// source returns the sources of the settings.
func (p *program) source(c *cobra.Command, file string) config.Source {
	s := config.Source{File: file, Environ: p.Environ, Flags: c.Flags()}
	if s.File == "" {
		s.File, _ = s.Lookup("EYELET_CONFIG")
	}
	return s
}

// buildPlan loads the settings and builds their plan, which the caller must close.
func buildPlan(ctx context.Context, src config.Source, testKeys bool) (*config.Settings, *config.Plan, error) {
	s, err := src.Load()
	if s == nil {
		return nil, nil, err
	}
	plan, err := s.Build(ctx, config.BuildOptions{Stdout: io.Discard, TestKeys: testKeys})
	return s, plan, err
}

// flagNames are the flags that name something in the configuration.
var flagNames = map[string]func(*config.Settings) []string{
	"producer": (*config.Settings).ProducerNames, "endpoint": (*config.Settings).ProducerNames,
	"handler": (*config.Settings).HandlerNames, "type": (*config.Settings).EventTypes,
}

// readable returns the configuration as far as it can be read, else nil.
func (p *program) readable(c *cobra.Command) *config.Settings {
	file, _ := c.Flags().GetString("config")
	src := p.source(c, file)
	src.Flags = nil // filters, not settings
	s, _ := src.Load()
	return s
}

// The linker sets them in builds that do not ask git, which are the same in every folder:
// -ldflags "-X main.releaseVersion=v1.2.3 -X main.releaseCommit=...".
var releaseVersion, releaseCommit string

// build describes how a binary was built.
type build struct {
	version string
	commit  string // "" if it is not known
	changed bool   // uncommitted changes were built
}

// currentBuild is the build of this program.
func currentBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info)
}

// buildOf returns the build that has the information. `go build` in a checkout adds the commit to
// it; `go run` and `go test` do not, and a module that was downloaded has its version alone.
func buildOf(info *debug.BuildInfo) build {
	b := build{version: cmp.Or(releaseVersion, info.Main.Version), commit: releaseCommit}
	if b.version == "" || b.version == "(devel)" {
		b.version = "devel"
	}
	if b.commit != "" {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.commit = s.Value
		case "vcs.modified":
			b.changed = s.Value == "true"
		}
	}
	return b
}

// version is that of the program, such as v1.2.3, or devel.
func version() string { return currentBuild().version }

// String returns the version and the commit. A released version names its commit by itself.
func (b build) String() string {
	switch {
	case b.commit == "" && b.version == "devel":
		return b.version + " (commit unknown)"
	case b.commit == "":
		return b.version
	case b.changed:
		return b.version + " (commit " + b.commit + ", changed)"
	}
	return b.version + " (commit " + b.commit + ")"
}
