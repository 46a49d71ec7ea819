package campaign

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// runLog is the file to which all receivers append a line for each step of a task. The operating
// system keeps what was written when a process is killed, and the order of the lines is that of the
// steps, also of different processes.
type runLog struct{ file *os.File }

func runsFile(dir string) string { return filepath.Join(dir, "effects.log") }

func openRuns(dir string) (*runLog, error) {
	file, err := os.OpenFile(runsFile(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &runLog{file}, err
}

// The kinds of lines.
const (
	kindStart   = "start"   // a handler was called
	kindEnd     = "end"     // it returned nil; detail is the digest of the payload
	kindFailed  = "failed"  // it returned an error
	kindOutcome = "outcome" // the store accepted a result; detail is its kind
	kindRefused = "refused" // the store refused a result: the lease is lost
)

// run is a line of the log.
type run struct {
	kind, handler string
	event, vendor string // our identifier and the sender's
	attempt, pid  int
	at            time.Time
	detail        string
}

// lineEnd ends a complete line. A kill may cut a line at a page boundary of the file. The next
// line begins with a new line of its own.
const lineEnd = " ."

func (l *runLog) write(r run) error {
	if r.at.IsZero() {
		r.at = time.Now()
	}
	line := []string{
		r.kind, r.handler, r.event, strconv.Quote(r.vendor), strconv.Itoa(r.attempt), strconv.Itoa(os.Getpid()),
		strconv.FormatInt(r.at.UnixNano(), 10), strconv.Quote(r.detail),
	}
	_, err := l.file.WriteString("\n" + strings.Join(line, " ") + lineEnd)
	return err
}

// readRuns calls f for each complete line, in order.
func readRuns(dir string, f func(run)) error {
	file, err := os.Open(runsFile(dir))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	scan := bufio.NewScanner(file)
	for scan.Scan() {
		line, whole := strings.CutSuffix(scan.Text(), lineEnd)
		if !whole {
			continue
		}
		var r run
		var nanos int64
		_, err := fmt.Sscanf(line, "%s %s %s %q %d %d %d %q", &r.kind, &r.handler, &r.event, &r.vendor, &r.attempt,
			&r.pid, &nanos, &r.detail)
		if err != nil {
			return fmt.Errorf("%s: %w: %q", file.Name(), err, line)
		}
		r.at = time.Unix(0, nanos)
		f(r)
	}
	return scan.Err()
}

// task is a task of an event.
type task struct{ event, handler string }

// resultKinds are the kinds of results in the log.
var resultKinds = map[dedup.Kind]string{
	dedup.ResultDone: "done", dedup.ResultDead: "dead", dedup.ResultRetry: "retry", dedup.ResultRelease: "release",
}
