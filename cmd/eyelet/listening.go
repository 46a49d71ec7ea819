package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/receiver"
)

// unixScheme begins the address of a Unix socket, as in unix:/run/eyelet.sock.
const unixScheme = "unix:"

// listen binds an address.
func (s *server) listen(ctx context.Context, setting, address string, limits receiver.Limits) error {
	var ln net.Listener
	var err error
	if path, ok := s.settings.UnixPath(address); ok {
		ln, err = listenUnix(ctx, path)
	} else {
		ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	}
	if err == nil {
		s.listeners = append(s.listeners, receiver.Listen(ln, limits))
		return nil
	}
	m := &usage.Error{At: s.settings.Place(setting), What: fmt.Sprintf("%s %s: %s", setting, address, usage.RootCause(err))}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		m.What = fmt.Sprintf("%s %s: the port is in use", setting, address)
		m.Hint = "another eyelet may be running; choose another port with --" + setting
	case errors.Is(err, syscall.EACCES):
		m.Hint = "ports below 1024 are for the administrator: choose another one"
	}
	return m
}

// unixListener removes its socket when it is closed.
type unixListener struct {
	*net.UnixListener
	path string
}

// listenUnix binds a Unix socket that its owner alone can connect to. It takes the place of one that nobody serves any
// more: the socket gets its name once its mode is set.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := socketFree(ctx, path); err != nil {
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

// socketFree returns an error when a program serves the socket, or when something else has its name.
func socketFree(ctx context.Context, path string) error {
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
		return nil //nolint:nilerr // nobody serves it
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

// operationsAddress is the address of the operations port, as our own commands reach it: HOST:PORT, with https:// before
// it where the port has TLS, or unix:PATH.
func (s *server) operationsAddress() string {
	address := s.listeners[1].Addr()
	switch {
	case address.Network() == "unix":
		return unixScheme + address.String()
	case s.settings.OperationsTLS != nil:
		return "https://" + address.String()
	}
	return address.String()
}
