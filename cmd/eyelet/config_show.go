package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
)

func configShowCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "show", Short: "Show what counts in the end", Args: cobra.NoArgs,
		Long: "Prints the settings as serve would take them: those of the file, overruled by the environment, with the\n" +
			"defaults of what is not set. Secrets are " + config.Hidden + ". In producers and handlers a value that was made of\n" +
			"variables is shown as it was written, ${NAME}, because it may hold a secret; what stands in the query of\n" +
			"an address, and its user, is hidden too, and of the target of forward all but its host. Secrets among the words of exec belong into\n" +
			"variables.",
	}
	file := configFlag(c)
	format := c.Flags().StringP("output", "o", "text", "text (YAML) or json")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkOutput(*format); err != nil {
			return err
		}
		s, err := p.source(c, *file).Load()
		if err != nil {
			return err
		}
		plan, err := s.Build(c.Context(), config.BuildOptions{Stdout: io.Discard})
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

func printConfig(w io.Writer, n config.Shown, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false) // <secret>
		return e.Encode(n.JSON())
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(n.YAML()); err != nil {
		return err
	}
	return e.Close()
}
