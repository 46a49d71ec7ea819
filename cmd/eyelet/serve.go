package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/internal/descriptors"
	"github.com/eyelet-dev/eyelet/internal/httpserver"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

func serveCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "Receive deliveries", Args: cobra.NoArgs,
		Long: "Receives deliveries as configured until Ctrl-C or SIGTERM. It then refuses new deliveries and\n" +
			"finishes running work; a second signal ends it at once. Exits 0 when everything ended within\n" +
			"limits.drain, and 1 when work was left, which continues after the next start.\n\n" +
			"SIGHUP reads the configuration again, as `eyelet reload` does. From a terminal it stops serve.\n\n" +
			"Spans are sent to a collector by the setting tracing or the variables of OpenTelemetry (OTEL_*).",
	}
	file := configFlag(c)
	c.Flags().String("listen", "", "address for deliveries")
	c.Flags().String("operations", "", "address for probes, metrics and events, or off")
	c.Flags().String("url", "", "public base, as producers call it")
	c.Flags().String("store", "", "badger:DIR, postgres://..., or memory:")
	c.Flags().String("log-level", "", "debug, info, warn or error")
	c.Flags().String("log-format", "", "text or json")
	c.Flags().Bool("insecure-http", false, "receive over HTTP without TLS from beyond this machine")
	loss := c.Flags().Bool("accept-loss", false, "open a store although acknowledged events are missing")
	clock := c.Flags().Bool("accept-clock", false, "open a store although the clock is before its last commit")
	c.RunE = func(c *cobra.Command, _ []string) error {
		ignoreSIGPIPE()
		src := p.source(c, *file)
		s, err := src.Load()
		if s == nil {
			return err
		}
		s.AcceptLoss, s.AcceptClock = *loss, *clock     // not in the file: later losses would go unseen
		plan, o, err := p.serverOptions(c.Context(), s) // it reports the errors of Load, too
		if err != nil {
			return err
		}
		o.Warnings = append(config.Exposed(s), s.DescriptorWarnings(descriptors.Limit())...)
		re := &reloader{program: p, src: src, log: o.Log}
		o.Reread = re.from(s, plan)
		var running atomic.Pointer[server.Server]
		hangup := func() {
			if srv := running.Load(); srv == nil {
				o.Log.Warn("SIGHUP is ignored: the server is starting, with the configuration of its start")
			} else {
				_, _ = srv.Reload(context.WithoutCancel(c.Context()), false) // it logs the error
			}
		}
		if p.OnHangup != nil {
			p.OnHangup(hangup)
			defer p.OnHangup(nil)
		}
		srv, err := server.New(c.Context(), o)
		if errors.Is(err, context.Canceled) && c.Context().Err() != nil {
			return nil //nolint:nilerr // it was ended before there was anything to finish
		} else if err != nil {
			return err
		}
		running.Store(srv)
		ctx := context.WithoutCancel(c.Context())
		go re.watchFiles(c.Context(), func() { _, _ = srv.Reload(ctx, false) }) // it logs the error
		return srv.Run(c.Context())
	}
	return c
}

// serverOptions builds the configuration, and returns its plan and the options of its server. It
// reports all errors at once, with those of Load and of the certificates.
func (p *program) serverOptions(ctx context.Context, s *config.Settings) (*config.Plan, server.Options, error) {
	level, _ := s.LogLevel() // a wrong one is reported by Build
	return p.optionsAfter(ctx, s, nil, server.NewLog(p.Err, s.Log.Format, level))
}

// optionsAfter is serverOptions with a log, for a plan that replaces another one, if not nil.
func (p *program) optionsAfter(
	ctx context.Context, s *config.Settings, previous *config.Plan, log *server.Log,
) (*config.Plan, server.Options, error) {
	plan, err := s.Build(ctx, config.BuildOptions{Stdout: p.Out, Log: log.Logger, Previous: previous})
	found, ok := usage.Find(err)
	if err != nil && !ok {
		return nil, server.Options{}, err
	}
	o, err := portOptions(s)
	o.Log = log
	o.LogLevel, _ = s.LogLevel()
	found = append(found, o.CheckCertificates()...)
	if len(found) > 0 {
		err = found.Err() // that of the ports is among them, or follows
	}
	if err != nil {
		if plan != nil {
			err = errors.Join(err, plan.Close())
		}
		return nil, server.Options{}, err
	}
	o.Receiver, o.Targets, o.StdoutGone, o.OnClose = plan.Config, plan.Targets, plan.Stdout.Gone(), plan.Close
	o.HandlerNames, o.OnStarting, o.OnServing = plan.HandlerNames, p.Starting, p.Serving
	return plan, o, nil
}

// portOptions returns the options that need no plan: ports, limits and the store.
func portOptions(s *config.Settings) (o server.Options, err error) {
	o = server.Options{
		Listen: s.Listen, Operations: s.Operations, TLS: keyPair(s, s.TLS), OperationsTLS: keyPair(s, s.OperationsTLS),
		Loopback: httpserver.IsLoopback(s.Listen), HTTP2: s.HTTP2, InsecureHTTP: s.InsecureHTTP,
		ProxyProtocol: s.ProxyProtocol,
		Connections:   s.ConnectionLimits(), HeaderBytes: s.HeaderBytes(),
		HeaderTimeout: s.Limits.HeaderTimeout, IdleTimeout: s.Limits.IdleTimeout, Drain: s.Limits.Drain,
		Inspector: server.Inspector{
			Off: s.Inspector.Mode == "off", ReadOnly: s.Inspector.Mode == "read", Send: s.Inspector.Mode == "send",
			Prefix: s.Inspector.Prefix, Version: version(), Redact: s.Inspector.Redact,
		},
		OpenStore: s.OpenStore, StoreName: s.StoreName(), Place: s.Place, Refused: config.RefusedOptions(s),
		Explain: s.Explain == config.ExplainLog, Tracing: config.TracingOptions(s),
	}
	if path, ok := s.UnixPath(s.Operations); ok {
		if path, err = filepath.Abs(path); err != nil { // commands may run in another folder
			return o, err
		}
		o.Operations = opsapi.UnixScheme + path
	}
	kind, dir, _ := s.StoreKind() // an invalid setting fails below
	if kind == "badger" {
		o.StoreDir = dir
	}
	o.LockState = kind == "postgres" || s.State != "" && s.Path(s.State) != dir
	o.StateDir, err = s.StateDir()
	if s.ACME != nil {
		o.ACME = &server.ACME{Hosts: s.ACME.Hosts, Email: s.ACME.Email, Directory: s.ACME.URL,
			Cache: filepath.Join(o.StateDir, "acme")}
	}
	return o, err
}

// keyPair returns the files of a certificate; nil unless both are set.
func keyPair(s *config.Settings, t *config.TLS) *server.KeyPair {
	if t == nil || t.CertFile == "" || t.KeyFile == "" {
		return nil
	}
	pair := &server.KeyPair{Cert: s.Path(t.CertFile), Key: s.Path(t.KeyFile)}
	if t == s.TLS {
		pair.ClientCA, pair.AskClients = s.Path(t.ClientCAFile), s.AsksForCertificates()
	}
	return pair
}
