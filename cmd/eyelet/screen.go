package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/inspect"
)

// screen prints what happens to deliveries, with colours on a terminal only.
type screen struct {
	*program
	json, colour bool
	width        int // of the longest name
}

// newScreen must be called before the outputs are wrapped for a terminal in raw mode.
func newScreen(p *program, format string) *screen {
	return &screen{program: p, json: format == "json", colour: p.terminal(p.Out)}
}

// show prints a line: in JSON as it is, else its text.
func (s *screen) show(what interface{ text(on *screen) string }) {
	text := what.text(s)
	if s.json {
		data, _ := json.Marshal(what) // texts and numbers
		text = string(data)
	}
	s.printf("%s\n", text)
}

// paint returns the text in a colour, an SGR code.
func (s *screen) paint(code, text string) string {
	if !s.colour || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// newServer returns a server with a page that can send. It calls begin with the server's options.
func newServer(
	ctx context.Context, p *program, s *config.Settings, begin func(*server.Options),
) (*server.Server, error) {
	if s.Inspector.Mode == "change" { // a page that is off, or only reads, stays so
		s.Inspector.Mode = "send"
	}
	_, o, err := p.serverOptions(ctx, s)
	if err != nil {
		return nil, err
	}
	begin(&o)
	return server.New(ctx, o)
}

// serveWithKeys runs a server until ctx ends. On a terminal a person can press the keys of
// [pressed]. It calls begin with the server's options.
func serveWithKeys(ctx context.Context, p *program, s *config.Settings, begin func(*server.Options)) error {
	in, keys := p.In.(*os.File)
	keys = keys && p.terminal(p.Out) && term.IsTerminal(int(in.Fd()))
	if keys {
		p.Out, p.Err = returning{p.Out}, returning{p.Err}
	}
	srv, err := newServer(ctx, p, s, begin)
	if err != nil {
		return err
	}
	if !keys {
		return srv.Run(ctx)
	}
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return srv.Run(ctx)
	}
	restore := func() error { return term.Restore(int(in.Fd()), state) }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.eprintf("e explains the last refused delivery, o opens the page, q ends\n")
	go func() { // it may stay blocked when the program ends
		readKeys(in, func(key byte) bool { return pressed(ctx, p, s, key) })
		_ = restore() // a second interrupt ends the program
		cancel()
	}()
	return errors.Join(srv.Run(ctx), restore())
}

// The keys of control characters.
const (
	keyInterrupt = 3
	keyEnd       = 4
)

// readKeys passes on keys until one ends the input, or do wants no more.
func readKeys(in io.Reader, do func(key byte) (more bool)) {
	key := make([]byte, 1)
	for {
		if _, err := in.Read(key); err != nil || key[0] == keyInterrupt || key[0] == keyEnd || !do(key[0]) {
			return
		}
	}
}

// returning adds carriage returns, which a terminal in raw mode needs.
type returning struct{ io.Writer }

func (r returning) Write(data []byte) (int, error) {
	_, err := io.WriteString(r.Writer, strings.ReplaceAll(string(data), "\n", "\r\n"))
	return len(data), err
}

// pressed does what e and o mean while a server runs. It reports whether there are more keys after
// this one.
func pressed(ctx context.Context, p *program, s *config.Settings, key byte) (more bool) {
	does := map[byte]func(context.Context, *program, *opsclient.Client, *config.Settings) error{
		'e': explainLast, 'o': openPage,
	}[key]
	if does != nil {
		client, err := connectRunning(ctx, s)
		if err == nil {
			err = does(ctx, &program{Out: p.Err, Err: p.Err, Environ: p.Environ}, client, s)
		}
		if err != nil {
			p.eprintf("%v\n", err)
		}
	}
	return key != 'q'
}

// explainLast explains the delivery that was refused last.
func explainLast(ctx context.Context, p *program, client *opsclient.Client, _ *config.Settings) error {
	var last uint64
	err := client.EachRefused(ctx, url.Values{"limit": {"1"}}, func(_ []byte, d inspect.Refused) error {
		last = d.Number
		return nil
	})
	if err != nil || last == 0 {
		p.printf("no delivery was refused yet\n")
		return err
	}
	report, err := client.ExplainRefused(ctx, last)
	if err != nil {
		return refusedError(err)
	}
	if err := printServerReport(p, report, "text"); !errors.As(err, new(*failure)) {
		return err
	}
	return nil
}

// openPage opens the page in the browser, or prints its address.
func openPage(ctx context.Context, p *program, client *opsclient.Client, s *config.Settings) error {
	address, err := pageAddress(ctx, client, s)
	if err == nil && !browse(ctx, address) {
		p.printf("%s\n", address)
	}
	return err
}
