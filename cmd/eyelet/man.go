package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/internal/usage"
)

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
