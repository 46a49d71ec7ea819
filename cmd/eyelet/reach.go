package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

// outline loads what a command needs that looks after events: where the store is, and the running server.
func (p *program) outline(c *cobra.Command, file string) (*config.Settings, error) {
	src := p.source(c, file)
	src.Flags = &pflag.FlagSet{} // --producer and the like are no settings
	src.Outline = true
	return src.Load()
}

// requireStore is a mistake where no server runs and there is no store to open in its place.
func requireStore(c *config.Settings) error {
	kind, dir, err := c.StoreKind()
	if err != nil {
		return usage.Errorf("", "%v", err)
	}
	if kind == "memory" {
		return usage.Errorf("start one: eyelet serve --config "+c.File, "no server runs, and a store in memory is gone with its server")
	}
	if _, err := os.Stat(dir); err != nil {
		return &usage.Error{At: c.Place("store"), What: "there is no store yet: " + dir + ": " + usage.Cause(err), Hint: "serve makes it when it starts"}
	}
	return nil
}

// asking asks the operations port for a path.
type asking func(ctx context.Context, method, path string) (*http.Response, error)

// runningServer returns how to ask the server of these settings, or nil when none answers.
func runningServer(c *config.Settings, ctx context.Context) asking {
	if api, ok, err := runningAPI(c, ctx); ok && err == nil {
		return func(ctx context.Context, method, path string) (*http.Response, error) {
			return api.send(ctx, method, path, nil)
		}
	}
	return nil
}

// runningAPI returns the API of the server of these settings; ok is false when none answers. The error says why
// a server that runs does not talk to us.
func runningAPI(c *config.Settings, ctx context.Context) (api eventsAPI, ok bool, err error) {
	dir, err := stateFolder(c)
	if err != nil {
		return api, false, nil //nolint:nilerr // opening the store tells
	}
	address, token, err := readState(dir)
	if errors.Is(err, fs.ErrPermission) {
		return api, false, usage.Errorf("ask as the user that runs serve", "%s: only its owner may read it", filepath.Join(dir, tokenFile))
	} else if err != nil {
		return api, false, nil //nolint:nilerr // nobody serves
	}
	client, base := operationsClient(c, address)
	api = eventsAPI{live: true, do: func(r *http.Request) (*http.Response, error) {
		r.URL.Scheme, r.URL.Host = base.Scheme, base.Host
		r.Header.Set("Authorization", "Bearer "+token)
		return client.Do(r)
	}}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	res, err := api.get(ctx, "/events?limit=1&id=-")
	if err != nil {
		return api, false, nil //nolint:nilerr // it is gone and left its files behind
	}
	_ = res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized && strings.Contains(res.Header.Get("WWW-Authenticate"), operationsRealm) {
		return api, false, usage.Errorf("serve writes a new one at each start: does --config name the file of the server that runs?",
			"the server at %s does not take the token in %s", address, filepath.Join(dir, tokenFile))
	}
	return api, res.StatusCode == http.StatusOK, nil // else somebody else has the port
}

// operationsClient returns a client for an address of operationsAddress, and the base of its URLs. Over TLS it trusts the
// certificate of operations_tls alone, whatever names that has.
func operationsClient(c *config.Settings, address string) (*http.Client, url.URL) {
	t := &http.Transport{MaxIdleConnsPerHost: choreWorkers, IdleConnTimeout: time.Second}
	if path, ok := c.UnixPath(address); ok {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		return &http.Client{Transport: t}, url.URL{Scheme: "http", Host: "localhost"}
	}
	if host, ok := strings.CutPrefix(address, "https://"); ok {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error { return isOperations(c, state) }}
		return &http.Client{Transport: t}, url.URL{Scheme: "https", Host: host}
	}
	return &http.Client{Transport: t}, url.URL{Scheme: "http", Host: address}
}

// isOperations accepts a server with the certificate of operations_tls.
func isOperations(c *config.Settings, state tls.ConnectionState) error {
	if c.OperationsTLS == nil {
		return errors.New("the server uses operations_tls, and these settings do not name its certificate")
	}
	pair, err := tls.LoadX509KeyPair(c.Path(c.OperationsTLS.CertFile), c.Path(c.OperationsTLS.KeyFile))
	if err == nil && !pair.Leaf.Equal(state.PeerCertificates[0]) {
		err = errors.New("the server's certificate is not that of operations_tls")
	}
	return err
}

// readState reads what serve left for the commands.
func readState(dir string) (address, token string, err error) {
	first, err := os.ReadFile(filepath.Join(dir, tokenFile))
	if err != nil {
		return "", "", err
	}
	second, err := os.ReadFile(filepath.Join(dir, addressFile))
	return strings.TrimSpace(string(second)), strings.TrimSpace(string(first)), err
}
