package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/eyelet-dev/eyelet/internal/freeport"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
	bundled "github.com/eyelet-dev/eyelet/testdata"
)

func TestMain(m *testing.M) {
	if os.Getenv("EYELET_LONG") == "" {
		_ = flag.Set("test.parallel", "8") // unless -parallel is given; most of the time they wait
	}
	testscript.Main(leakless{m}, map[string]func(){"eyelet": child})
}

// child is the program in a process of its own, which ends when the tests are killed.
func child() {
	parent := os.Getppid()
	go func() {
		for range time.Tick(200 * time.Millisecond) {
			if os.Getppid() != parent {
				os.Exit(1)
			}
		}
	}()
	main()
}

// leakless fails the tests when a goroutine is left behind.
type leakless struct{ *testing.M }

func (l leakless) Run() int {
	// Under nohup, or in the background of a script, programs that the tests start would ignore
	// them too.
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	_ = os.Setenv("XDG_CONFIG_HOME", os.DevNull) // no secrets of the user's own `eyelet listen`
	code := l.M.Run()
	pgtest.Stop()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines were left behind:", err)
		return 1
	}
	return code
}

// TestScripts runs the binary as users do. Each script has three free ports, $PORT, $OPS and
// $OTHER, and the bundled deliveries in bundled/.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "ready": ready, "occupy": occupy,
			"flip": flip, "dead": awaitDead, "until": until},
		Setup: setup,
	})
}

func setup(env *testscript.Env) error {
	for _, name := range []string{"PORT", "OPS", "OTHER"} {
		env.Setenv(name, strconv.Itoa(freeport.Port()))
	}
	env.Setenv("HOME", env.WorkDir)
	return errors.Join(os.CopyFS(filepath.Join(env.WorkDir, "bundled"), bundled.Files()),
		os.CopyFS(filepath.Join(env.WorkDir, "planted"), os.DirFS("testdata/planted")))
}

// exits runs a command and compares its exit code: exits 2 eyelet serve.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code is %d, want %s", code, args[0])
	}
}

// ready waits until the server with this operations port accepts deliveries.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready PORT")
	}
	awaited(ts, "no server at port "+args[0], func() bool {
		res, err := http.Get("http://127.0.0.1:" + args[0] + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// occupy takes a port until the script ends.
func occupy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: occupy PORT")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:"+args[0])
	ts.Check(err)
	ts.Defer(func() { _ = ln.Close() })
}

// flip changes a bit of the first byte of a text in a file.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip FILE TEXT")
	}
	file := ts.MkAbs(args[0])
	data, err := os.ReadFile(file)
	ts.Check(err)
	for i := range data {
		if i+len(args[1]) <= len(data) && string(data[i:i+len(args[1])]) == args[1] {
			data[i] ^= 1
			ts.Check(os.WriteFile(file, data, 0o600))
			return
		}
	}
	ts.Fatalf("%s", fmt.Sprintf("%q is not in %s", args[1], args[0]))
}

// awaitDead waits for a number of dead letters: dead 2.
func awaitDead(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: dead COUNT")
	}
	awaited(ts, "never "+args[0]+" dead letters", func() bool {
		ts.Check(ts.Exec("eyelet", "events", "list", "--state", "dead", "-o", "json"))
		return strconv.Itoa(strings.Count(ts.ReadFile("stdout"), "\n")) == args[0]
	})
}

// until runs a command until its output matches: until 'done +1' eyelet events list.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND ...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	awaited(ts, "never "+args[0], func() bool {
		_ = ts.Exec(args[1], args[2:]...) // it may fail until then
		return want.MatchString(ts.ReadFile("stdout"))
	})
}

// awaited waits for what nothing signals.
func awaited(ts *testscript.TestScript, otherwise string, done func() bool) {
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(25 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("%s", otherwise)
		}
	}
}

// check ends the test when there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
