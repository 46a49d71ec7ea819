package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// Kill ends the server like a crash, also a frozen one. [Server.Start] starts it again.
func (s *Server) Kill() {
	if s.frozen {
		kill(s.PIDs()[1:]) // else they see that it is gone, and end
	}
	s.process.kill()
	s.frozen = false
}

// Freeze makes the server vanish without a packet: it keeps its connections and does nothing, until
// [Server.Thaw] or Kill.
func (s *Server) Freeze() error {
	s.frozen = true
	if err := Suspend(s.PID()); err != nil {
		return err
	}
	return Suspend(s.PIDs()[1:]...)
}

// Thaw continues a frozen server.
func (s *Server) Thaw() error {
	s.frozen = false
	return Resume(s.PIDs()...)
}

// kill kills processes.
func kill(pids []int) {
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}

// Standby makes another server, a synchronous standby of this one, and starts it: from then on
// a commit is on the disks of both. Its directories are as those of [New].
func (s *Server) Standby(ctx context.Context, data, sockets string) (*Server, error) {
	t := &Server{bin: s.bin, data: data, sockets: sockets}
	err := s.run("pg_basebackup", "-D", data, "-h", s.sockets, "-U", User, "-R", "-X", "stream", "-c", "fast",
		"--no-sync")
	if err == nil {
		err = t.Start(ctx)
	}
	if err == nil {
		err = s.exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	}
	if err != nil {
		return t, err
	}
	return t, s.until(ctx, "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync'")
}

// Promote makes a standby the primary. It has no standby itself then.
func (s *Server) Promote(ctx context.Context) error {
	if err := s.exec(ctx, "SELECT pg_promote()"); err != nil {
		return err
	}
	return s.until(ctx, "SELECT NOT pg_is_in_recovery()")
}

// exec runs statements, each for itself.
func (s *Server) exec(ctx context.Context, statements ...string) error {
	c, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for _, statement := range statements {
		if _, err := c.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// until waits until a query returns true.
func (s *Server) until(ctx context.Context, query string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for {
		var ok bool
		if err := c.QueryRow(ctx, query).Scan(&ok); err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("the server does not become ready: "+query), ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
