package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// loadOutline loads the settings that commands for events need: the store and the operations port.
func (p *program) loadOutline(c *cobra.Command, file string) (*config.Settings, error) {
	src := p.source(c, file)
	src.Flags = &pflag.FlagSet{} // --producer and others are filters here
	src.Outline = true
	return src.Load()
}

// connect returns a client of the running server, or nil if none responds.
func connect(ctx context.Context, s *config.Settings) (*opsclient.Client, error) {
	return connectAs(ctx, s, false)
}

// connectAs is connect, with the token for reading if the client only reads.
func connectAs(ctx context.Context, s *config.Settings, readOnly bool) (*opsclient.Client, error) {
	dir, err := s.StateDir()
	if err != nil {
		return nil, nil //nolint:nilerr // opening the store reports it
	}
	server := runningServer(s, dir)
	server.ReadOnly = readOnly
	return server.Connect(ctx)
}

// runningServer says how to reach the server of a configuration.
func runningServer(s *config.Settings, stateDir string) opsclient.Running {
	r := opsclient.Running{StateDir: stateDir}
	if pair := keyPair(s, s.OperationsTLS); pair != nil {
		r.CertFile, r.KeyFile = pair.Cert, pair.Key
	}
	return r
}

// running returns a client of the running server, without which the command cannot do anything.
func (p *program) running(c *cobra.Command, file string) (*opsclient.Client, *config.Settings, error) {
	s, err := p.loadOutline(c, file)
	if err != nil {
		return nil, nil, err
	}
	client, err := connectRunning(c.Context(), s)
	return client, s, err
}

// connectRunning is connect where nothing can be done without the server.
func connectRunning(ctx context.Context, s *config.Settings) (*opsclient.Client, error) {
	client, err := connect(ctx, s)
	if err == nil && client == nil {
		err = noServer(s)
	}
	return client, err
}

func noServer(s *config.Settings) error {
	return failf("no server runs on this store and state; start one: eyelet serve --config %s", s.File)
}

// requireStore fails if the store does not exist.
func requireStore(s *config.Settings) error {
	kind, dir, err := s.StoreKind()
	if err != nil {
		return usage.Errorf("", "%v", err)
	}
	if kind == "memory" {
		return usage.Errorf("start one: eyelet serve --config "+s.File,
			"no server runs, and a store in memory is gone with its server")
	}
	if _, err := os.Stat(dir); err != nil && kind == "badger" {
		return &usage.Error{At: s.Place("store"), What: "there is no store yet: " + dir + ": " + usage.Cause(err),
			Hint: "serve creates it"}
	}
	return nil
}

// withServer calls do with a client of the running server, or alone if none runs.
func (p *program) withServer(c *cobra.Command, file string, do func(*opsclient.Client) error,
	alone func(*config.Settings) error) error {
	s, err := p.loadOutline(c, file)
	if err != nil {
		return err
	}
	if client, err := connect(c.Context(), s); err != nil {
		return err
	} else if client != nil {
		return do(client)
	}
	return alone(s)
}

// withEvents calls do with a client of the running server, or of the store, which it opens.
func (p *program) withEvents(c *cobra.Command, file string, do func(*opsclient.Client) error) error {
	return p.withServer(c, file, do, func(s *config.Settings) error {
		if err := requireStore(s); err != nil {
			return err
		}
		store, err := s.OpenStore(c.Context(), slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		return errors.Join(do(opsclient.New(inspect.API(store))), store.Close())
	})
}

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
			At: s.Place("inspector"), What: "the page is off", Hint: "leave out inspector: {mode: off}",
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
