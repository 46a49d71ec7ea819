package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/internal/httpserver"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov4"
)

// The operations port has an eighth of the connections of the port of deliveries, within these
// limits, and heads of at most operationsHead bytes each.
const (
	minOperations, maxOperations = 8, 64
	operationsHead               = 16 << 10
)

// operationsLimits derives the limits of the operations port from those of deliveries.
func operationsLimits(deliveries receiver.Limits) receiver.Limits {
	n := min(maxOperations, max(minOperations, deliveries.Connections/8))
	return receiver.Limits{Connections: n, PerAddress: n, HeadBytes: int64(n) * operationsHead}
}

// listen binds an address.
func (s *Server) listen(ctx context.Context, setting, address string, limits receiver.Limits) error {
	var ln net.Listener
	var err error
	if ln = s.sockets.take(address); ln == nil {
		if path, ok := strings.CutPrefix(address, opsapi.UnixScheme); ok {
			ln, err = listenUnix(ctx, path)
		} else {
			ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		}
	}
	if err == nil {
		s.listeners = append(s.listeners, receiver.Listen(ln, limits))
		return nil
	}
	e := &usage.Error{At: s.Place(setting), What: fmt.Sprintf("%s %s: %s", setting, address, usage.RootCause(err))}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.What = fmt.Sprintf("%s %s: the port is in use", setting, address)
		e.Hint = "another eyelet may be running; choose another port with --" + setting
	case errors.Is(err, syscall.EACCES):
		e.Hint = "ports below 1024 need more rights: choose another one"
	}
	return e
}

// unixListener removes its socket when it is closed.
type unixListener struct {
	*net.UnixListener
	path string
}

// listenUnix binds a Unix socket that only its owner can connect to. It replaces a socket that no
// process serves: the socket is renamed to path once its mode is set.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := checkSocketFree(ctx, path); err != nil {
		return nil, err
	}
	unnamed := path + "-" + rand.Text()[:8]
	ln, err := (&net.ListenConfig{}).Listen(ctx, "unix", unnamed)
	if err != nil {
		return nil, err
	}
	socket := ln.(*net.UnixListener)
	socket.SetUnlinkOnClose(false)
	if err = os.Chmod(unnamed, 0o600); err == nil {
		err = os.Rename(unnamed, path)
	}
	if err != nil {
		_ = os.Remove(unnamed) // best effort
		return nil, errors.Join(err, ln.Close())
	}
	return &unixListener{socket, path}, nil
}

// checkSocketFree returns an error if a process serves the socket, or if the path is not a socket.
func checkSocketFree(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there, and is not a socket", filepath.Base(path))
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil //nolint:nilerr // no process serves it
	}
	_ = conn.Close()
	return syscall.EADDRINUSE
}

// Addr implements net.Listener.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close implements net.Listener.
func (l *unixListener) Close() error {
	err := l.UnixListener.Close()
	if err == nil {
		_ = os.Remove(l.path) // the next start replaces what is left
	}
	return err
}

// operationsAddress is the address of the operations port for the commands of this program:
// HOST:PORT, https://HOST:PORT with TLS, or unix:PATH.
func (s *Server) operationsAddress() string {
	address := s.listeners[1].Addr()
	switch {
	case address.Network() == "unix":
		return opsapi.UnixScheme + address.String()
	case s.OperationsTLS != nil:
		return "https://" + address.String()
	}
	return address.String()
}

// newHTTPServer returns a server that terminates TLS where there is a certificate.
func (s *Server) newHTTPServer(h http.Handler, c certificates) *http.Server {
	o := s.httpOptions()
	if c != nil {
		o.TLS = c.config()
	}
	return httpserver.New(h, o)
}

// Handler serves the receiver through Echo v4, as applications do. The receiver also refuses the
// requests that match no route, so every error is a problem of RFC 9457. All errors are those of
// Echo's router, because no handler returns one.
func Handler(rx *receiver.Receiver) http.Handler {
	e := echo.New()
	echov4.Mount(e, rx)
	refuse := rx.Handler()
	e.HTTPErrorHandler = func(_ error, c echo.Context) {
		if !c.Response().Committed {
			refuse.ServeHTTP(c.Response(), c.Request())
		}
	}
	return e
}
