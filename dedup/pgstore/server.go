package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eyelet-dev/eyelet/dedup"
)

// The limits of connections.
const (
	connectTimeout  = 3 * time.Second
	keepIdle        = 10 * time.Second
	keepInterval    = 5 * time.Second
	keepCount       = 3
	defaultMaxConns = 10
	// ownConns is how many connections the steps of a store use at once: two for claims, one for
	// results and one for those that wait for a lock, one to look for work, and one to sweep.
	ownConns = 6
	// patience is how long a call waits for a free connection.
	patience = time.Second
	// lowestServer is the oldest version of PostgreSQL.
	lowestServer = 150000
)

// Name returns where a connection string leads, for people and for other programs: hosts, ports
// and database as a URL, without user, password and settings. It connects to nothing. As in [Open],
// what the string leaves out is read from the environment (PGHOST and others).
func Name(dsn string) (string, error) {
	config, err := poolConfig(dsn, nil)
	if err != nil {
		return "", err
	}
	var hosts []string
	for _, way := range ways(config.ConnConfig) {
		host := way.Host
		if strings.HasPrefix(host, "/") {
			host = url.PathEscape(host) // a folder of sockets, as libpq takes it
		}
		host = net.JoinHostPort(host, strconv.Itoa(int(way.Port)))
		if !slices.Contains(hosts, host) { // it is repeated for each way to encrypt
			hosts = append(hosts, host)
		}
	}
	return "postgres://" + strings.Join(hosts, ",") + "/" + url.PathEscape(config.ConnConfig.Database), nil
}

// ways returns the ways to connect, in the order in which they are tried.
func ways(c *pgx.ConnConfig) []*pgconn.FallbackConfig {
	return append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
}

// Unverified returns the hosts of a connection string beyond this machine to which a connection may
// go without TLS, or with a server that no certificate verifies. Only sslmode verify-full and
// verify-ca prevent that: the default of libpq continues in plain text when TLS is refused. It
// connects to nothing.
func Unverified(dsn string) (hosts []string, err error) {
	config, err := poolConfig(dsn, nil)
	if err != nil {
		return nil, err
	}
	for _, way := range ways(config.ConnConfig) {
		addr, err := netip.ParseAddr(way.Host)
		local := strings.HasPrefix(way.Host, "/") || way.Host == "localhost" || err == nil && addr.Unmap().IsLoopback()
		verified := way.TLSConfig != nil &&
			(!way.TLSConfig.InsecureSkipVerify || way.TLSConfig.VerifyPeerCertificate != nil)
		if !local && !verified && !slices.Contains(hosts, way.Host) {
			hosts = append(hosts, way.Host)
		}
	}
	return hosts, nil
}

// poolConfig returns the settings of the connections of steps. checked is called for each new one
// of a pool. Errors do not quote the connection string.
func poolConfig(dsn string, checked func(dedup.Durability)) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, dsnError(err)
	}
	if !strings.Contains(dsn, "pool_max_conns") {
		config.MaxConns = defaultMaxConns
	}
	c := config.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: keepIdle, Interval: keepInterval, Count: keepCount,
	}}
	c.DialFunc = dialer.DialContext
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		refuseCancels(c)
		return nil
	}
	// An idle connection to a server that is gone costs a claim this long.
	config.PingTimeout = cmp.Or(config.PingTimeout, patience)
	// A server that became a standby keeps its connections: they must lead to the primary again.
	fatal := c.OnPgError
	c.OnPgError = func(pc *pgconn.PgConn, err *pgconn.PgError) bool {
		return err.Code != codeReadOnly && fatal(pc, err)
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, silence)
		defer cancel()
		durability, err := checkServer(ctx, conn)
		if err != nil {
			return err
		}
		checked(durability)
		registerByteaArrays(conn.TypeMap())
		if c.DefaultQueryExecMode != pgx.QueryExecModeCacheDescribe { // there is no pooler between
			_, err = conn.Exec(ctx, sessionSQL, pgx.QueryExecModeSimpleProtocol)
		}
		return err
	}
	return config, nil
}

var errNoCancel = errors.New("statements of the store are not canceled")

