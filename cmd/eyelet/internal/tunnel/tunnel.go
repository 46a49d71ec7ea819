// Package tunnel starts a program that makes a port of this machine public.
package tunnel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// program is a program for tunnels.
type program struct {
	name string
	args func(address, port string) []string
	url  *regexp.Regexp // of its public base, in its output
}

// programs in the order in which they are tried.
var programs = []program{
	{"cloudflared", func(address, _ string) []string { return []string{"tunnel", "--url", "http://" + address} },
		regexp.MustCompile(`https://[a-z0-9]+(?:-[a-z0-9]+)+\.trycloudflare\.com`)},
	{"ngrok", func(address, _ string) []string {
		return []string{"http", address, "--log", "stdout", "--log-format", "logfmt"}
	}, regexp.MustCompile(`url=(https://[^\s"]+)`)},
	{"tailscale", func(_, port string) []string { return []string{"funnel", port} },
		regexp.MustCompile(`https://[a-z0-9.-]+\.ts\.net\b[^\s]*`)},
}

// Names are those of the programs, in the order in which they are tried.
func Names() (names []string) {
	for _, p := range programs {
		names = append(names, p.name)
	}
	return names
}

// Tunnel is a program that runs.
type Tunnel struct {
	URL  string // the public base, without a slash at its end
	Name string // of the program

	end   context.CancelFunc
	ended chan struct{}
}

// Start starts the named program, or the first one that is installed, for HOST:PORT, and waits
// until it has printed its URL. The program ends with ctx, at the latest.
func Start(ctx context.Context, name, host, port string) (*Tunnel, error) {
	for _, p := range programs {
		if name != "" && name != p.name {
			continue
		}
		path, err := exec.LookPath(p.name)
		if err != nil {
			continue
		}
		return p.start(ctx, path, host, port)
	}
	if name != "" && !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("unknown program for tunnels %q; known are %s", name, strings.Join(Names(), ", "))
	}
	if name != "" {
		return nil, fmt.Errorf("%s is not installed", name)
	}
	return nil, fmt.Errorf("none of %s is installed", strings.Join(Names(), ", "))
}

// patience is how long a program may take to print its URL.
const patience = time.Minute

func (p program) start(ctx context.Context, path, host, port string) (*Tunnel, error) {
	ctx, end := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, path, p.args(host+":"+port, port)...) //nolint:gosec // a program of the list
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = writer, writer, 3*time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends the tunnel at its other end
	if err := cmd.Start(); err != nil {
		end()
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	t := &Tunnel{Name: p.name, end: end, ended: make(chan struct{})}
	found, last := make(chan string, 1), make(chan string, 1)
	go func() {
		defer close(t.ended)
		_ = writer.CloseWithError(errors.Join(cmd.Wait(), io.EOF)) // how it ended is in its output
	}()
	go p.read(reader, found, last)
	select {
	case url := <-found:
		t.URL = strings.TrimSuffix(url, "/")
		return t, nil
	case line := <-last:
		t.Stop()
		return nil, fmt.Errorf("%s ended without a URL: %s", p.name, line)
	case <-time.After(patience):
		t.Stop()
		return nil, fmt.Errorf("%s printed no URL within %s", p.name, patience)
	case <-ctx.Done():
		t.Stop()
		return nil, ctx.Err()
	}
}

// read passes on the first URL, and the last line at the end.
func (p program) read(output io.Reader, found, last chan<- string) {
	lines, line := bufio.NewScanner(output), ""
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) != "" {
			line = lines.Text()
		}
		if match := p.url.FindStringSubmatch(line); match != nil {
			select {
			case found <- match[len(match)-1]:
			default: // it was found already
			}
		}
	}
	_, _ = io.Copy(io.Discard, output) // after a line that is too long
	last <- line
}

// Stop ends the program and waits for it.
func (t *Tunnel) Stop() {
	t.end()
	<-t.ended
}
