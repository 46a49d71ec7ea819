package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/verify"
)

// devVendors are the vendors that dev serves, with the prefix of their secrets.
var devVendors = []struct{ name, prefix string }{{"github", ""}, {"stripe", "whsec_"}, {"standard-webhooks", "whsec_"}}

// serve serves until ctx ends, with new keys and the store of the deliveries before.
func (f *devCmd) serve(ctx context.Context, dir string) error {
	folder := filepath.Join(dir, "serve")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return usage.Errorf("", "%s: %s", folder, usage.Cause(err))
	}
	listen, err := freeAddress(ctx, f.listen, config.DefaultListen)
	if err != nil {
		return err
	}
	operations, err := freeAddress(ctx, "", config.DefaultOperations)
	if err != nil {
		return err
	}
	secrets, err := devKeys(folder)
	if err != nil {
		return err
	}
	file := filepath.Join(folder, "eyelet.yaml")
	if err := writeNewFile(file, []byte(devConfig(listen, operations))); err != nil {
		return err
	}
	s, err := config.Source{File: file}.Load()
	if err != nil {
		return err
	}
	return f.serveWithKeys(ctx, s, func() { f.printCommands(listen, folder, secrets) })
}

// serveConfigured serves the endpoints of --config until ctx ends, with the store of the deliveries
// before.
func (f *devCmd) serveConfigured(ctx context.Context, s *config.Settings) error {
	if f.listen != "" {
		s.Listen = f.listen
	}
	return f.serveWithKeys(ctx, s, func() {
		scheme := "http"
		if s.HasTLS() {
			scheme = "https"
		}
		f.printf("\nserving as configured in %s; the store is removed at Ctrl-C\n\n", s.File)
		for _, name := range s.ProducerNames() {
			f.printf("  %-20s  %s://%s/webhooks/%s\n", name, scheme, s.Listen, name)
		}
		f.printf("\n")
	})
}

// serveWithKeys runs a server, with keys on a terminal. It calls printed before.
func (f *devCmd) serveWithKeys(ctx context.Context, s *config.Settings, printed func()) error {
	keys := newKeyboard(f.program)
	s.Log.Level, s.Explain, s.Inspector.Send = "warn", config.ExplainLog, true
	_, o, err := f.serverOptions(ctx, s)
	if err != nil {
		return err
	}
	srv, err := server.New(ctx, o)
	if err != nil {
		return err
	}
	printed()
	return keys.during(ctx, "e explains the last refused delivery, o opens the page",
		func(ctx context.Context, key byte) bool {
			says, _ := pressed(ctx, f.program, s, key)
			f.eprintf("%s", says)
			return key != 'q'
		}, srv.Run)
}

// freeAddress returns the wanted address; without one the default, or one with a free port.
func freeAddress(ctx context.Context, wanted, usual string) (string, error) {
	tries := []string{usual, "127.0.0.1:0"}
	if wanted != "" {
		tries = []string{wanted}
	}
	var err error
	for _, address := range tries {
		var ln net.Listener
		if ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err == nil {
			return ln.Addr().String(), ln.Close()
		}
	}
	return "", usage.Errorf("choose another with --serve-at", "%s: %s", tries[len(tries)-1], usage.RootCause(err))
}

// devKeys creates keys for this run, and returns the secrets to be shown.
func devKeys(dir string) (map[string]string, error) {
	if err := writeKeyPair(verify.Ed25519, filepath.Join(dir, "shop")); err != nil {
		return nil, err
	}
	secrets := map[string]string{}
	for _, v := range devVendors {
		secrets[v.name] = v.prefix + string(verify.GenerateSecret())
		if v.name == "standard-webhooks" {
			secrets[v.name] = standardSecret()
		}
		if err := writeNewFile(filepath.Join(dir, v.name+".secret"), []byte(secrets[v.name]+"\n")); err != nil {
			return nil, err
		}
	}
	return secrets, nil
}

func devConfig(listen, operations string) string {
	text := fmt.Sprintf("listen: %s\noperations: %s\nurl: http://%s\nstore: badger:../store\nproducers:\n"+
		"  shop:\n    scheme: rfc9421\n    keys:\n      - {id: shop, alg: ed25519, public_key_file: shop.pub.pem}\n",
		listen, operations, listen)
	handlers := "handlers:\n  - {producer: shop, type: \"*\", stdout: true}\n"
	for _, v := range devVendors {
		text += fmt.Sprintf("  %s: {preset: %s, secret_file: %s.secret}\n", v.name, v.name, v.name)
		handlers += fmt.Sprintf("  - {producer: %s, type: \"*\", stdout: true}\n", v.name)
	}
	return text + handlers
}

// printCommands prints the endpoints, and commands to copy.
func (f *devCmd) printCommands(listen, dir string, secrets map[string]string) {
	run, file := goRun(), filepath.Join(dir, "eyelet.yaml")
	f.printf("\nserving at http://%s, with new keys; they and the store are removed at Ctrl-C\n\n", listen)
	f.printf("  endpoint of your own  http://%s/webhooks/shop (RFC 9421, key %s)\n", listen,
		filepath.Join(dir, "shop.pem"))
	for _, v := range devVendors {
		f.printf("  %-20s  http://%s/webhooks/%s (secret %s)\n", v.name, listen, v.name, secrets[v.name])
	}
	f.printf("  policy                http://%s/policy\n\n", listen)
	f.printf("  echo '{\"type\":\"order.paid\",\"total\":\"129.00\"}' | %s send - --config %s --producer shop --key "+
		"%s\n",
		run, file, filepath.Join(dir, "shop.pem"))
	f.printf("  %s send github push --config %s --producer github\n", run, file)
	f.printf("  %s events list --config %s\n\n", run, file)
}
