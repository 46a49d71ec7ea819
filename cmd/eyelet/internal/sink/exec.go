// Package sink holds the actions of handlers: run a program, print a line, forward to a URL.
package sink

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/eyelet-dev/eyelet/receiver"
)

// Sink is the action of a handler.
type Sink interface {
	// Deliver handles a stored event. It returns nil when the event is done, receiver.Reject when
	// it never will be, and another error when it may succeed later.
	Deliver(ctx context.Context, ev receiver.Event[[]byte]) error
	// Answer handles an event while the producer waits. An error is transient.
	Answer(ctx context.Context, ev receiver.Event[[]byte]) (receiver.Response, error)
}

// Exec runs a program for each event, with the payload on its standard input and the metadata in
// EYELET_EVENT_*. The program gets only the environment that it needs to run, so no secret of this
// process leaks into it.
type Exec struct {
	Argv []string
	Dir  string    // working directory: the folder of the configuration file
	Pass []string  // names of further variables
	Tee  io.Writer // also gets what the program writes; nil for none, else safe for concurrent use
	// Log gets the end of the standard error of a program that succeeds; of another it is in the
	// error. May be nil.
	Log *slog.Logger
}

// exitRejected is the exit code that rejects an event for good: EX_DATAERR of sysexits.h.
const exitRejected = 65

// The limits of a program's output, in bytes and time.
const (
	maxExecStdout = 1 << 20
	maxExecStderr = 4 << 10
	maxExecLines  = 20              // in the log
	execWait      = 2 * time.Second // for children of a killed program that hold its outputs open
)

// Deliver implements [Sink].
func (s *Exec) Deliver(ctx context.Context, ev receiver.Event[[]byte]) error {
	_, err := s.run(ctx, ev)
	if r, ok := errors.AsType[*rejection](err); ok {
		return receiver.Reject(r)
	}
	return err
}

// Answer implements [Sink].
func (s *Exec) Answer(ctx context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
	out, err := s.run(ctx, ev)
	if r, ok := errors.AsType[*rejection](err); ok {
		return receiver.Response{Refusal: &receiver.Refusal{Detail: r.detail}}, nil
	} else if err != nil {
		return receiver.Response{}, err
	}
	r := receiver.Response{Status: http.StatusOK, Body: out}
	if len(out) > 0 {
		r.Header = http.Header{"Content-Type": {mediaOf(out)}}
	}
	return r, nil
}

// rejection is why a program rejected an event for good: the detail for the producer, and all that
// the program wrote about it.
type rejection struct{ detail, text string }

func (r *rejection) Error() string { return r.text }

// run returns the output of the program, or a [rejection], or a transient error, which ends with
// the end of the program's standard error.
func (s *Exec) run(ctx context.Context, ev receiver.Event[[]byte]) (out []byte, err error) {
	env, unfit := s.env(ev)
	if unfit != "" {
		return nil, &rejection{unfit, unfit}
	}
	cmd := exec.CommandContext(ctx, s.Argv[0], s.Argv[1:]...)
	stdout, start, end := &bounded{max: maxExecStdout}, &bounded{max: maxExecStderr}, &tail{}
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout = s.Dir, env, bytes.NewReader(ev.Body), stdout
	cmd.Stderr = io.MultiWriter(start, end)
	if s.Tee != nil {
		cmd.Stdout, cmd.Stderr = io.MultiWriter(stdout, s.Tee), io.MultiWriter(start, end, s.Tee)
	}
	killWithChildren(cmd)
	cmd.WaitDelay = execWait
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it exited with 0, and a child of it still holds its outputs open
	}
	var exit *exec.ExitError
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%s was killed: %w: %s", s.Argv[0], context.Cause(ctx), end.text("it wrote no error"))
	case err == nil && stdout.over:
		return nil, fmt.Errorf("%s wrote more than %d bytes", s.Argv[0], maxExecStdout)
	case err == nil:
		s.logLines(ctx, ev, end.text(""))
		return stdout.kept.Bytes(), nil
	case errors.As(err, &exit) && exit.ExitCode() == exitRejected:
		const none = "the event was rejected"
		return nil, &rejection{firstLine(start.kept.String(), none), end.text(none)}
	case errors.As(err, &exit):
		err = fmt.Errorf("%s: %s: %s", s.Argv[0], exit.ProcessState, end.text("it wrote no error"))
	}
	if why := CheckScript(s.Argv[0]); why != nil {
		return nil, fmt.Errorf("%s cannot run: %w (%w)", s.Argv[0], why, err)
	}
	return nil, err
}

