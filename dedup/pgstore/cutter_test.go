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

// cutter is a proxy before the server that cuts a connection once at its next commit of a handler.
type cutter struct {
	dsn     string
	armed   atomic.Bool
	reaches bool // the server gets the commit, and only its answer is lost
}

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
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte("commit\x00")) && c.armed.Swap(false) {
			if cut.Store(true); !c.reaches {
				_ = client.Close()
				return
			}
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// answer passes on what the server sends.
func (c *cutter) answer(client, server net.Conn, cut *atomic.Bool) {
	defer client.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := server.Read(buf)
		if err != nil || cut.Load() {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
