package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.Out, "eyelet", version(), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
			return err
		},
	}
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

func (p *program) configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Look at the configuration", Args: cobra.NoArgs}
	check := &cobra.Command{
		Use: "check", Short: "Check the configuration without serving", Args: cobra.NoArgs,
		Long: "Reads the configuration as serve does and reports every mistake in it, with its line. The store\n" +
			"is not opened, and nothing is changed.",
	}
	file := p.configFlag(check)
	check.RunE = func(c *cobra.Command, _ []string) error {
		s, err := p.source(c, *file).Load()
		if err != nil {
			return err
		}
		plan, err := checkConfig(c.Context(), s)
		if err != nil {
			return err
		}
		for _, warning := range config.ExposedSecrets(s) {
			p.tell("%s\n", "eyelet: warning: "+usage.OneLine(warning))
		}
		for i := range plan.Producers {
			for _, warning := range plan.Producers[i].Warnings() {
				p.tell("%s\n", "eyelet: warning: "+usage.OneLine(warning))
			}
		}
		if len(plan.Handlers) == 0 {
			p.tell("%s\n", "eyelet: warning: there are no handlers: events are accepted and kept, and nobody works on them")
		}
		p.say("%s: good: %s, %s\n", s.File, many(len(plan.Producers), "producer"), many(len(plan.Handlers), "handler"))
		return plan.Close()
	}
	c.AddCommand(check, p.configShowCommand())
	return c
}

// checkConfig builds what serve would serve, and reads the certificates as serve does.
func checkConfig(ctx context.Context, c *config.Settings) (*config.Plan, error) {
	plan, err := c.Build(ctx, config.BuildOptions{Stdout: io.Discard})
	unfit := unfitCertificates(c)
	if len(unfit) == 0 {
		return plan, err
	}
	if err == nil {
		return nil, errors.Join(unfit.Err(), plan.Close())
	}
	found, _ := usage.Find(err)
	return nil, slices.Concat(found, unfit).Err()
}

// unfitCertificates returns what is wrong with the files of tls and operations_tls.
func unfitCertificates(c *config.Settings) (found usage.Errors) {
	for setting, t := range map[string]*config.TLS{"tls": c.TLS, "operations_tls": c.OperationsTLS} {
		if t == nil || t.CertFile == "" || t.KeyFile == "" { // told already
			continue
		}
		_, err := openCertificate(c, setting, t, slog.New(slog.DiscardHandler))
		more, _ := usage.Find(err)
		found = append(found, more...)
	}
	return found
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		what = stem + "ie"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (p *program) producersCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "producers", Short: "List the presets", Args: cobra.NoArgs,
		Long: "Lists the producers that `preset: NAME` knows: how they authenticate, where the identifier of an\n" +
			"event stands, how long it is remembered, how soon they want an answer, what they take for one and\n" +
			"how long they try. -o json adds the settings and the vendor's documentation.",
	}
	format := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		if err := checkOutput(*format); err != nil {
			return err
		}
		if *format == "json" {
			return p.producersJSON()
		}
		t := tabwriter.NewWriter(p.Out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintln(t, "PRESET\tAUTHENTICATION\tIDENTIFIER\tWINDOW\tDEADLINE\tWANTS\tIDENTITY")
		for _, known := range preset.All() {
			_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", known.Name, known.Auth, known.ID, hours(known.Window()), cmp.Or(known.Deadline, "-"), known.Wants, known.Class())
		}
		return t.Flush()
	}
	return c
}

func (p *program) producersJSON() error {
	lines := json.NewEncoder(p.Out)
	for _, known := range preset.All() {
		err := lines.Encode(map[string]any{
			"preset": known.Name, "auth": known.Auth, "id": known.ID, "window": known.Window().String(), "deadline": known.Deadline,
			"wants": known.Wants, "identity": known.Class().String(), "settings": append([]string{}, known.Uses...), "docs": known.Docs(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hours writes a duration of whole hours.
func hours(d time.Duration) string { return fmt.Sprintf("%d h", int(d.Hours())) }
