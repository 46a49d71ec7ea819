package main

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// healthTimeout is how long a server may take to answer a probe.
const healthTimeout = 5 * time.Second

func healthcheckCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "healthcheck", Short: "Ask the running server whether it lives", Args: cobra.NoArgs,
		Long: "Asks /healthz of the operations port, and prints the answer. Exits 1 if there is none within five\n" +
			"seconds. For the health checks of containers, which have no other program to ask with.\n\n" +
			"With --ready it asks /readyz: a server that is starting, stopping or without its store is alive,\n" +
			"and not ready. Restarting it would not help.",
	}
	file, format := configFlag(c), outputFlag(c)
	c.Flags().String("operations", "", "address of the operations port, instead of the configuration's")
	ready := c.Flags().Bool("ready", false, "ask whether it accepts deliveries")
	c.RunE = func(c *cobra.Command, _ []string) error {
		src := p.source(c, *file)
		src.Outline = true
		s, err := src.Load()
		if err != nil {
			return err
		}
		address, err := operationsAddress(s)
		if err != nil {
			return err
		}
		path := "/healthz"
		if *ready {
			path = "/readyz"
		}
		ctx, cancel := context.WithTimeout(c.Context(), healthTimeout)
		defer cancel()
		answer, err := runningServer(s, "").Probe(ctx, address, path)
		if err != nil {
			return failf("%s: %v", s.Operations, err)
		}
		return p.result(*format, map[string]any{"path": path, "answer": answer}, "%s\n", answer)
	}
	return c
}

// operationsAddress returns where this machine reaches the operations port, in the form of
// [opsclient.Running].
func operationsAddress(s *config.Settings) (string, error) {
	if path, ok := s.UnixPath(s.Operations); ok {
		return opsapi.UnixScheme + path, nil
	}
	host, port, err := net.SplitHostPort(s.Operations)
	if s.Operations == server.Off || err != nil || port == "0" {
		return "", &usage.Error{At: s.Place("operations"), What: "operations has no address to ask: " + s.Operations,
			Hint: "write operations: 127.0.0.1:8081"}
	}
	if ip, err := netip.ParseAddr(cmp.Or(host, "0.0.0.0")); err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	address := net.JoinHostPort(host, port)
	if s.OperationsTLS != nil {
		address = "https://" + address
	}
	return address, nil
}
