package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
)

// pressed does what e and o mean while a server runs, and returns what it says. It reports whether
// the key is one of them.
func pressed(ctx context.Context, p *program, s *config.Settings, key byte) (says string, ok bool) {
	does := map[byte]func(context.Context, *program, *opsclient.Client, *config.Settings) error{
		'e': explainLast, 'o': openPage,
	}[key]
	if does == nil {
		return "", false
	}
	var text bytes.Buffer
	quiet := *p
	quiet.Out, quiet.Err = &text, &text
	client, err := connectRunning(ctx, s)
	if err == nil {
		err = does(ctx, &quiet, client, s)
	}
	if err != nil {
		quiet.eprintf("%v\n", err)
	}
	return text.String(), true
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
	if err := printCauses(p, report, &httpfile.File{}, "text"); !errors.As(err, new(*failure)) {
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

// keyboard lets a person press keys while a server runs.
type keyboard struct {
	program *program
	in      *os.File // nil unless both ends of the program are a terminal
}

// newKeyboard must come before the outputs of the program are used, and after it was asked whether
// they are a terminal: there they get the carriage returns that its raw mode needs.
func newKeyboard(p *program) *keyboard {
	k := &keyboard{program: p}
	if in, ok := p.In.(*os.File); ok && p.terminal(p.Out) && term.IsTerminal(int(in.Fd())) {
		k.in, p.Out, p.Err = in, returning{p.Out}, returning{p.Err}
	}
	return k
}

// during runs a server and passes keys to press, until that wants no more, which ends the server.
// The goroutine that reads them may stay blocked when the program ends.
func (k *keyboard) during(
	ctx context.Context, help string, press func(ctx context.Context, key byte) (more bool),
	run func(context.Context) error,
) error {
	if k.in == nil {
		return run(ctx)
	}
	state, err := term.MakeRaw(int(k.in.Fd()))
	if err != nil {
		return run(ctx) // without keys
	}
	restore := func() error { return term.Restore(int(k.in.Fd()), state) }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.program.eprintf("%s, q ends\n", help)
	go func() {
		readKeys(k.in, func(key byte) bool { return press(ctx, key) })
		_ = restore() // a second interrupt ends the program
		cancel()
	}()
	return errors.Join(run(ctx), restore())
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
