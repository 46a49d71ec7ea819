package main

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

func configCommand(p *program) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Look at the configuration", Args: cobra.NoArgs}
	c.AddCommand(configCheckCommand(p), configShowCommand(p))
	return c
}

func configCheckCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "check", Short: "Check the configuration without serving", Args: cobra.NoArgs,
		Long: "Reads the configuration as serve does and reports every error in it, with its line, and what is\n" +
			"probably a mistake as a warning. The store is not opened, and nothing is changed. With -o json the\n" +
			"result is one object, also when there are errors; the exit code is 2 then.",
	}
	file, format := configFlag(c), outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		result, err := checkConfig(c.Context(), p, p.source(c, *file))
		if *format == "json" {
			return printCheck(p.Out, result, err)
		}
		if err != nil {
			return err
		}
		for _, warning := range result.Warnings {
			p.eprintf("%s\n", "eyelet: warning: "+usage.OneLine(warning.text()))
			if warning.Hint != "" {
				p.eprintf("%s\n", "  hint: "+usage.OneLine(warning.Hint))
			}
		}
		for _, what := range result.Unchecked {
			p.eprintf("eyelet: not checked: %s\n", what)
		}
		good := count(result.Producers, "producer") + ", " + count(result.Handlers, "handler")
		if result.Tenants > 0 {
			good += ", " + count(result.Tenants, "tenant")
		}
		p.printf("%s: good: %s\n", result.File, good)
		return nil
	}
	return c
}

// configResult is the result of config check as JSON.
type configResult struct {
	File      string    `json:"file,omitempty"`
	Good      bool      `json:"good"`
	Producers int       `json:"producers"`
	Handlers  int       `json:"handlers"`
	Tenants   int       `json:"tenants,omitempty"`
	Errors    []finding `json:"errors,omitempty"`
	Warnings  []finding `json:"warnings,omitempty"`
	Unchecked []string  `json:"not_checked,omitempty"`
}

// finding is an error or a warning. File is a variable or a flag if Line is 0.
type finding struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (f finding) text() string {
	return (&usage.Error{At: usage.Place{File: f.File, Line: f.Line}, What: f.Message}).Error()
}

func findings(es usage.Errors) (all []finding) {
	for _, e := range es {
		all = append(all, finding{e.At.File, e.At.Line, e.What, e.Hint})
	}
	return all
}

// checkConfig checks a configuration. The result lists the errors of it, which are the error too.
func checkConfig(ctx context.Context, p *program, src config.Source) (configResult, error) {
	var plan *config.Plan
	s, err := src.Load()
	if s != nil { // serverOptions reports the errors of Load with its own
		plan, _, err = p.serverOptions(ctx, s)
	}
	result := configResult{Good: err == nil}
	if err != nil {
		found, _ := usage.Find(err)
		result.Errors = findings(found)
		return result, err
	}
	result.File, result.Producers, result.Handlers = s.File, len(plan.Producers), len(plan.Handlers)
	var wrong usage.Errors
	result.Tenants, wrong = plan.CheckTenants(ctx)
	wrong = append(plan.Warnings(), wrong...) //nolint:contextcheck // SharedSecrets waits for nothing
	result.Warnings = findings(wrong)
	if kind, _, _ := s.StoreKind(); kind == "postgres" {
		result.Unchecked = []string{"the database and its tables: `eyelet store check` does"}
	}
	return result, plan.Close()
}

// printCheck prints the result as JSON. The exit code has it too.
func printCheck(w io.Writer, result configResult, err error) error {
	if err != nil && len(result.Errors) == 0 {
		return err
	}
	if err := json.NewEncoder(w).Encode(result); err != nil {
		return err
	}
	if !result.Good {
		return &failure{code: exitUsage}
	}
	return nil
}

func configShowCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "show", Short: "Show the effective settings, or their JSON Schema", Args: cobra.NoArgs,
		Long: "Prints the settings that serve would use: those of the file, overridden by the environment, with\n" +
			"the defaults of settings that are missing. Secrets are " + conf.Hidden + ". In producers and\n" +
			"handlers a value made of variables is shown as it is written, ${NAME}, because it may hold a secret.\n" +
			"The query and the user of an address are hidden, and the target of forward except its host. Put\n" +
			"secrets among the words of exec into variables.\n\n" +
			"--schema prints a JSON Schema (draft 2020-12) of eyelet.yaml instead: the names of all settings and\n" +
			"the forms of their values, with which editors complete and check the file. `eyelet config check`\n" +
			"finds more.",
		Example: "  eyelet config show --schema > eyelet.schema.json\n" +
			"  # yaml-language-server: $schema=eyelet.schema.json    (the first line of eyelet.yaml)",
	}
	file := configFlag(c)
	format := c.Flags().StringP("output", "o", "text", "text (YAML) or json")
	schema := c.Flags().Bool("schema", false, "print the JSON Schema of the configuration")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *schema {
			e := json.NewEncoder(p.Out)
			e.SetIndent("", " ")
			return e.Encode(config.Schema())
		}
		s, plan, err := buildPlan(c.Context(), p.source(c, *file), false)
		if err != nil {
			return err
		}
		defer plan.Close() //nolint:errcheck // only key sets that fetch are closed
		shown, err := s.Effective(plan)
		if err != nil {
			return err
		}
		return printConfig(p.Out, shown, *format)
	}
	return c
}

func printConfig(w io.Writer, n *conf.Node, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false) // <secret>
		return e.Encode(n.Plain())
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(n.YAML()); err != nil {
		return err
	}
	return e.Close()
}
