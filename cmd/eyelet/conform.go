package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/conform"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// conformCmd tests how a program follows the documents of event delivery.
type conformCmd struct {
	*program
	o           conform.Options
	profile     string
	format      string
	html, badge string
	list        bool
}

func conformCommand(p *program) *cobra.Command {
	f := &conformCmd{program: p}
	c := &cobra.Command{
		Use:   "conform ROLE [URL]",
		Short: "Test how a receiver, sender or intermediary of any make follows the standards",
		Long: "Tests a program over the wire. For each requirement it says whether it holds, with the document,\n" +
			"what was sent, what came, what is right and how to get there. ROLE is\n" +
			"  consumer      URL receives deliveries: this command sends them\n" +
			"  producer      sends deliveries: this command receives them on --listen\n" +
			"  intermediary  URL receives deliveries, and sends them on to --listen\n\n" +
			"A profile says in about ten lines of YAML how deliveries are signed and named, what the program\n" +
			"claims to follow, and how to see which events were handled. Built in are\n" +
			strings.Join(conform.Profiles(), ", ") + ";\ntheir secret is that of CONFORM_SECRET.\n\n" +
			"A run sends some hundreds of requests, at most 32 at once, and kills the program if the profile has\n" +
			"a command to restart it. It ends with 1 if a MUST of a document that is claimed does not hold.",
		Args: cobra.RangeArgs(1, 2),
	}
	flags := c.Flags()
	flags.StringVar(&f.profile, "profile", "event-delivery", "built-in profile, or a file with one")
	flags.StringVar(&f.o.Listen, "listen", "127.0.0.1:9000", "address to receive at, as a consumer or as a target")
	flags.StringSliceVar(&f.o.Mine, "mine", nil, "host of yours to test, if it is not this machine; may be repeated")
	flags.StringSliceVar(&f.o.Only, "only", nil, "numbers of checks, such as C101,C102 (default all)")
	flags.Uint64Var(&f.o.Seed, "seed", 1, "decides identifiers, the order of checks and the times of kills")
	flags.IntVar(&f.o.Kills, "kills", 200, "how often a consumer is killed, if its profile says how")
	flags.DurationVar(&f.o.MaxWait, "max-wait", 0,
		"how long a delivery or its retry may take (default: a minute, and what comes later is not wrong)")
	flags.BoolVar(&f.list, "list", false, "list the checks and their sources, and test nothing")
	flags.StringVar(&f.html, "html", "", "write a report with all that was sent and received to this file")
	flags.StringVar(&f.badge, "badge", "", "write an SVG with profile, result and version to this file")
	flags.StringVarP(&f.format, "output", "o", "text", "text, json or junit")
	c.RunE = func(c *cobra.Command, args []string) error {
		f.o.Role, f.o.URL = conform.Role(args[0]), strings.Join(args[1:], "")
		return f.run(c.Context())
	}
	return c
}

func (f *conformCmd) run(ctx context.Context) (err error) {
	checks := conform.List(f.o.Role)
	if len(checks) == 0 {
		return usage.Errorf("write consumer, producer or intermediary", "unknown role %q", f.o.Role)
	}
	if f.list {
		return f.printList(checks)
	}
	if f.o.URL == "" && f.o.Role != conform.Producer {
		return usage.Errorf("write it after the role", "a %s needs the URL of its endpoint", f.o.Role)
	}
	if f.o.Profile, err = conform.ReadProfile(f.profile); err != nil {
		return usage.Errorf("", "%v", err)
	}
	bar, done := newProgress(f.program, false, "checked", cmp.Or(len(f.o.Only), len(checks))), 0
	f.o.Progress = func(conform.Result) {
		done++
		bar.at(done)
	}
	f.o.Waiting = func(what string) { f.eprintf("%s\n", what) }
	report, err := conform.Run(ctx, f.o)
	bar.end(done)
	if err != nil {
		return usage.Errorf("", "%v", err)
	}
	if err := f.write(report); err != nil {
		return err
	}
	if !report.Conforms() {
		return &failure{}
	}
	return nil
}

// write prints the report, and writes the files that were asked for.
func (f *conformCmd) write(r *conform.Report) error {
	files := []struct {
		name  string
		write func(io.Writer) error
	}{
		{f.html, r.WriteHTML},
		{f.badge, func(w io.Writer) error { _, err := io.WriteString(w, r.Badge()); return err }},
	}
	for _, one := range files {
		if one.name == "" {
			continue
		}
		var b strings.Builder
		if err := one.write(&b); err != nil {
			return err
		}
		if err := os.WriteFile(one.name, []byte(b.String()), 0o644); err != nil { //nolint:gosec // to be published
			return usage.Errorf("", "%s: %s", one.name, usage.Cause(err))
		}
	}
	switch f.format {
	case "json":
		return r.WriteJSON(f.Out)
	case "junit":
		return r.WriteJUnit(f.Out)
	}
	return r.WriteText(f.Out)
}

// printList prints checks with their sources.
func (f *conformCmd) printList(all []conform.Listed) error {
	if f.format == "json" {
		for _, one := range all {
			if err := f.encode(one); err != nil {
				return err
			}
		}
		return nil
	}
	t := f.table(f.format, "CHECK", "TITLE", "SOURCE")
	for _, one := range all {
		t.Row(one.Check, one.Title, one.Source())
	}
	return t.Write(f.Out)
}
