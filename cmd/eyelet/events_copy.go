package main

import (
	"cmp"
	"context"
	"net"
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
)

// copyFormats are the forms of a delivery for other programs.
var copyFormats = []string{"curl", "har"}

// printCopy prints the delivery of an event as a curl command or a HAR file.
func printCopy(ctx context.Context, p *program, client *opsclient.Client, event, base, format string) error {
	rec, err := recorded(ctx, client, event)
	if err != nil {
		return err
	}
	if format == "curl" {
		command := rec.Curl(base+rec.Target, bodyFile(event))
		if strings.HasSuffix(command, "'@"+bodyFile(event)+"'") {
			p.eprintf("the body is long or not text: write it to %s, or use -o har\n", bodyFile(event))
		}
		_, err = p.Out.Write([]byte(p.shown(command) + "\n"))
		return err
	}
	text, err := rec.HAR(base + rec.Target)
	if err == nil {
		_, err = p.Out.Write(append(text, '\n'))
	}
	return err
}

// recorded returns the delivery of an event.
func recorded(ctx context.Context, client *opsclient.Client, event string) (*httpfile.File, error) {
	data, err := rawOf(ctx, client, event)
	if err != nil {
		return nil, err
	}
	return httpfile.Parse(event, data)
}

// bodyFile names the file with a body that a curl command cannot hold.
func bodyFile(event string) string { return "body-of-" + event }

// shown returns a text without control characters if it is for a terminal.
func (p *program) shown(text string) string {
	if !isTerminal(p.Out) {
		return text
	}
	return printableLines(text)
}

func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Map(printable, line)
	}
	return strings.Join(lines, "\n")
}

// deliveriesURL returns the public base URL of the deliveries, else the address that serve listens
// on.
func deliveriesURL(s *config.Settings) string {
	scheme, listen := "http://", cmp.Or(s.Listen, config.DefaultListen)
	if s.HasTLS() {
		scheme = "https://"
	}
	if host, port, err := net.SplitHostPort(listen); err == nil && host == "" {
		listen = net.JoinHostPort("localhost", port)
	}
	return cmp.Or(strings.TrimSuffix(s.URL, "/"), scheme+listen)
}
