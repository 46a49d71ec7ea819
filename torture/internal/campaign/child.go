package campaign

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/once"
	"github.com/eyelet-dev/eyelet/once/oncepgx"
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

// settings say which store a child opens, and what its handlers do. The zero value is the store in
// the directory.
type settings struct {
	DSN    string `json:"dsn"`
	Schema string `json:"schema"`
	// Shared is set if the store is in the database too, and not only the effects.
	Shared  bool          `json:"shared"`
	Effects string        `json:"effects"`
	Lease   time.Duration `json:"lease"`
	// Attempts are those of a task; zero is maxAttempts.
	Attempts int `json:"attempts"`
}

func settingsFile(dir string) string { return filepath.Join(dir, "receivers.json") }

func readSettings(dir string) (s settings, err error) {
	text, err := os.ReadFile(settingsFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

func (s settings) write(dir string) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(settingsFile(dir), text, 0o600)
	}
	return err
}

// Child is the process that is killed: a receiver whose handlers write each run to a log. Tests
// insert a store that breaks the promise between the receiver and Badger.
func Child(ctx context.Context, dir string, out io.Writer, between func(dedup.Store) dedup.Store) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 4}))
	set, err := readSettings(dir)
	if err != nil {
		return err
	}
	runs, err := openRuns(dir)
	if err != nil {
		return err
	}
	store, err := set.open(ctx, dir, runs, log)
	if err != nil {
		return err
	}
	if between != nil {
		store = between(store)
	}
	h := &handling{log: runs, settings: set}
	if set.DSN != "" {
		if h.pool, err = pgxpool.New(ctx, set.DSN); err != nil {
			return err
		}
		defer h.pool.Close()
		h.marks = oncepgx.Pool(h.pool)
		h.marks.Logger = log
	}
	rx, err := receiver.Open(receiver.Config{
		Store: store, Producers: []producer.Producer{preset.GitHub(secret)}, Handlers: h.handlers(), Logger: log,
		Attempts: cmp.Or(set.Attempts, maxAttempts), BackoffBase: time.Millisecond, BackoffCap: 5 * time.Millisecond,
		InFlightWait: 100 * time.Millisecond, Lease: set.Lease, RetryAfter: time.Second,
	})
	if err != nil {
		return err
	}
	if err := serve(ctx, out, rx, store); err != nil {
		return err
	}
	return errors.Join(rx.Close(), store.Close(), runs.file.Close())
}

// open opens the store. A database that is not there is waited for.
func (s settings) open(ctx context.Context, dir string, runs *runLog, log *slog.Logger) (dedup.Store, error) {
	if !s.Shared {
		return badgerstore.Open(storeDir(dir), badgerstore.Options{
			Logger: log, RecoverWait: func(int) time.Duration { return 0 },
		})
	}
	for {
		store, err := pgstore.Open(ctx, s.DSN, pgstore.Options{Schema: s.Schema})
		if err == nil {
			return &witness{Store: store, log: runs, leased: map[leaseKey]run{}}, nil
		}
		if _, unavailable := errors.AsType[*dedup.ErrUnavailable](err); !unavailable {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// serve serves deliveries until standard input ends. It prints its address first.
func serve(ctx context.Context, out io.Writer, rx *receiver.Receiver, store dedup.Store) error {
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
	return nil
}

type event = receiver.Event[[]byte]

// handling is what the handlers need.
type handling struct {
	log      *runLog
	settings settings
	pool     *pgxpool.Pool // nil without a database
	marks    *once.Marks[pgx.Tx]
}

// handlers are two tasks of one event, a task in a lane, a slow task, an Answer handler, and a
// crasher.
func (h *handling) handlers() []receiver.Handler {
	return []receiver.Handler{
		h.on("push", "first"),
		h.on("push*", "second"),
		h.on(typeLane, "laned").Lane(producer.JSON("lane")),
		h.on(typeSlow, "slow"),
		h.answer(typeAsk, "ask"),
		h.on(typeCrash, "beside"),
		receiver.On("github", typeCrash, h.crash).Named("crasher"),
	}
}

// The types of events with handlers of their own.
const (
	typeLane  = "lane"
	typeSlow  = "slow"
	typeAsk   = "ask"
	typeCrash = "crash"
)

// run is one run of a handler. The first attempt of every fourth event of a lane or with an answer
// fails; the effect is undone then if there is a transaction, else there was none.
func (h *handling) run(_ context.Context, name string, ev *event, effect func() error) error {
	r := run{
		kind: kindStart, handler: name, event: ev.EventID, vendor: ev.VendorID, attempt: ev.Attempt,
	}
	if err := h.log.write(r); err != nil {
		return err
	}
	err := h.effect(ev, effect)
	if r.kind, r.detail = kindEnd, digest(ev.Body); err != nil {
		r.kind = kindFailed
	}
	return errors.Join(err, h.log.write(r))
}

// effect has the effect of a handler.
func (h *handling) effect(ev *event, effect func() error) error {
	fails := ev.Attempt == 1 && sha256.Sum256(ev.Body)[0]%4 == 0 && (ev.Type == typeLane || ev.Type == typeAsk)
	if fails && !exact(h.settings.Effects) {
		return errFirst
	}
	if err := effect(); err != nil {
		return err
	}
	if fails {
		return errFirst
	}
	if ev.Type == typeSlow {
		time.Sleep(slowest/4 + mathrand.N(slowest*3/4))
	}
	return nil
}

// slowest is how long a slow handler takes at most. It is often paused in the middle.
const slowest = time.Second

var errFirst = errors.New("the first attempt fails")

// unique is another answer in every run.
func unique(ev event) receiver.Response {
	return receiver.Response{Status: http.StatusOK, Body: []byte(ev.EventID + " " + rand.Text())}
}

// crash is a handler that kills its process in each of maxAttempts runs.
func (h *handling) crash(_ context.Context, ev event) error {
	kind := kindStart
	if ev.Attempt > maxAttempts {
		kind = kindFailed
	}
	err := h.log.write(run{
		kind: kind, handler: "crasher", event: ev.EventID, vendor: ev.VendorID, attempt: ev.Attempt,
	})
	if err != nil {
		return err
	}
	if ev.Attempt > maxAttempts {
		return receiver.Reject(errors.New("it would kill another process"))
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Kill()
}
