package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
)

// openTerminal returns a pseudo terminal, what is shown on it, and its keyboard.
func openTerminal(t *testing.T, columns, rows uint16) (tty *os.File, shown *servertest.Buffer, keys io.Writer) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	fd := int(person.Fd())
	check(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	check(t, err)
	check(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}))
	tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	check(t, err)
	shown, ended := &servertest.Buffer{}, make(chan struct{})
	go func() {
		_, _ = io.Copy(shown, person) // until the other end is closed
		close(ended)
	}()
	t.Cleanup(func() {
		_ = tty.Close()
		<-ended
		_ = person.Close()
	})
	return tty, shown, person
}

// TestListsFitATerminal, but not with -o wide.
func TestListsFitATerminal(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "wide"} {
		tty, shown, _ := openTerminal(t, 80, 24)
		p := &program{Out: tty, Err: tty, Environ: []string{"TERM=xterm"}}
		if code := p.Run(t.Context(), "producers", "-o", format); code != exitOK {
			t.Errorf("exit %d: %s", code, shown)
		}
		eventually(t, "the last line", func() bool { return strings.Contains(shown.String(), "\nzoom ") })
		long := 0
		for line := range strings.Lines(shown.String()) {
			if len([]rune(strings.TrimSpace(line))) > 80 {
				long++
			}
		}
		if (long > 0) != (format == "wide") {
			t.Errorf("-o %s: %d lines do not fit:\n%s", format, long, shown)
		}
	}
}

// TestListenIsAListOnATerminal, in which keys do something, and q ends.
func TestListenIsAListOnATerminal(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(app.Close)
	tty, shown, keys := openTerminal(t, 120, 24)
	p := &program{In: tty, Out: tty, Err: tty, Environ: []string{"TERM=xterm", "XDG_CONFIG_HOME=" + t.TempDir()}}
	ended := make(chan int, 1)
	go func() { ended <- p.Run(t.Context(), "listen", app.URL, "github", "--listen", "127.0.0.1:0") }()
	for _, step := range []struct{ key, want string }{
		{"", "from another terminal"}, {"t", "forwarded"}, {"d", "RESPONSE"}, {"q", ""}, {"q", "\x1b[?1049l"},
	} {
		_, err := io.WriteString(keys, step.key)
		check(t, err)
		eventually(t, step.want, func() bool { return strings.Contains(shown.String(), step.want) })
	}
	if code := <-ended; code != exitOK {
		t.Errorf("exit %d: %s", code, shown)
	}
}

// TestTopIsRefreshedOnATerminal of 80 columns, survives the end of the server, and ends with q.
func TestTopIsRefreshedOnATerminal(t *testing.T) {
	t.Parallel()
	file := configured(t, fallible)
	r := launch(t, "serve", "--config", file)
	tty, shown, keys := openTerminal(t, 80, 12)
	p := &program{In: tty, Out: tty, Err: tty, Environ: []string{"TERM=xterm"}}
	ended := make(chan int, 1)
	go func() { ended <- p.Run(t.Context(), "top", "--config", file) }()
	eventually(t, "a report", func() bool { return strings.Contains(shown.String(), "HANDLER") })
	push(t, http.DefaultClient, r.deliveries, "g-1", "{}")
	eventually(t, "another report", func() bool { return strings.Contains(shown.String(), "1 accepted") })
	r.stop()
	eventually(t, "the end of the server", func() bool { return strings.Contains(shown.String(), "no server runs") })
	_, err := io.WriteString(keys, "q")
	check(t, err)
	if code := <-ended; code != exitOK {
		t.Errorf("exit %d: %s", code, shown)
	}
}
