package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/board"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/exchange"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/replay"
)

// newList returns the list of deliveries on a terminal.
func (f *listenCmd) newList(ctx context.Context) *tea.Program {
	m := board.Model{
		Title: "eyelet listen → " + f.target.Redacted(), About: f.about, Colour: f.terminal(f.Out), Now: time.Now,
		Heads: []string{"TIME", "EVENT", "PRODUCER", "TYPE", "STATUS", "OUTCOME", "TOOK"},
		Help:  "d details  r again  t sample  e explain  c curl  / filter  i info  o page  q end",
		Keys:  f.actions(ctx),
	}
	return tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(f.In), tea.WithOutput(f.Out), tea.WithAltScreen(),
		tea.WithoutSignalHandler())
}

// serveWithList runs a server beside the list, until one of them ends.
func (f *listenCmd) serveWithList(
	ctx context.Context, p *program, s *config.Settings, begin func(*server.Options),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := *p
	quiet.Out, quiet.Err = notes{f.list}, notes{f.list}
	srv, err := newServer(ctx, &quiet, s, begin)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- srv.Run(ctx)
		f.list.Quit()
	}()
	if _, err = f.list.Run(); errors.Is(err, tea.ErrProgramKilled) { // ctx ended
		err = nil
	}
	cancel()
	return errors.Join(err, <-ended)
}

// notes shows what is written below the list.
type notes struct{ list *tea.Program }

func (n notes) Write(text []byte) (int, error) {
	go n.list.Send(board.Note(sanitize(strings.TrimSpace(string(text))))) // it waits until the list is shown
	return len(text), nil
}

// show prints a line, or adds it to the list.
func (f *listenCmd) show(line listenLine) {
	if f.list == nil {
		f.screen.show(line)
		return
	}
	key := "" // the attempts of an event have one row
	if line.State != "" {
		key = line.Event
	}
	f.list.Send(board.Row{Key: key, Item: line, Bad: line.bad(), Text: line.text(&screen{}), Cells: []any{
		line.Time, table.ID(sanitize(line.Event)), sanitize(line.Producer), sanitize(line.Type), line.Status,
		briefOutcome.Replace(line.outcome()), table.Minor(line.took()),
	}})
}

// briefOutcome leaves out of an outcome what the list shows.
var briefOutcome = strings.NewReplacer("accepted, is forwarded again", "again", "accepted, ", "")

// actions are those of the keys.
func (f *listenCmd) actions(ctx context.Context) map[string]board.Action {
	selected := func(do func(context.Context, *program, *opsclient.Client, listenLine) error) board.Action {
		return func(item any) board.Shown {
			line, ok := item.(listenLine)
			if !ok {
				return board.Shown{Note: "there is no delivery yet"}
			}
			return f.captured(ctx, func(p *program, client *opsclient.Client) error { return do(ctx, p, client, line) })
		}
	}
	details := selected(f.details)
	return map[string]board.Action{
		"d": details, "enter": details, "e": selected(f.explain), "c": selected(f.curl), "r": selected(f.again),
		"t": func(any) board.Shown { return f.sample(ctx) },
		"i": func(any) board.Shown { return board.Shown{Text: f.about} },
		"o": func(any) board.Shown {
			return f.captured(ctx, func(p *program, client *opsclient.Client) error {
				return openPage(ctx, p, client, f.settings)
			})
		},
	}
}

// captured shows what an action prints: one line as a note.
func (f *listenCmd) captured(ctx context.Context, do func(*program, *opsclient.Client) error) board.Shown {
	var b bytes.Buffer
	client, err := connectRunning(ctx, f.settings)
	if err == nil {
		err = do(&program{Out: &b, Err: &b, Environ: f.Environ}, client)
	}
	if err != nil {
		return board.Shown{Note: sanitize(err.Error())}
	}
	if text := strings.TrimSpace(b.String()); !strings.Contains(text, "\n") {
		return board.Shown{Note: text}
	}
	return board.Shown{Text: b.String()}
}

// details prints the response of the application and the delivery.
func (f *listenCmd) details(ctx context.Context, p *program, client *opsclient.Client, line listenLine) error {
	if line.Event == "" {
		number, err := refusedNumber(ctx, client, line)
		if err != nil {
			return err
		}
		return showRefused(ctx, p.Out, client, strconv.FormatUint(number, 10), "", "text")
	}
	if e, ok := f.sent.Of(line.Event); ok {
		writeExchange(p, e)
	}
	d, _, err := client.Event(ctx, line.Event)
	if err != nil {
		return err
	}
	p.printf("DELIVERY\n")
	return writeDetail(p, d, "text")
}