// refuseCancels lets a connection send no cancel requests. One would end the wait of a commit for a
// synchronous standby: others would then see the commit, and acknowledge an event that only the
// primary has. Without it they wait for the commit.
func refuseCancels(c *pgx.ConnConfig) {
	var connected atomic.Bool
	dial := c.DialFunc // also of cancel requests
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errNoCancel
		}
		return dial(ctx, network, address)
	}
	c.AfterConnect = func(context.Context, *pgconn.PgConn) error {
		connected.Store(true)
		return nil
	}
}

// handlersConfig returns the settings of the connections of handlers' transactions, whose
// statements are those of the handlers.
func handlersConfig(steps *pgxpool.Config, conns int) *pgxpool.Config {
	config := steps.Copy()
	config.MinConns, config.MaxConns = 0, int32(conns)
	config.BeforeConnect = nil // a handler that takes too long must not hold its locks
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, silence)
		defer cancel()
		_, err := checkServer(ctx, conn)
		return err
	}
	return config
}

const serverSQL = `SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
  current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
  current_setting('synchronous_standby_names'), current_setting('default_transaction_isolation'),
  pg_is_in_recovery(), current_setting('transaction_read_only')`

// sessionSQL bounds what a receiver that vanished can lock. Statements are planned once, and never
// read a whole table: a plan that was made while the tables were empty serves for a long time. So
// they also name what they look up in a way that leaves no other index (see withTasks).
const sessionSQL = `SET statement_timeout = '20s'; SET lock_timeout = '5s';
SET idle_in_transaction_session_timeout = '30s'; SET enable_seqscan = off;
SET plan_cache_mode = force_generic_plan; SET jit = off`

// serverSettings are the settings of a server that a promise depends on.
type serverSettings struct {
	version                     int
	encoding, fsync, full, sync string
	standbys, isolation         string
	recovers                    bool
	readOnly                    string
}

func settingsOf(ctx context.Context, q rowQuerier) (s serverSettings, err error) {
	err = q.QueryRow(ctx, serverSQL, pgx.QueryExecModeExec).Scan(&s.version, &s.encoding, &s.fsync, &s.full, &s.sync,
		&s.standbys, &s.isolation, &s.recovers, &s.readOnly)
	return s, err
}

// checkServer returns an error if the server would break the promises of the store, else what a
// commit survives.
func checkServer(ctx context.Context, c *pgx.Conn) (dedup.Durability, error) {
	s, err := settingsOf(ctx, c)
	if err == nil {
		err = s.refused()
	}
	return s.durability(), err
}

// pooled reports whether there is a pooler between: PgBouncer gives its clients process ids of
// its own. In transaction mode each transaction may run on another connection of the server, so
// there must be no state beyond transactions.
func pooled(ctx context.Context, c *pgx.Conn) (bool, error) {
	var pid uint32
	err := c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid)
	return c.PgConn().PID() != pid, err
}

// unfit returns an error if the tables cannot be in such a database.
func (s *serverSettings) unfit() error {
	switch {
	case s.version < lowestServer:
		return fmt.Errorf("the server has version %d of PostgreSQL: 15 is the lowest", s.version/10000)
	case s.encoding != "UTF8":
		return fmt.Errorf("the database is encoded in %s: create it with ENCODING UTF8", s.encoding)
	}
	return nil
}

func (s *serverSettings) refused() error {
	if err := s.unfit(); err != nil {
		return err
	}
	lost := func(setting, value string) error {
		return fmt.Errorf("%s is %s, so acknowledged events could be lost: set it to on", setting, value)
	}
	switch {
	case s.fsync != "on":
		return lost("fsync", s.fsync)
	case s.full != "on":
		return lost("full_page_writes", s.full)
	case s.sync == "off", s.sync == "local" && s.standbys != "":
		return lost("synchronous_commit", s.sync)
	case s.isolation != "read committed":
		return errors.New("default_transaction_isolation is " + s.isolation + ": set it to read committed")
	case s.recovers, s.readOnly != "off":
		return &dedup.ErrUnavailable{
			Reason:     "the database is a standby or read-only: target_session_attrs=read-write finds the primary",
			RetryAfter: later,
		}
	}
	return nil
}

// durability returns what a commit survives. Of the levels of synchronous_commit, remote_write
// does not wait for the disk of the standby.
func (s *serverSettings) durability() dedup.Durability {
	if s.standbys != "" && (s.sync == "on" || s.sync == "remote_apply") {
		return dedup.DurableReplicated
	}
	return dedup.DurableMachine
}
