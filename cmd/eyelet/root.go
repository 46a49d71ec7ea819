package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// command returns the tree of commands.
func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "eyelet",
		Short: "The receiving half of every webhook",
		Long: "Eyelet receives webhooks: it verifies the sender of an event, accepts the event once, stores it\n" +
			"before it acknowledges it, and runs its handlers until there is an outcome.\n\n" +
			"Begin with `eyelet dev`, which needs no configuration.",
		SilenceErrors: true, SilenceUsage: true,
		Args:    cobra.NoArgs,
		Version: versionLine(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	group := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
		for _, c := range commands {
			c.GroupID = title
			root.AddCommand(c)
		}
	}
	group("Try", devCommand(p), listenCommand(p), sendCommand(p), conformCommand(p))
	group("Run", serveCommand(p), reloadCommand(p), healthcheckCommand(p))
	group("Look", openCommand(p), topCommand(p), eventsCommand(p), explainCommand(p), mcpCommand(p))
	group("Repair", handlersCommand(p), targetsCommand(p), fencesCommand(p), reconcileCommand(p), storeCommand(p))
	group("Set up", initCommand(p), configCommand(p), keygenCommand(p), producersCommand(p))
	root.AddCommand(manCommand(p), versionCommand(p), demoCommand(p))
	root.InitDefaultCompletionCmd()
	for _, c := range append(allCommands(root), root) {
		c.SetFlagErrorFunc(flagError)
		c.Args, c.PreRunE = explainArgs(c.Args), checkOutput
		p.completeNames(c)
		if c.RunE == nil && c.Run == nil { // a group of commands would ignore its arguments
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	return root
}

// oldNames are commands that have another form now. They stay, because people type them.
var oldNames = []struct{ old, now string }{
	{"config schema", "config show --schema"},
	{"dead list", "events list --state dead"},
	{"dead show", "events show --state dead"},
	{"dead purge", "events forget --state dead"},
	{"dead", "events"}, // reopen
	{"events purge", "events forget"},
	{"events raw", "events show --raw"},
}

// otherNames are the commands that other programs have under these names.
var otherNames = map[string]string{
	"resend": "write eyelet send", "logs": "write eyelet events tail", "log": "write eyelet events tail",
	"tail": "write eyelet events tail", "forward": "write eyelet listen TARGET", "start": "write eyelet serve",
	"run": "write eyelet serve", "status": "write eyelet healthcheck", "ls": "write eyelet events list",
	"list": "write eyelet events list", "retry": "write eyelet events retry",
	"torture": "run eyelet-torture --dir DIR, which the archive of a release has, or in a clone: " +
		"go run -C torture . --dir DIR",
}

// currentNames returns arguments with the present form of an old name, or an error that names it.
func currentNames(args []string) ([]string, error) {
	if len(args) > 0 && otherNames[args[0]] != "" {
		return nil, usage.Errorf(otherNames[args[0]], "unknown command %q for eyelet", args[0])
	}
	for _, name := range oldNames {
		words := strings.Fields(name.old)
		if len(args) >= len(words) && slices.Equal(args[:len(words)], words) {
			return append(strings.Fields(name.now), args[len(words):]...), nil
		}
	}
	return args, nil
}

// completeNames completes the flags and arguments that are names in the configuration, and events
// of the running server.
func (p *program) completeNames(c *cobra.Command) {
	complete := func(names func(context.Context, *config.Settings) []string) cobra.CompletionFunc {
		return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			s := p.readable(c)
			if s == nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(c.Context(), s), cobra.ShellCompDirectiveNoFileComp
		}
	}
	for flag, names := range flagNames {
		if f := c.Flags().Lookup(flag); f != nil && f.Value.Type() == "string" {
			_ = c.RegisterFlagCompletionFunc(flag, complete(func(_ context.Context, s *config.Settings) []string {
				return names(s)
			}))
		}
	}
	if strings.Contains(c.Use, "EVENT") {
		c.ValidArgsFunction = complete(recentEvents)
	}
}

// flagError returns a usage error for a wrong flag, with the nearest flag as the hint.
func flagError(c *cobra.Command, err error) error {
	hint := "see " + c.CommandPath() + " --help"
	if _, word, ok := strings.Cut(err.Error(), "unknown flag: --"); ok {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near := usage.Nearest(word, known); near != "" {
			hint = "did you mean --" + near + "?"
		}
	}
	return usage.Errorf(hint, "%v", err)
}

