package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/conf"
)

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