// logLines logs the last lines of a text.
func (s *Exec) logLines(ctx context.Context, ev receiver.Event[[]byte], text string) {
	if s.Log == nil || text == "" {
		return
	}
	lines := strings.Split(text, "\n")
	for _, line := range lines[max(0, len(lines)-maxExecLines):] {
		s.Log.InfoContext(ctx, "program wrote to standard error", "event", ev.EventID, "endpoint", ev.Endpoint,
			"type", ev.Type, "id", cmp.Or(ev.VendorID, ev.ID), "line", line)
	}
}

// env returns the program's environment, or why no variable can hold an attribute of the event.
func (s *Exec) env(ev receiver.Event[[]byte]) (env []string, unfit string) {
	for _, name := range append([]string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}, s.Pass...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, v := range [][2]string{
		{"ID", ev.ID}, {"VENDOR_ID", ev.VendorID}, {"EVENT", ev.EventID}, {"PRODUCER", ev.Producer},
		{"ENDPOINT", ev.Endpoint}, {"PRINCIPAL", ev.Principal}, {"TYPE", ev.Type}, {"KEY", ev.KeyField},
		{"ATTEMPT", strconv.Itoa(ev.Attempt)}, {"ACCEPTED", ev.Accepted.UTC().Format(time.RFC3339Nano)},
		{"CONTENT_TYPE", ev.Header.Get("Content-Type")}, {"SOURCE", ev.Source}, {"SUBJECT", ev.Subject},
		{"TIME", ev.Attributes["time"]}, {"VERSION", ev.Version}, {"TENANT", ev.Tenant},
		{"FETCHED", map[bool]string{true: "true"}[ev.Fetched]},
		{"UNVERIFIED", map[bool]string{true: "true"}[ev.Unverified]},
	} {
		if strings.ContainsRune(v[1], 0) {
			return nil, fmt.Sprintf("the event's %s holds a NUL, which no variable can hold", strings.ToLower(v[0]))
		}
		env = append(env, "EYELET_EVENT_"+v[0]+"="+v[1])
	}
	return env, ""
}

// mediaOf returns the media type of a program's output. TwiML needs no XML declaration.
func mediaOf(out []byte) string {
	text := bytes.TrimSpace(out)
	switch {
	case json.Valid(out):
		return "application/json"
	case bytes.HasPrefix(text, []byte("<?xml ")), bytes.HasPrefix(text, []byte("<Response>")),
		bytes.HasPrefix(text, []byte("<Response/>")):
		return "application/xml"
	}
	return "text/plain; charset=utf-8"
}

// firstLine returns the first line that is not blank, without control characters.
func firstLine(text, otherwise string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.Map(printable, strings.ToValidUTF8(line, "?")))
		if line != "" {
			return line
		}
	}
	return otherwise
}

// printable replaces control characters, which could steer a terminal.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// bounded keeps the first max bytes and drops the rest, so that a program never blocks on its
// output. The buffer is not embedded, because its ReadFrom would bypass the limit.
type bounded struct {
	kept bytes.Buffer
	max  int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := min(len(p), b.max-b.kept.Len())
	b.over = b.over || room < len(p)
	b.kept.Write(p[:room])
	return len(p), nil
}

// tail keeps the last maxExecStderr bytes: programs end with what made them fail.
type tail struct {
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-maxExecStderr):]...)
	if over := len(t.kept) - maxExecStderr; over > 0 || len(p) > maxExecStderr {
		t.kept, t.cut = append(t.kept[:0], t.kept[max(0, over):]...), true
	}
	return len(p), nil
}

// text returns the whole lines that were kept, without other control characters and blank ends, or
// another text if there are none.
func (t *tail) text(otherwise string) string {
	text := strings.ToValidUTF8(string(t.kept), "?")
	if _, rest, ok := strings.Cut(text, "\n"); t.cut && ok {
		text = rest
	}
	keep := func(r rune) rune {
		if r == '\n' {
			return r
		}
		return printable(r)
	}
	return cmp.Or(strings.TrimSpace(strings.Map(keep, text)), otherwise)
}
