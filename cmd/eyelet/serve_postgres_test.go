package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/internal/pgserver"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// cable is a proxy before the server that can be cut and mended.
type cable struct {
	dsn, address, network, server string

	mu    sync.Mutex
	lis   net.Listener
	conns []net.Conn
	wg    sync.WaitGroup
}

// newCable returns a proxy that is cut.
func newCable(t *testing.T) *cable {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{network: "tcp", server: u.Host}
	if dir := u.Query().Get("host"); dir != "" {
		c.network, c.server = "unix", dir+"/.s.PGSQL.5432"
	}
	c.mend(t)
	u.Host, u.RawQuery = c.address, "sslmode=disable&connect_timeout=2"
	c.dsn = u.String()
	c.cut()
	t.Cleanup(func() {
		c.cut()
		c.wg.Wait()
	})
	return c
}

func (c *cable) mend(t *testing.T) {
	t.Helper()
	at := c.address
	if at == "" {
		at = "127.0.0.1:0"
	}
	lis, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lis, c.address = lis, lis.Addr().String()
	c.wg.Go(func() {
		for {
			client, err := lis.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(c.network, c.server)
			if err != nil {
				_ = client.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, client, server)
			c.mu.Unlock()
			for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
				c.wg.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_, _ = way[0].Close(), way[1].Close()
				})
			}
		}
	})
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.lis.Close()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// TestServeWaitsForItsDatabase starts without one, and loses it later.
func TestServeWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	c := newCable(t)
	c.mend(t)
	file := migrated(t, c.dsn, "handlers: [{producer: gh, type: \"*\", stdout: true}]\n")
	c.cut()

	ctx, cancel := context.WithCancel(t.Context())
	p := &program{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	p.Starting = func(string, string) { cancel() }
	if code := p.Run(ctx, "serve", "--config", file); code != exitOK {
		t.Errorf("ended while it waits: exit %d", code)
	}

	up, log := make(chan [2]string, 2), &servertest.Buffer{}
	started := func(l, o string) { up <- [2]string{l, o} }
	p = &program{In: strings.NewReader(""), Out: io.Discard, Err: log, Starting: started, Serving: started}
	ctx, cancel = context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- p.Run(ctx, "serve", "--config", file, "--log-level", "info") }()
	defer func() {
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("exit %d: %s", code, log.String())
		}
	}()
	at := <-up
	deliveries, readyz := "http://"+at[0], "http://"+at[1]+"/readyz"
	deliver := func(id string) (int, string) {
		status, after, _ := fetch(t, pushRequest(t, deliveries, id, `{"id":"`+id+`"}`))
		return status, after
	}
	ready := func() (int, string) {
		status, _, body := fetch(t, getRequest(t, readyz))
		return status, body
	}
	if status, after := deliver("g-1"); status != 503 || after == "" {
		t.Errorf("while it starts: %d, Retry-After %q", status, after)
	}
	eventually(t, "readiness says why", func() bool {
		status, why := ready()
		return status == 503 && strings.HasPrefix(why, "starting: ") &&
			strings.Contains(why, "cannot connect to 127.0.0.1")
	})
	eventually(t, "the log says why", func() bool {
		return strings.Contains(log.String(), "the store is being opened") &&
			strings.Contains(log.String(), "cannot connect to 127.0.0.1")
	})

	c.mend(t)
	if again := <-up; again != at {
		t.Errorf("it moved to %v", again)
	}
	if status, _ := deliver("g-1"); status != 200 {
		t.Errorf("with its database: %d", status)
	}
	if status, why := ready(); status != 200 {
		t.Errorf("with its database: %d %s", status, why)
	}
	// A task whose Take or outcome is lost would run again once its lease of 30 s has ended.
	eventually(t, "g-1 is done", func() bool { return state(t, file, "g-1") == "done 1" })

	c.cut()
	if status, after := deliver("g-2"); status != 503 || after == "" {
		t.Errorf("without its database: %d, Retry-After %q", status, after)
	}
	eventually(t, "it is not ready", func() bool { status, _ := ready(); return status == 503 })

	c.mend(t)
	eventually(t, "it is ready again", func() bool { status, _ := ready(); return status == 200 })
	eventually(t, "the retry is accepted", func() bool { status, _ := deliver("g-2"); return status == 200 })
	eventually(t, "g-2 is done", func() bool { return state(t, file, "g-2") == "done 1" })
	if t.Failed() {
		_, out, errs := run(t, "events", "list", "--config", file)
		t.Logf("%s%s%s", out, errs, log.String())
	}
}

