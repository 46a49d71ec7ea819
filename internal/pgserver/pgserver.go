// Package pgserver runs PostgreSQL servers of the programs on this machine: for tests, and for
// campaigns that kill them. They flush as a real server does, and listen on a Unix socket only.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Install says what to install if the programs are missing.
const Install = "install PostgreSQL 15 or newer (Debian: apt-get install postgresql pgbouncer)"

// User owns the database of a server, which is called postgres.
const User = "eyelet"

// patience is how long a server may take to start or to end.
const patience = 30 * time.Second

// Server is a PostgreSQL server in a directory.
type Server struct {
	bin, data, sockets string
	process            *Process
	frozen             bool
}

// New makes a server with an empty database, which is not started. data is the directory of its
// files, which must not exist, and sockets that of its socket: it exists, belongs to the user who
// runs the programs ([GiveAway]), and has a name of at most 80 bytes.
func New(data, sockets string) (*Server, error) {
	initdb, err := Find("initdb")
	if err == nil {
		initdb, err = filepath.EvalSymlinks(initdb) // the other programs are beside it
	}
	if err != nil {
		return nil, err
	}
	s := &Server{bin: filepath.Dir(initdb), data: data, sockets: sockets}
	return s, s.run("initdb", "-D", data, "-U", User, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
}

// DSN returns the connection string of the server.
func (s *Server) DSN() string { return "host=" + s.sockets + " user=" + User + " dbname=postgres" }

// PID returns the process id of the server, 0 if it was never started.
func (s *Server) PID() int {
	if s.process == nil {
		return 0
	}
	return s.process.cmd.Process.Pid
}

// Start starts the server, or starts it again, and waits until it accepts connections. It ends
// with this process.
func (s *Server) Start(ctx context.Context) error {
	args := []string{"-D", s.data, "-k", s.sockets}
	for _, setting := range []string{
		"listen_addresses=", "max_connections=200", "shared_buffers=16MB", "log_min_messages=fatal",
		"log_statement=none", "log_min_error_statement=panic", "max_wal_size=4GB", "dynamic_shared_memory_type=mmap",
	} {
		args = append(args, "-c", setting)
	}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		p, err := Launch(s.sockets, filepath.Join(s.bin, "postgres"), args...)
		if err == nil {
			s.process = p
			err = p.Reachable(ctx, s.DSN())
		}
		// After a kill its children may still run. They see that it is gone, and end.
		if err == nil || time.Now().After(end) || !strings.Contains(err.Error(), "lock file") &&
			!strings.Contains(err.Error(), "shared memory") {
			return err
		}
	}
}

// Stop stops the server. Its connections end at once, without a crash. Of one that was killed, it
// removes the shared memory.
func (s *Server) Stop() {
	if s.process != nil {
		s.process.Stop()
		s.removeMemory()
	}
}

// run runs a program until it exits.
func (s *Server) run(program string, args ...string) (err error) {
	cmd := command(filepath.Join(s.bin, program), args...)
	ended := make(chan []byte)
	go func() {
		runtime.LockOSThread() // as in Launch
		var out []byte
		out, err = cmd.CombinedOutput()
		ended <- out
	}()
	if out := <-ended; err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// Find returns the path of a program of PostgreSQL, the newest version first.
func Find(program string) (string, error) {
	var newest []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin", "/opt/homebrew/bin", "/usr/local/bin", "/usr/sbin",
	} {
		dirs, _ := filepath.Glob(pattern) // the patterns are right
		slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
		newest = append(newest, dirs...)
	}
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, dir := range newest {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s was not found: %s", program, Install)
}

// version returns the number in the name of a folder.
func version(dir string) int {
	digits := strings.FieldsFunc(dir, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(digits[len(digits)-1])
	return n
}

// Reachable waits until a server accepts connections.
func (p *Process) Reachable(ctx context.Context, dsn string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, dsn)
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %s", p.cmd.Path, p.output())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %s", p.cmd.Path, err, p.output())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TempDir makes a directory for sockets, and for the files of a server that is not needed for
// long: in memory if possible, where a flush costs nothing, unless TMPDIR is set. It is removed
// when this process has ended, whatever ended it.
func TempDir() (dir string, err error) {
	parents := []string{os.TempDir()}
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		parents = []string{"/dev/shm", os.TempDir()}
	}
	for _, parent := range parents {
		if dir, err = os.MkdirTemp(parent, "eyelet-pgserver-"); err == nil {
			return dir, errors.Join(GiveAway(dir), removeLater(dir))
		}
	}
	return "", err
}

// remover runs until the end of its standard input, that of this process, and removes a directory,
// and the shared memory of servers that were killed. It may have to wait for those that run.
const remover = `cat >/dev/null
for lock in "$1"/*/postmaster.pid; do
	[ -f "$lock" ] && ipcrm -m "$(sed -n '7s/.* //p' "$lock")"
done
for try in 1 2 3 4 5 6 7 8 9; do rm -rf "$1" && break; sleep "$try"; done`

// lifelines are the standard inputs of removers.
var lifelines struct {
	sync.Mutex
	open []*os.File
}

// removeLater starts the process that removes a directory.
func removeLater(dir string) error {
	end, lifeline, err := os.Pipe()
	if err != nil {
		return err
	}
	defer end.Close() //nolint:errcheck // it was not written
	cmd := detached("sh", "-c", remover, "sh", dir)
	cmd.Dir, cmd.Stdin = "/", end
	if err := cmd.Start(); err != nil {
		return errors.Join(err, lifeline.Close())
	}
	lifelines.Lock()
	defer lifelines.Unlock()
	lifelines.open = append(lifelines.open, lifeline)
	return nil
}
