package pgstore

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// cutter is a proxy before the server. It cuts a connection once, after what the store sends
// contains the mark: when the server commits that, so that only the answer is lost, or before the
// server gets it. While it swallows, it passes on nothing and closes nothing.
type cutter struct {
	dsn     string
	mark    atomic.Pointer[string]
	reaches bool
	cuts    atomic.Int64

	swallow sync.RWMutex // held for writing while it swallows
}

// arm makes the proxy cut once.
func (c *cutter) arm(mark string) { c.mark.Store(&mark) }

func newCutter(t *testing.T, dsn string, reaches bool) *cutter {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{reaches: reaches}
	c.dsn = fmt.Sprintf("host=127.0.0.1 port=%d user=%s password='%s' dbname=%s sslmode=disable",
		lis.Addr().(*net.TCPAddr).Port, config.User, config.Password, config.Database)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = lis.Close()
		wg.Wait()
	})
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	wg.Go(func() {
		for {
			client, err := lis.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil {
				_ = client.Close()
				continue
			}
			cut := &atomic.Bool{}
			wg.Go(func() { c.copy(server, client, cut) })
			wg.Go(func() { c.answer(client, server, cut) })
		}
	})
	return c
}

// copy passes on what the store sends.
func (c *cutter) copy(server, client net.Conn, cut *atomic.Bool) {
	defer server.Close()
	c.pass(server, client, func(sent []byte) bool {
		mark := c.mark.Load()
		if mark == nil || !bytes.Contains(sent, []byte(*mark)) || !c.mark.CompareAndSwap(mark, nil) {
			return true
		}
		c.cuts.Add(1)
		cut.Store(true)
		if !c.reaches {
			_ = client.Close()
		}
		return c.reaches
	})
}

// idle is a ReadyForQuery outside of a transaction: what was sent is committed. See
// https://www.postgresql.org/docs/15/protocol-message-formats.html (read 2026-11-23).
var idle = []byte{'Z', 0, 0, 0, 5, 'I'}

// answer passes on what the server sends.
func (c *cutter) answer(client, server net.Conn, cut *atomic.Bool) {
	defer client.Close()
	c.pass(client, server, func(got []byte) bool { return !cut.Load() || !bytes.HasSuffix(got, idle) })
}

// pass copies until a connection ends or more says no to the next bytes.
func (c *cutter) pass(to, from net.Conn, more func([]byte) bool) {
	buf := make([]byte, 1<<20)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		c.swallow.RLock()
		goes := more(buf[:n])
		c.swallow.RUnlock()
		if !goes {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