// writeExchange prints what the application answered. Further fields of the request may be secret.
func writeExchange(p *program, e exchange.Exchange) {
	p.printf("REQUEST to the application\n%s %s\n\nRESPONSE\n", e.Request.Method, sanitize(e.Request.URL.Redacted()))
	if e.Err != nil {
		p.printf("none: %s\n\n", sanitize(e.Err.Error()))
		return
	}
	p.printf("%d %s\n", e.Status, http.StatusText(e.Status))
	for _, name := range slices.Sorted(maps.Keys(e.Header)) {
		for _, value := range e.Header[name] {
			if name == "Set-Cookie" {
				value = fmt.Sprintf("REDACTED(%d)", len(value))
			}
			p.printf("%s: %s\n", sanitize(name), sanitize(value))
		}
	}
	var b strings.Builder
	writeContent(&b, nil, string(e.Body))
	p.printf("%s", b.String())
	if e.Length > len(e.Body) {
		p.printf("(%d of %d bytes)\n", len(e.Body), e.Length)
	}
	p.printf("\n")
}

// refusedNumber returns the number of the refused delivery of a line: the one at its time.
func refusedNumber(ctx context.Context, client *opsclient.Client, line listenLine) (number uint64, err error) {
	nearest := time.Duration(-1)
	q := url.Values{"endpoint": {line.Producer}, "code": {line.Code}}
	err = client.EachRefused(ctx, q, func(_ []byte, d inspect.Refused) error {
		if away := d.Time.Sub(line.Time).Abs(); nearest < 0 || away < nearest {
			number, nearest = d.Number, away
		}
		return nil
	})
	if err == nil && number == 0 {
		err = errors.New("the refused delivery is not kept")
	}
	return number, err
}

// explain explains why a delivery was refused.
func (f *listenCmd) explain(ctx context.Context, p *program, client *opsclient.Client, line listenLine) error {
	if line.Event != "" {
		p.printf("it was accepted; d shows what the application answered\n")
		return nil
	}
	number, err := refusedNumber(ctx, client, line)
	if err != nil {
		return err
	}
	report, err := client.ExplainRefused(ctx, number)
	if err != nil {
		return refusedError(err)
	}
	if err := printServerReport(p, report, "text"); !errors.As(err, new(*failure)) {
		return err
	}
	return nil
}

// curl prints the delivery as a command, without its credentials, which are not kept, and copies it
// where the terminal allows that.
func (f *listenCmd) curl(ctx context.Context, p *program, client *opsclient.Client, line listenLine) error {
	if line.Event == "" {
		return errors.New("it was refused; d shows it")
	}
	rec, err := recorded(ctx, client, line.Event)
	if err != nil {
		return err
	}
	command := rec.Curl(f.targetOf(line.Producer), bodyFile(line.Event))
	// OSC 52: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html
	_, err = io.WriteString(f.Out, "\x1b]52;c;"+base64.StdEncoding.EncodeToString([]byte(command))+"\a")
	p.printf("(copied, if the terminal allows it)\n\n%s\n", printableLines(command))
	return err
}

// again sends the event to the application, as it was accepted.
func (f *listenCmd) again(ctx context.Context, p *program, _ *opsclient.Client, line listenLine) error {
	if line.Event == "" {
		return errors.New("it was refused: the application does not get it")
	}
	stored, err := f.store.Get(ctx, line.Event)
	if err != nil {
		return err
	}
	rec, err := replay.Export(stored)
	if err != nil {
		return err
	}
	client := replay.NewClient()
	defer client.CloseIdleConnections()
	client.Transport = f.sent.Wrap(line.Event, cmp.Or(client.Transport, http.DefaultTransport))
	to := f.targetOf(stored.Payload.Endpoint)
	r, err := replay.Send(ctx, rec, replay.Options{URL: to, Header: replay.Original(rec), Client: client})
	if err == nil {
		p.printf("sent again: %d in %s; d shows the response\n", r.Status, duration.Rough(r.Took))
	}
	return err
}

// sample sends a sample of the next preset, as send does.
func (f *listenCmd) sample(ctx context.Context) board.Shown {
	name := f.vendors[(int(f.samples.Add(1))-1)%len(f.vendors)].Name
	var text bytes.Buffer
	quiet := *f.program
	quiet.Out, quiet.Err = &text, &text
	_ = quiet.Run(ctx, "send", name, "--config", f.sendsFrom(name), "--producer", name) // the text says what failed
	return board.Shown{Note: "sample of " + name + ": " + sanitize(strings.TrimSpace(text.String()))}
}