// TestServeRefusesADatabaseThatLosesEvents, and waits for one that is read-only at the moment.
func TestServeRefusesADatabaseThatLosesEvents(t *testing.T) {
	t.Parallel()
	const handlers = "handlers: [{producer: gh, type: \"*\", stdout: true}]\n"
	lossy := onPostgres(t, pgtest.URL(t)+"&options=-c%20synchronous_commit%3Doff", handlers)
	if code, _, errs := run(t, "serve", "--config", lossy); code != exitUsage ||
		!strings.Contains(errs, "synchronous_commit is off") {
		t.Errorf("exit %d, %s", code, errs)
	}
	if out, errs := command(t, 0, "", "config", "check", "--config", lossy); !strings.Contains(out, "good") ||
		!strings.Contains(errs, "not checked: the database") {
		t.Errorf("offline: %s%s", out, errs)
	}
	readOnly := onPostgres(t, pgtest.URL(t)+"&options=-c%20default_transaction_read_only%3Don", handlers)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &program{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	up := make(chan string, 1)
	p.Starting = func(_, operations string) { up <- "http://" + operations + "/readyz" }
	ended := make(chan int, 1)
	go func() { ended <- p.Run(ctx, "serve", "--config", readOnly) }()
	readyz := <-up
	eventually(t, "readiness says what it waits for", func() bool {
		status, after, body := fetch(t, getRequest(t, readyz))
		return status == 503 && after != "" && strings.Contains(body, "standby or read-only")
	})
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit %d", code)
	}
}

// TestServeWaitsForAStandbyToBecomeThePrimary serves on the primary and on its synchronous standby,
// which takes over.
func TestServeWaitsForAStandbyToBecomeThePrimary(t *testing.T) {
	t.Parallel()
	long(t)
	primary, standby, urls := primaryAndStandby(t)
	file := migrated(t, urls[0], "handlers: [{producer: gh, type: \"*\", stdout: true}]\n")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := configured(t, "")
	if err := os.WriteFile(other, []byte(strings.ReplaceAll(string(text), urls[0], urls[1])), 0o600); err != nil {
		t.Fatal(err)
	}
	r := launch(t, "serve", "--config", file)
	if status, _ := pushOwn(t, r, "g-1"); status != 200 {
		t.Errorf("the primary: %d", status)
	}
	if _, _, policy := fetch(t, getRequest(t, r.deliveries+"/policy")); !strings.Contains(policy, "the loss of one") {
		t.Errorf("with a synchronous standby: %s", policy)
	}
	eventually(t, "the event is done", func() bool { return state(t, file, "g-1") == "done 1" })
	eventually(t, "the standby has it", func() bool {
		_, out, _ := run(t, "store", "check", "--config", other)
		return strings.Contains(out, "1 done, 0 dead") && strings.HasSuffix(out, "0 promises\n")
	})

	ctx, cancel := context.WithCancel(t.Context())
	up, ended := make(chan [2]string, 2), make(chan int, 1)
	began := func(l, o string) { up <- [2]string{"http://" + l, "http://" + o} }
	p := &program{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Starting: began, Serving: began}
	go func() { ended <- p.Run(ctx, "serve", "--config", other) }()
	defer func() {
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("exit %d", code)
		}
	}()
	at := <-up
	eventually(t, "it waits", func() bool {
		status, after, body := fetch(t, getRequest(t, at[1]+"/readyz"))
		return status == 503 && after != "" && strings.HasPrefix(body, "starting: ") &&
			strings.Contains(body, "standby")
	})
	deliver := func(id string) (status int, after string) {
		status, after, _ = fetch(t, pushRequest(t, at[0], id, `{"id":"`+id+`"}`))
		return status, after
	}
	if status, after := deliver("g-2"); status != 503 || after == "" {
		t.Errorf("the standby: %d, Retry-After %q", status, after)
	}
	r.stop()
	<-r.ended
	primary.Kill()
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-up
	for _, id := range []string{"g-1", "g-2"} { // the first one is a duplicate
		if status, _ := deliver(id); status != 200 {
			t.Errorf("%s at the new primary: %d", id, status)
		}
		eventually(t, id+" is done", func() bool { return state(t, other, id) == "done 1" })
	}
	if _, _, policy := fetch(t, getRequest(t, at[0]+"/policy")); !strings.Contains(policy, "a power cut") {
		t.Errorf("without a standby: %s", policy)
	}
}

// primaryAndStandby starts two servers until the end of the test.
func primaryAndStandby(t *testing.T) (primary, standby *pgserver.Server, urls [2]string) {
	t.Helper()
	pgtest.Programs(t)
	dir, err := pgserver.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for i, name := range []string{"a", "b"} {
		sockets := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(sockets, 0o755), pgserver.GiveAway(sockets)); err != nil {
			t.Fatal(err)
		}
		urls[i] = "postgres://" + pgserver.User + "@/postgres?host=" + sockets
	}
	if primary, err = pgserver.New(filepath.Join(dir, "data-a"), filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(primary.Stop)
	if err := primary.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	standby, err = primary.Standby(t.Context(), filepath.Join(dir, "data-b"), filepath.Join(dir, "b"))
	t.Cleanup(standby.Stop)
	if err != nil {
		t.Fatal(err)
	}
	return primary, standby, urls
}

// long skips a test without EYELET_LONG.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("EYELET_LONG") == "" {
		t.Skip("it takes half a minute: set EYELET_LONG=1")
	}
}
