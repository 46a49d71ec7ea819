package main

import (
	"context"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/freeport"
)

// receivers starts receivers. The folder of each start is new, so that no round pays for the
// compaction of an earlier one.
type receivers struct {
	binaries map[string]string // of Eyelet, Redis and webhook, by receiver; "" if it is not available
	dir      string
}

// start runs a receiver for a workload.
func (rs receivers) start(ctx context.Context, name string, w workload) (r *running, err error) {
	dir, err := os.MkdirTemp(rs.dir, "round-")
	if err != nil {
		return nil, err
	}
	r = &running{dir: dir, address: freeport.Address(), profile: freeport.Address()}
	switch name {
	case "bare", "hand", "hand+worker":
		err = rs.startChild(ctx, r, name, dir)
	case "webhook":
		err = rs.startWebhook(ctx, r, dir)
	default:
		err = rs.startEyelet(ctx, r, rs.binaries[name], dir, w)
	}
	if err != nil {
		r.stop()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// run starts the process of a receiver, which listens on its address.
func (r *running) run(ctx context.Context, dir, binary string, args ...string) error {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr // standard output is the null device
	cmd.Env = append(os.Environ(), profileVariable+"="+r.profile)
	if err := launch(ctx, cmd, "tcp", r.address); err != nil {
		return err
	}
	r.process = cmd
	begin := time.Now()
	_, err := r.scrape(ctx)
	for ; err != nil && time.Since(begin) < startTimeout && ctx.Err() == nil; _, err = r.scrape(ctx) {
		time.Sleep(5 * time.Millisecond) // it is starting
	}
	return err
}

func (rs receivers) startChild(ctx context.Context, r *running, name, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if r.sockets, err = os.MkdirTemp("", "redis"); err != nil {
		return err
	}
	socket := filepath.Join(r.sockets, "s")
	if name != "bare" {
		cmd := exec.CommandContext(ctx, rs.binaries[name], "--port", "0", "--unixsocket", socket, "--dir", dir,
			"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxclients", "1024")
		if err := launch(ctx, cmd, "unix", socket); err != nil {
			return err
		}
		r.services = append(r.services, cmd)
	}
	r.metrics = "http://" + r.address + "/metrics"
	if name == "hand+worker" {
		r.handled = func(m metrics) float64 { return m[handledTotal] }
	}
	return r.run(ctx, dir, self, "-child", name, "-listen", r.address, "-redis", socket)
}

// startWebhook runs adnanh/webhook with a hook that answers after its program has run.
func (rs receivers) startWebhook(ctx context.Context, r *running, dir string) error {
	hook := map[string]any{
		"id": "github", "execute-command": "true", "include-command-output-in-response": true,
		"trigger-rule": map[string]any{"match": map[string]any{
			"type": "payload-hmac-sha256", "secret": secret,
			"parameter": map[string]any{"source": "header", "name": "X-Hub-Signature-256"},
		}},
	}
	text, err := json.Marshal([]any{hook})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "hooks.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(r.address)
	if err != nil {
		return err
	}
	return r.run(ctx, dir, rs.binaries["webhook"], "-hooks", file, "-ip", host, "-port", port, "-urlprefix", "webhooks")
}

//go:embed eyelet.yaml
var eyeletConfig string

// startEyelet runs a binary of Eyelet.
func (rs receivers) startEyelet(ctx context.Context, r *running, binary, dir string, w workload) error {
	operations := freeport.Address()
	handlers := ""
	switch w.handler {
	case "stdout":
		handlers = "stdout: true"
	case "forward":
		target, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{ReadHeaderTimeout: startTimeout, Handler: http.HandlerFunc(accept)}
		r.target = server
		go func() { _ = server.Serve(target) }() // until it is closed
		handlers = fmt.Sprintf("forward: \"http://%s/\"", target.Addr())
	}
	if handlers != "" {
		handlers = fmt.Sprintf("handlers: [{producer: %s, type: \"*\", %s}]", w.signature, handlers)
	}
	public, err := x509.MarshalPKIXPublicKey(signingKey().Public())
	if err != nil {
		return err
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	window, limits, kept := "", "", ""
	if w.refused != "" {
		kept = "refused: " + w.refused
	}
	if w.window > 0 {
		window = fmt.Sprintf(", window: %s, tolerance: {past: 1s, future: 1s}", w.window)
		limits = ", remember_signatures: off"
	}
	text := strings.NewReplacer("LISTEN", r.address, "OPERATIONS", operations, "BASE", base, "SECRET", secret,
		"HANDLERS", handlers, "WINDOW", window, "LIMITS", limits, "REFUSED", kept).Replace(eyeletConfig)
	err = errors.Join(os.WriteFile(filepath.Join(dir, "key.pem"), key, 0o600),
		os.WriteFile(filepath.Join(dir, "eyelet.yaml"), []byte(text), 0o600))
	if err != nil {
		return err
	}
	r.metrics = "http://" + operations + "/metrics"
	r.handled = func(m metrics) float64 {
		return m["eyelet_store_accepted_total"] - m["eyelet_store_tasks_pending"] - m["eyelet_store_tasks_running"] -
			m["eyelet_store_tasks_dead"]
	}
	return r.run(ctx, dir, binary, "serve")
}

// accept is the target of forwarded events.
func accept(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNoContent)
}
