package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"

	"golang.org/x/term"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
)

// terminalInput returns the terminal that keys are read from, nil unless both ends of the program
// are one.
func terminalInput(p *program) *os.File {
	in, ok := p.In.(*os.File)
	if !ok || !p.terminal(p.Out) || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	return in
}

// rawTerminal lets keys be read one by one. The function that it returns ends that, and is nil if
// it cannot be done.
func rawTerminal(in *os.File) (restore func() error) {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil
	}
	return func() error { return term.Restore(int(in.Fd()), state) }
}

// pressed does what e and o mean while a server runs, and returns what it says. It reports whether
// the key is one of them.
func pressed(ctx context.Context, p *program, s *config.Settings, key byte) (says string, ok bool) {
	does := map[byte]func(context.Context, *program, *config.Settings) error{'e': explainLast, 'o': openPage}[key]
	if does == nil {
		return "", false
	}
	var text bytes.Buffer
	quiet := *p
	quiet.Out, quiet.Err = &text, &text
	if err := does(ctx, &quiet, s); err != nil {
		quiet.eprintf("%v\n", err)
	}
	return text.String(), true
}

var errNoServer = errors.New("the server does not answer on its operations port")

// explainLast explains the delivery that was refused last.
func explainLast(ctx context.Context, p *program, s *config.Settings) error {
	client, err := connect(ctx, s)
	if err != nil || client == nil {
		return errors.Join(errNoServer, err)
	}
	var last uint64
	err = client.EachRefused(ctx, url.Values{"limit": {"1"}}, func(_ []byte, d inspect.Refused) error {
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
func openPage(ctx context.Context, p *program, s *config.Settings) error {
	client, err := connect(ctx, s)
	if err != nil || client == nil {
		return errors.Join(errNoServer, err)
	}
	address, err := client.LoginURL(ctx, s.Inspector.Prefix)
	if err == nil && !browse(ctx, address) {
		p.printf("%s\n", address)
	}
	return err
}

// keyboard lets a person press keys while a server runs.
type keyboard struct {
	program *program
	in      *os.File // nil without a terminal
}

// newKeyboard must come before the outputs of the program are used: on a terminal they get the
// carriage returns that its raw mode needs.
func newKeyboard(p *program) *keyboard {
	k := &keyboard{program: p, in: terminalInput(p)}
	if k.in != nil {
		p.Out, p.Err = returning{p.Out}, returning{p.Err}
	}
	return k
}

// during runs a server with the keys. The goroutine that reads them may stay blocked when the
// program ends.
func (k *keyboard) during(ctx context.Context, s *config.Settings, run func(context.Context) error) error {
	if k.in == nil {
		return run(ctx)
	}
	restore := rawTerminal(k.in)
	if restore == nil {
		return run(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.program.eprintf("e explains the last refused delivery, o opens the page, q ends\n")
	go readKeys(k.in, func(key byte) bool {
		if key == keyInterrupt || key == keyEnd || key == 'q' {
			_ = restore() // a second interrupt ends the program
			cancel()
			return false
		}
		says, _ := pressed(ctx, k.program, s, key)
		k.program.eprintf("%s", says)
		return true
	})
	return errors.Join(run(ctx), restore())
}

// readKeys passes on keys while do wants more.
func readKeys(in io.Reader, do func(key byte) (more bool)) {
	key := make([]byte, 1)
	for {
		if _, err := in.Read(key); err != nil || !do(key[0]) {
			return
		}
	}
}
