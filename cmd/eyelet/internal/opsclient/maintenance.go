package opsclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Targets lists the targets of forward handlers.
func (c *Client) Targets(ctx context.Context) ([]opsapi.Target, error) {
	return fetch[[]opsapi.Target](ctx, c, http.MethodGet, "/targets")
}

// SwitchTarget switches a target "on" or "off". An unknown name is a [*Refusal] with status 404.
func (c *Client) SwitchTarget(ctx context.Context, name, to, reason string) error {
	q := url.Values{"name": {name}, "switch": {to}, "reason": {reason}}
	return c.send(ctx, http.MethodPost, "/targets?"+q.Encode(), nil)
}

// Handlers returns which handlers are paused.
func (c *Client) Handlers(ctx context.Context) ([]receiver.Control, error) {
	return fetch[[]receiver.Control](ctx, c, http.MethodGet, "/handlers")
}

// SetHandler makes a change of a handler: pause or resume. An unknown name is a [*Refusal] with
// status 404.
func (c *Client) SetHandler(ctx context.Context, change string, r inspect.HandlerRequest) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.send(ctx, http.MethodPost, "/handlers/"+change, body)
}

// Health returns the state of the receiver and its store.
func (c *Client) Health(ctx context.Context) (inspect.Health, error) {
	return fetch[inspect.Health](ctx, c, http.MethodGet, "/health")
}

// Producers returns the producers with what came from them since the server started.
func (c *Client) Producers(ctx context.Context) ([]inspect.ProducerState, error) {
	return fetch[[]inspect.ProducerState](ctx, c, http.MethodGet, "/producers")
}

// Series returns the time series of a step: 1m, 15m, 1h or 6h. The last point is of the present
// step, if the list is not empty.
func (c *Client) Series(ctx context.Context, step string) ([]inspect.Point, error) {
	return fetch[[]inspect.Point](ctx, c, http.MethodGet, "/series?step="+step)
}

// LoginURL returns an address that opens the page at its prefix and logs in. It works once, within
// a minute.
func (c *Client) LoginURL(ctx context.Context, prefix string) (string, error) {
	t, ok := c.transport.(*serverTransport)
	if !ok || t.unix {
		return "", errors.New("a browser cannot reach the operations port: it is a Unix socket")
	}
	login, err := fetch[struct{ Path string }](ctx, c, http.MethodPost, prefix+"/code")
	if err != nil {
		return "", err
	}
	base := t.base
	if host, port, err := net.SplitHostPort(base.Host); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			base.Host = net.JoinHostPort("localhost", port)
		}
	}
	return base.String() + login.Path, nil
}

// Check checks the store.
func (c *Client) Check(ctx context.Context) (opsapi.CheckReport, error) {
	return fetch[opsapi.CheckReport](ctx, c, http.MethodGet, "/store/check")
}

// Repair repairs the store, and reports what it left.
func (c *Client) Repair(ctx context.Context) (opsapi.CheckReport, error) {
	return fetch[opsapi.CheckReport](ctx, c, http.MethodPost, "/store/repair")
}

// Backup writes a backup of the store to w.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	res, err := c.get(ctx, "/store/backup")
	if err != nil {
		return err
	}
	defer drain(res)
	if _, err := io.Copy(w, res.Body); err != nil {
		return fmt.Errorf("the backup is not complete: %w", err)
	}
	if res.Trailer.Get(opsapi.BackupTrailer) == "" {
		return errors.New("the backup is not complete: the server ended it early")
	}
	return nil
}
