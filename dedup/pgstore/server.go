package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eyelet-dev/eyelet/dedup"
)

// The limits of connections. A primary that vanishes without a packet costs half a minute.
const (
	connectTimeout  = 3 * time.Second
	keepIdle        = 10 * time.Second
	keepInterval    = 5 * time.Second
	keepCount       = 3
	defaultMaxConns = 8
	// lowestServer is the oldest version of PostgreSQL.
	lowestServer = 150000
)

// poolConfig returns the settings of the connections of steps. checked is called for each new one.
func poolConfig(dsn string, checked func(dedup.Durability)) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errDSN
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
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		durability, pooler, err := checkServer(ctx, conn)
		if err != nil {
			return err
		}
		checked(durability)
		if !pooler {
			_, err = conn.Exec(ctx, sessionSQL, pgx.QueryExecModeSimpleProtocol)
		}
		return err
	}
	return config, nil
}

// handlersConfig returns the settings of the connections of handlers' transactions, whose
// statements are those of the handlers.
func handlersConfig(steps *pgxpool.Config, conns int) *pgxpool.Config {
	config := steps.Copy()
	config.MinConns, config.MaxConns = 0, int32(conns)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, _, err := checkServer(ctx, conn)
		return err
	}
	return config
}

const serverSQL = `SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
  current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
  current_setting('synchronous_standby_names'), current_setting('default_transaction_isolation'),
  pg_is_in_recovery(), current_setting('transaction_read_only'), pg_backend_pid()`

// sessionSQL bounds what a receiver that vanished can lock. Statements are planned once, and never
// read a whole table: a plan that was made while the tables were empty serves for a long time.
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

// checkServer returns an error if the server would break the promises of the store, else what a
// commit survives, and whether there is a pooler between.
func checkServer(ctx context.Context, c *pgx.Conn) (d dedup.Durability, pooler bool, err error) {
	var s serverSettings
	var pid uint32
	err = c.QueryRow(ctx, serverSQL, pgx.QueryExecModeExec).Scan(&s.version, &s.encoding, &s.fsync, &s.full, &s.sync,
		&s.standbys, &s.isolation, &s.recovers, &s.readOnly, &pid)
	if err == nil {
		err = s.refused()
	}
	return s.durability(), c.PgConn().PID() != pid, err
}

// pooled reports whether there is a pooler between: PgBouncer gives its clients process ids of
// its own. In transaction mode each transaction may run on another connection of the server, so
// there must be no state beyond transactions.
func pooled(ctx context.Context, config *pgx.ConnConfig) (bool, error) {
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	var pid uint32
	err = c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid)
	return c.PgConn().PID() != pid, err
}

func (s *serverSettings) refused() error {
	lost := func(setting, value string) error {
		return fmt.Errorf("%s is %s, so acknowledged events could be lost: set it to on", setting, value)
	}
	switch {
	case s.version < lowestServer:
		return fmt.Errorf("the server has version %d of PostgreSQL: 15 is the lowest", s.version/10000)
	case s.encoding != "UTF8":
		return fmt.Errorf("the database is encoded in %s: create it with ENCODING UTF8", s.encoding)
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
