package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"

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

	mu     sync.Mutex
	filter string // in lower case
}

// newScreen must be called before the outputs are wrapped for a terminal in raw mode.
func newScreen(p *program, format string) *screen {
	return &screen{program: p, json: format == "json", colour: p.terminal(p.Out)}
}

// show prints what has the text of the filter: in JSON as it is, else its text.
func (s *screen) show(what interface{ text(on *screen) string }) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, plain := what.text(s), what.text(&screen{})
	if s.json {
		data, _ := json.Marshal(what) // texts and numbers
		text, plain = string(data), string(data)
	}
	if strings.Contains(strings.ToLower(plain), s.filter) {
		s.printf("%s\n", text)
	}
}

// setFilter shows only what has the text; empty shows all.
func (s *screen) setFilter(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter = strings.ToLower(text)
}

// paint returns the text in a colour, an SGR code.
func (s *screen) paint(code, text string) string {
	if !s.colour || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// serveWithKeys runs a server until ctx ends. On a terminal a person can press keys, until press
// wants no more; without press those of [pressed]. It calls begin with the server's options.
func serveWithKeys(
	ctx context.Context, p *program, s *config.Settings, help string,
	press func(ctx context.Context, key byte) (more bool),
	begin func(*server.Options),
) error {
	in, keys := p.In.(*os.File)
	keys = keys && p.terminal(p.Out) && term.IsTerminal(int(in.Fd()))
	if keys {
		p.Out, p.Err = returning{p.Out}, returning{p.Err}
	}
	if s.Inspector.Mode == "change" { // a page that is off, or only reads, stays so
		s.Inspector.Mode = "send"
	}
	_, o, err := p.serverOptions(ctx, s)
	if err != nil {
		return err
	}
	begin(&o)
	srv, err := server.New(ctx, o)
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
	p.eprintf("%se explains the last refused delivery, o opens the page, q ends\n", help)
	go func() { // it may stay blocked when the program ends
		readKeys(in, func(key byte) bool {
			if press != nil {
				return press(ctx, key)
			}
			return pressed(ctx, p, s, key)
		})
		_ = restore() // a second interrupt ends the program
		cancel()
	}()
	return errors.Join(srv.Run(ctx), restore())
}

// The keys of control characters.
const (
	keyInterrupt = 3
	keyEnd       = 4
	keyEscape    = 27
	keyDelete    = 127
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