// explainArgs returns the check of a command's arguments, with an error that says what to write.
func explainArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 && c.HasSubCommands() {
			var known []string
			for _, inner := range c.Commands() {
				if !inner.Hidden {
					known = append(known, inner.Name())
				}
			}
			return usage.Errorf(usage.DidYouMean(args[0], known), "unknown command %q for %s", args[0], c.CommandPath())
		}
		if check == nil || check(c, args) == nil {
			return nil
		}
		form := strings.TrimSuffix(c.UseLine(), " [flags]")
		if form == c.CommandPath() {
			return usage.Errorf("see "+form+" --help", "%s takes no arguments, and %q is one", form, args[0])
		}
		return usage.Errorf("write "+form, "%s: the number of arguments is not right", c.CommandPath())
	}
}

func versionCommand(p *program) *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, Hidden: true}
	format := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		b := currentBuild()
		object := map[string]any{"version": b.version, "go": runtime.Version(), "os": runtime.GOOS,
			"arch": runtime.GOARCH}
		if b.commit != "" {
			object["commit"], object["modified"] = b.commit, b.changed
		}
		return p.result(*format, object, "%s\n", versionLine())
	}
	return c
}

// versionLine is the line of --version.
func versionLine() string {
	return "eyelet " + currentBuild().String() + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}

func manCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages", Args: cobra.ExactArgs(1), Hidden: true,
		Long: "Writes a manual page for each command into the folder DIR, which is made if it is not there.\n" +
			"Packages have them already. `man DIR/eyelet.1` shows the first one.",
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return usage.Errorf("", "%s: %s", args[0], usage.Cause(err))
			}
			pages := 0
			for _, one := range append(allCommands(c.Root()), c.Root()) {
				if !hasManual(one) {
					continue
				}
				file := filepath.Join(args[0], manualName(one)+".1")
				if err := os.WriteFile(file, []byte(manual(one)), 0o644); err != nil { //nolint:gosec // for everyone
					return usage.Errorf("", "%s: %s", file, usage.Cause(err))
				}
				pages++
			}
			p.printf("wrote %s into %s\n", count(pages, "manual page"), args[0])
			return nil
		},
	}
}

func allCommands(c *cobra.Command) []*cobra.Command {
	all := c.Commands()
	for _, inner := range c.Commands() {
		all = append(all, allCommands(inner)...)
	}
	return all
}

func hasManual(c *cobra.Command) bool {
	for ; c != nil; c = c.Parent() {
		if c.Hidden || c.Name() == "help" {
			return false
		}
	}
	return true
}

func manualName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manual returns the manual page of a command, in the macros of man(7). Its texts are those of
// --help, line by line.
func manual(c *cobra.Command) string {
	var b strings.Builder
	section := func(title, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", title, roff(text))
		}
	}
	name := manualName(c)
	fmt.Fprintf(&b, ".TH %s 1 \"\" Eyelet \"Manual of Eyelet\"\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(name)),
		roff(name), roff(c.Short))
	section("SYNOPSIS", c.UseLine())
	section("DESCRIPTION", c.Long)
	var commands, seeAlso strings.Builder
	for _, inner := range c.Commands() {
		if hasManual(inner) {
			fmt.Fprintf(&commands, "%-12s  %s\n", inner.Name(), inner.Short)
			fmt.Fprintf(&seeAlso, "%s(1)\n", manualName(inner))
		}
	}
	section("COMMANDS", commands.String())
	section("OPTIONS", c.LocalFlags().FlagUsages())
	section("EXAMPLES", c.Example)
	section("EXIT STATUS", fmt.Sprintf("%-4d it succeeded\n%-4d it did not\n%-4d the arguments, the configuration "+
		"or the machine must be changed first\n%-4d the delivery may succeed later", exitOK, exitFailed, exitUsage,
		exitTransient))
	if c.HasParent() {
		seeAlso.WriteString(manualName(c.Parent()) + "(1)\n")
	}
	section("SEE ALSO", seeAlso.String())
	return b.String()
}

// roff escapes a text: a line that begins with a dot would be a command of roff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`).Replace(text)
	return strings.ReplaceAll(strings.TrimPrefix(strings.ReplaceAll("\n"+text, "\n.", "\n\\&."), "\n"), "\t", "    ")
}
