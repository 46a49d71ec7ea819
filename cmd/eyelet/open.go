package main

import (
	"context"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

func openCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "open", Short: "Open the page of the running server in a browser", Args: cobra.NoArgs,
		Long: "Asks the running server for a login code, and opens its page in the browser. The address works once,\n" +
			"within a minute. With -o json it is printed.",
	}
	file, format := configFlag(c), outputFlag(c)
	show := c.Flags().Bool("print", false, "print the address instead")
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, s, err := p.running(c, *file)
		if err != nil {
			return err
		}
		address, err := pageAddress(c.Context(), client, s)
		if err != nil {
			return err
		}
		if !*show && *format != "json" && browse(c.Context(), address) {
			p.eprintf("opened the page in the browser; eyelet open --print prints its address\n")
			return nil
		}
		return p.result(*format, map[string]any{"url": address}, "%s\n", address)
	}
	return c
}

// pageAddress returns the address of the page, with a login code.
func pageAddress(ctx context.Context, client *opsclient.Client, s *config.Settings) (string, error) {
	if s.Inspector.Mode == "off" {
		return "", &usage.Error{
			At: s.Place("inspector"), What: "the page is off", Hint: "leave out inspector: {off: true}",
		}
	}
	return client.LoginURL(ctx, s.Inspector.Prefix)
}

// browse opens an address with the program of the system for that, and reports whether it did.
func browse(ctx context.Context, address string) bool {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	return exec.CommandContext(ctx, name, args...).Run() == nil //nolint:gosec // the address of the running server
}
