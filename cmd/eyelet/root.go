package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
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
	// Hangups decides what a SIGHUP means; nil if the process does.
	Hangups *hangups
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

// Run runs the command of the arguments until it ends or ctx does, and returns the exit code.
func (p *program) Run(ctx context.Context, args ...string) int {
	root := p.command() //nolint:contextcheck // commands get theirs when they run
	root.SetArgs(args)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	return p.explain(root.ExecuteContext(ctx))
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
	group := func(id, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group("try", "Try:", devCommand(p), listenCommand(p), sendCommand(p), replayCommand(p), verifyCommand(p),
		producersCommand(p))
	group("run", "Run:", initCommand(p), keygenCommand(p), configCommand(p), serveCommand(p), reloadCommand(p),
		healthcheckCommand(p))
	group("look", "Look:", openCommand(p), eventsCommand(p), explainCommand(p))
	group("repair", "Repair:", deadCommand(p), targetsCommand(p), storeCommand(p))
	root.AddCommand(manCommand(p), versionCommand(p), tortureCommand())
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

// tortureCommand names the program that kills receivers, whatever its arguments are.
func tortureCommand() *cobra.Command {
	return &cobra.Command{
		Use: "torture", Short: "Name the program that kills receivers", Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return usage.Errorf("run eyelet-torture --dir DIR, which the archive of a release has, "+
				"or in a clone: go run -C torture . --dir DIR", "torture is a program of its own")
		},
	}
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

func allCommands(c *cobra.Command) []*cobra.Command {
	all := c.Commands()
	for _, inner := range c.Commands() {
		all = append(all, allCommands(inner)...)
	}
	return all
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

// otherNames are the commands that other programs have under these names.
var otherNames = map[string]string{
	"resend": "send", "logs": "events tail", "log": "events tail",
	"tail": "events tail", "forward": "listen TARGET", "start": "serve", "run": "serve", "status": "healthcheck",
	"ls": "events list", "list": "events list", "retry": "events retry",
}

func explainArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 && c.HasSubCommands() {
			var known []string
			for _, inner := range c.Commands() {
				if !inner.Hidden {
					known = append(known, inner.Name())
				}
			}
			hint := usage.DidYouMean(args[0], known)
			if other := otherNames[args[0]]; other != "" && !c.HasParent() {
				hint = "write eyelet " + other
			}
			return usage.Errorf(hint, "unknown command %q for %s", args[0], c.CommandPath())
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
