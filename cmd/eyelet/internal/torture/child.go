package torture

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

// secret signs the load, which never leaves the loopback interface.
const secret = "torture-run-on-loopback-only"

// child is a receiver process.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	url    string
	exited chan struct{}
	err    error // of the process, once exited is closed
}

func startChild(ctx context.Context, argv []string) (*child, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	if err = cmp.Or(err, outErr); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	c := &child{cmd: cmd, stdin: stdin, url: strings.TrimSpace(line), exited: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	if err != nil {
		<-c.exited
		// A crasher of an earlier round may kill the process before it prints its address.
		if killed(c.err) {
			return c, nil
		}
		return nil, fmt.Errorf("the receiver did not start: %w", c.err)
	}
	return c, nil
}

// killed reports whether a process ended by SIGKILL.
func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// kill ends the process like a power failure: no signal handler runs.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// stop lets the process drain and end.
func (c *child) stop() error {
	_ = c.stdin.Close()
	<-c.exited
	return c.err
}

// waitIdle waits until the receiver has no tasks left. It returns false if the process ended first.
func (c *child) waitIdle(ctx context.Context) (bool, error) {
	if c.url == "" {
		return false, nil
	}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/idle", nil)
		if err != nil {
			return false, err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return true, nil
			}
		}
		select {
		case <-c.exited:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Child is the process that is killed: a receiver whose handlers write each run to the effects
// file. Tests insert a store that breaks the promise between the receiver and Badger.
func Child(ctx context.Context, dir string, out io.Writer, between func(dedup.Store) dedup.Store) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 4}))
	var store dedup.Store
	options := badgerstore.Options{Logger: log, RecoverWait: func(int) time.Duration { return 0 }}
	store, err := badgerstore.Open(storeDir(dir), options)
	if err != nil {
		return err
	}
	if between != nil {
		store = between(store)
	}
	file, err := openEffects(effects(dir))
	if err != nil {
		return err
	}
	rx, err := receiver.Open(receiver.Config{
		Store: store, Producers: []producer.Producer{preset.GitHub(secret)}, Handlers: handlers(file), Logger: log,
		Attempts: maxAttempts, BackoffBase: time.Millisecond, BackoffCap: 5 * time.Millisecond,
		InFlightWait: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks/", rx.Handler())
	mux.HandleFunc("/idle", func(w http.ResponseWriter, r *http.Request) {
		stats, err := store.Stats(r.Context())
		if err != nil || stats.Pending+stats.Running > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if _, err := fmt.Fprintf(out, "http://%s\n", l.Addr()); err != nil {
		return err
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return errors.Join(rx.Close(), store.Close(), file.Close())
}

// handlers are two tasks of one event, a task in a lane, an Answer handler, and a crasher.
func handlers(file *os.File) []receiver.Handler {
	return []receiver.Handler{
		receiver.On("github", "push", effect(file, "first")).Named("first"),
		receiver.On("github", "push*", effect(file, "second")).Named("second"),
		receiver.On("github", typeLane, failsFirst(effect(file, "laned"))).Lane(producer.JSON("lane")).Named("laned"),
		receiver.Answer("github", typeAsk, answers(file)).Named("ask"),
		receiver.On("github", typeCrash, effect(file, "beside")).Named("beside"),
		receiver.On("github", typeCrash, crasher(file)).Named("crasher"),
	}
}

// The types of events with handlers of their own.
const (
	typeLane  = "lane"
	typeAsk   = "ask"
	typeCrash = "crash"
)

type handlerFunc = func(context.Context, receiver.Event[[]byte]) error

// failsFirst makes the first attempt of every fourth event fail.
func failsFirst(next handlerFunc) handlerFunc {
	return func(ctx context.Context, ev receiver.Event[[]byte]) error {
		if ev.Attempt == 1 && sha256.Sum256(ev.Body)[0]%4 == 0 {
			return errors.New("the first attempt fails")
		}
		return next(ctx, ev)
	}
}

// answers is a handler that gives every run another response, so that a repeated run shows. The
// first attempt of every fourth event fails, and the producer has to retry.
func answers(file *os.File) func(context.Context, receiver.Event[[]byte]) (receiver.Response, error) {
	run := failsFirst(effect(file, "ask"))
	return func(ctx context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
		if err := run(ctx, ev); err != nil {
			return receiver.Response{}, err
		}
		return receiver.Response{Status: http.StatusOK, Body: []byte(ev.EventID + " " + rand.Text())}, nil
	}
}

// lineEnd ends a complete line of effects. A kill may cut a line at a page boundary of the file;
// its handler has not returned then, and runs again.
const lineEnd = " ."

// openEffects opens the file for appending whole lines: a line that a kill cut gets its newline.
func openEffects(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return file, err
	}
	last := make([]byte, 1)
	if _, err = file.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
		_, err = file.WriteString("\n")
	}
	return file, err
}

// effect is a handler that writes one line per run: the handler, the event, its identifier and the
// digest of its payload.
func effect(file *os.File, name string) handlerFunc {
	return func(_ context.Context, ev receiver.Event[[]byte]) error {
		_, err := fmt.Fprintf(file, "%s %s %s %x%s\n", name, ev.EventID, ev.VendorID, sha256.Sum256(ev.Body), lineEnd)
		return err
	}
}

// crasher is a handler that kills its process in each run.
func crasher(file *os.File) handlerFunc {
	return func(_ context.Context, ev receiver.Event[[]byte]) error {
		if _, err := fmt.Fprintf(file, "crash %s %s %d%s\n", ev.EventID, ev.VendorID, ev.Attempt, lineEnd); err != nil {
			return err
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		return self.Kill()
	}
}
